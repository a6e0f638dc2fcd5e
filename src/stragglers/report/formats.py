"""A table of results in the formats that people paste: text, Markdown, LaTeX, CSV, JSON.

    text, Markdown, LaTeX   the same strings, between other marks
    CSV, JSON               numbers as they are, not rounded

What comes from run folders is text of strangers: each format escapes it. In a CSV file, a cell
that a spreadsheet would take for a formula gets an apostrophe in front.
"""

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from stragglers.report.cells import blocks, legend
from stragglers.report.console import console
from stragglers.report.result_table import METRICS, Options, Row, Table


def text(tables: Sequence[Table], options: Options) -> str:
    out = io.StringIO()
    screen = console(out, width=1000)
    for table in tables:
        screen.print(table.section.title)
        for block in blocks(table, options):
            screen.print(block)
        for note in table.notes:
            screen.print(f"! {note}")
        if table.notes:
            screen.print()
    for line in legend(options, _compared(tables)):
        screen.print(line)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _compared(tables: Sequence[Table]) -> bool:
    return any(table.reference is not None for table in tables)


def markdown(tables: Sequence[Table], options: Options) -> str:
    lines = []
    for table in tables:
        lines += [f"### {_markdown(table.section.title)}", ""]
        for block in blocks(table, options):
            lines.append(_piped(map(_markdown, block.names)))
            lines.append(_piped(["---", *["---:"] * (len(block.names) - 1)]))
            lines += [*(_piped(map(_markdown, row)) for row in block.rows), ""]
        lines += [*(f"- {_markdown(note)}" for note in table.notes), *[""][: len(table.notes)]]
    lines += [f"{_markdown(line)}  " for line in legend(options, _compared(tables))]
    return "\n".join(lines).rstrip() + "\n"


def _piped(parts: Iterable[str]) -> str:
    return f"| {' | '.join(parts)} |"


def _markdown(given: str) -> str:
    """No markup, no HTML, no link: everything that Markdown would take for a mark is escaped."""
    escaped = given.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = re.sub(r"([\\`*_\[\]#|~])", r"\\\1", escaped)
    return re.sub(r"(?i)(https?|ftp|mailto|www)(?=[:.])", r"\1&#8203;", escaped)


def latex(tables: Sequence[Table], options: Options) -> str:
    """Tables for booktabs."""
    lines = []
    for table in tables:
        lines += [r"\begin{table}", r"  \centering"]
        for block in blocks(table, options):
            lines.append(f"  \\begin{{tabular}}{{l{'r' * (len(block.names) - 1)}}}")
            lines += [r"    \toprule", f"    {_row_of(block.names)}", r"    \midrule"]
            lines += [f"    {_row_of(row)}" for row in block.rows]
            lines += [r"    \bottomrule", r"  \end{tabular}", ""]
        said = [table.section.title, *legend(options, table.reference is not None), *table.notes]
        lines.append(f"  \\caption{{{' '.join(f'{_latex(line)}.' for line in said)}}}")
        lines += [r"\end{table}", ""]
    return "\n".join(lines[:-1]) + "\n"


def _row_of(parts: Sequence[str]) -> str:
    return " & ".join(map(_latex, parts)) + r" \\"


LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "–": "--",
    "[": "{[}",
    "]": "{]}",  # a bracket after \\ would be its argument
}


def _latex(given: str) -> str:
    return "".join(LATEX.get(character, character) for character in given)


def csv_text(tables: Sequence[Table], options: Options) -> str:
    """One line for each experiment of all sections; accuracies are shares, times seconds."""
    rows = [
        {"task": table.section.task, "latency": table.section.latency, **_flat(row, options)}
        for table in tables
        for row in table.rows
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_no_formula, names))
    for row in rows:
        writer.writerow([_no_formula(row.get(name)) for name in names])
    return out.getvalue()


def _flat(row: Row, options: Options) -> dict[str, Any]:
    found: dict[str, Any] = {"algorithm": row.experiment.label, "name": row.experiment.name}
    for key in METRICS:
        summary = row.metrics[key]
        found |= {key: summary.median, f"{key}_low": summary.low, f"{key}_high": summary.high}
    for target, reached in zip(options.targets, row.targets, strict=True):
        key = f"time_to_{target.group}_{target.accuracy:g}"
        found |= {key: reached.median, f"{key}_trials": reached.there}
    for key, pairs in row.pairs.items():
        found |= {
            f"{key}_difference": pairs.difference,
            f"{key}_pairs": len(pairs.seeds),
            f"{key}_p": pairs.p,
        }
    if paper := row.experiment.paper:
        found |= {
            "paper_straggler_accuracy": paper["straggler"] / 100,
            "paper_total_accuracy": paper["total"] / 100,
            "paper_time_s": paper["time_s"],
        }
    counts = {"trials": row.over, "diverged": row.diverged, "unfinished": row.unfinished}
    return found | counts


def _no_formula(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str) and value.lstrip()[:1] in tuple("=+-@|%＝＋－＠"):
        return f"'{value}"
    return value


def json_text(tables: Sequence[Table], options: Options) -> str:
    document = {
        "at": "best" if options.best else "final",
        "interval": {"method": options.interval.method, "level": options.interval.level},
        "tables": [
            {
                "task": table.section.task,
                "latency": table.section.latency,
                "reference": table.reference,
                "rows": [_object(row, options) for row in table.rows],
                "notes": table.notes,
            }
            for table in tables
        ],
    }
    return msgspec.json.encode(document).decode() + "\n"


def _object(row: Row, options: Options) -> dict[str, Any]:
    experiment = row.experiment
    return {
        "algorithm": experiment.label,
        "name": experiment.name,
        "hash": experiment.hash,
        "trials": row.over,
        "diverged": row.diverged,
        "unfinished": row.unfinished,
        "seeds": [trial.seed for trial in experiment.finished],
        **{key: row.metrics[key]._asdict() for key in METRICS},
        "targets": [
            {**target._asdict(), **reached._asdict()}
            for target, reached in zip(options.targets, row.targets, strict=True)
        ],
        "pairs": {key: pairs._asdict() for key, pairs in row.pairs.items()},
        "paper": experiment.paper,
    }


FORMATS: dict[str, Callable[[Sequence[Table], Options], str]] = {
    "text": text,
    "markdown": markdown,
    "latex": latex,
    "csv": csv_text,
    "json": json_text,
}
