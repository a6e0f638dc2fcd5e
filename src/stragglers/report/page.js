// Draws each section's two figures; the state of a section is what its buttons say.
"use strict";
(() => {
  const sections = JSON.parse(document.getElementById("data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 40rem)");
  const config = { displayModeBar: false, displaylogo: false, responsive: true };

  // plotly takes some tags in labels for markup, and %{...} for a template.
  const plain = (text) =>
    text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")
      .replaceAll("%{", "%\u200b{");
  const percent = (values) => values.map((value) => (value === null ? null : 100 * value));
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const faint = (hex) => hex + "26";

  function layout(x, y) {
    const axis = {
      gridcolor: colour("--rule"), linecolor: colour("--soft"), zeroline: false, automargin: true,
      tickfont: { color: colour("--soft") }, fixedrange: narrow.matches,
    };
    const title = (text) => ({ text, standoff: 12, font: { color: colour("--soft") } });
    return {
      xaxis: { ...axis, showline: true, title: title(x) },
      yaxis: { ...axis, ticksuffix: " %", title: title(y) },
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("--ink") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 8, r: 8, t: 12, b: 8 }, showlegend: false, hovermode: "closest",
      hoverlabel: {
        bgcolor: colour("--raised"), bordercolor: colour("--rule"), align: "left", namelength: -1,
        font: { color: colour("--ink") },
      },
    };
  }

  function along(data, axis, of) {
    return axis === "time_s" ? of.time_s.map((time) => time / data.unit.size) : of.updates;
  }

  function curves(data, state) {
    const traces = [];
    const where = state.axis === "time_s" ? `%{x:.3~f} ${data.unit.name}` : "%{x:,} updates";
    data.experiments.forEach((one, index) => {
      if (!state.shown.has(index)) return;
      const name = plain(one.label);
      const line = { color: one.colour, dash: one.dash };
      if (one.band) {
        const x = along(data, state.axis, one.band);
        const [median, low, high] = one.band[state.group].map(percent);
        const edge = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
        traces.push({ ...edge, y: low });
        traces.push({ ...edge, y: high, fill: "tonexty", fillcolor: faint(one.colour) });
        traces.push({
          x, y: median, mode: "lines", line: { ...line, width: 2.2 },
          customdata: low.map((value, i) => [value, high[i]]),
          hovertemplate: `<b>${name}</b><br>%{y:.1f} % [%{customdata[0]:.1f}, %{customdata[1]:.1f}]<br>${where}<extra></extra>`,
        });
      }
      for (const trial of one.loners) {
        const x = along(data, state.axis, trial);
        const last = x.map((_, i) => (trial.status === "diverged" && i === x.length - 1 ? 9 : 0));
        traces.push({
          x, y: percent(trial[state.group]), mode: "lines+markers", line: { ...line, width: 1 },
          marker: { symbol: "x-thin", size: last, line: { width: 2, color: one.colour } },
          hovertemplate: `<b>${name}</b><br>seed ${trial.seed}, ${trial.status}<br>%{y:.1f} %<br>${where}<extra></extra>`,
        });
      }
    });
    const x = state.axis === "time_s" ? `simulated time [${data.unit.name}]` : "client updates";
    const settings = layout(x, `${state.group.replace("_", " ")} accuracy`);
    settings.xaxis.rangemode = "tozero";
    return [traces, settings];
  }

  function points(data, state) {
    const time = state.against === "time_s";
    const scale = time ? 1 / data.unit.size : 100;
    const found = [];
    data.experiments.forEach((one, index) => {
      const y = one[state.at].straggler_accuracy;
      const x = one[state.at][state.against];
      if (state.shown.has(index) && x[0] !== null && y[0] !== null) found.push({ one, x, y });
    });
    const bars = ([middle, low, high], by, tint) => ({
      type: "data", symmetric: false, thickness: 1.2, width: 0, color: tint,
      array: [by * ((high ?? middle) - middle)], arrayminus: [by * (middle - (low ?? middle))],
    });
    const traces = found.map(({ one, x, y }) => ({
      x: [scale * x[0]], y: [100 * y[0]], mode: "markers",
      error_x: bars(x, scale, one.colour), error_y: bars(y, 100, one.colour),
      marker: { color: one.colour, symbol: one.marker, size: 10 },
      hovertemplate: `<b>${plain(one.label)}</b><br>straggler %{y:.1f} %<br>${time ? `%{x:.3~f} ${data.unit.name}` : "total %{x:.1f} %"}<extra></extra>`,
    }));
    const unbeaten = found.filter(({ x, y }) => !found.some((other) => {
      const ahead = time ? x[0] - other.x[0] : other.x[0] - x[0];
      return ahead >= 0 && other.y[0] >= y[0] && (ahead > 0 || other.y[0] > y[0]);
    })).sort((one, other) => one.x[0] - other.x[0]);
    traces.unshift({
      x: unbeaten.map(({ x }) => scale * x[0]), y: unbeaten.map(({ y }) => 100 * y[0]),
      mode: "lines", line: { color: colour("--soft"), width: 1 }, opacity: 0.6, hoverinfo: "skip",
    });
    const settings = layout(time ? `simulated time [${data.unit.name}]` : "total accuracy", "straggler accuracy");
    if (time) settings.xaxis.rangemode = "tozero";
    else settings.xaxis.ticksuffix = " %";
    return [traces, settings];
  }

  function start(root) {
    const data = sections[Number(root.dataset.section)];
    const everything = () => new Set(data.experiments.keys());
    const state = {
      group: "straggler", axis: "time_s", against: "total_accuracy", at: "final", shown: everything(),
    };
    const draw = () => {
      for (const [name, figure] of Object.entries({ curves, points })) {
        Plotly.react(root.querySelector(`[data-plot="${name}"]`), ...figure(data, state), config);
      }
    };
    const press = () => {
      for (const key of ["group", "axis", "against", "at"]) {
        for (const button of root.querySelectorAll(`[data-${key}]`)) {
          button.setAttribute("aria-pressed", String(button.dataset[key] === state[key]));
        }
      }
      for (const button of root.querySelectorAll("[data-toggle]")) {
        button.setAttribute("aria-pressed", String(state.shown.has(Number(button.dataset.toggle))));
      }
      for (const button of root.querySelectorAll("[data-set]")) {
        const members = data.sets[button.dataset.set] ?? [...everything()];
        const same = members.length === state.shown.size && members.every((i) => state.shown.has(i));
        button.setAttribute("aria-pressed", String(same));
      }
    };
    root.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      for (const key of ["group", "axis", "against", "at"]) {
        if (key in button.dataset) state[key] = button.dataset[key];
      }
      if ("set" in button.dataset) state.shown = new Set(data.sets[button.dataset.set] ?? everything());
      if ("toggle" in button.dataset) {
        const index = Number(button.dataset.toggle);
        if (!state.shown.delete(index)) state.shown.add(index);
      }
      press();
      draw();
    });
    dark.addEventListener("change", draw);
    draw();
  }

  document.querySelectorAll("[data-section]").forEach(start);
})();
