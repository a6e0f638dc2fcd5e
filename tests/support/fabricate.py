"""Run folders made up: curves that rise, without training; and changed, with a seal that holds."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from stragglers._core import seals, toml_files
from stragglers.config import catalog, documents
from stragglers.runs.curve import checked


def run_folder(
    root: Path,
    name: str = "glyphs/per-domain/fedadam",
    seed: int = 0,
    *,
    preset: str | None = None,
    height: float = 0.7,
    seconds: float = 20_000.0,
    points: int = 10,
    status: str = "finished",
    diverged: str | None = None,
    dropped: int = 0,
    digest: str = "0123abcd",
    set: tuple[str, ...] = (),
    changes: dict[str, Any] | None = None,
    unknown: tuple[str, ...] = (),
    matched: bool = False,
) -> Path:
    """One trial; `height` is its last straggler accuracy, and totals are a tenth higher.

    Where there are prior-matched accuracies, they are 0.05 higher. Settings that were `unknown`
    when it was trained are not in it.
    """
    known = name if name in catalog.presets() else "glyphs/per-domain/fedadam"
    document = catalog.read(preset or known)
    for assignment in set:
        document = documents.override(document, assignment)
    document["seed"] = seed
    settings = documents.completed(document) | (changes or {})
    settings = {key: value for key, value in settings.items() if key not in unknown}
    folder = root / hashlib.sha256(name.encode()).hexdigest()[:12] / f"{digest}-{seed}"
    folder.mkdir(parents=True)
    (folder / "settings.toml").write_text(toml_files.dumps(settings))
    noise = np.random.default_rng([seed, len(name)]).normal(0, 0.01, points)
    shown = points if status == "finished" else points // 2
    lines = []
    for index in range(shown):
        part = (index + 1) / points
        straggler = height * (1 - math.exp(-4 * part)) / (1 - math.exp(-4)) + noise[index]
        standard = 0.45 + 0.4 * straggler
        values = {
            "straggler": straggler,
            "standard": standard,
            "total": 0.25 * straggler + 0.75 * standard,
        }
        lines.append(
            {
                "step": 12 * (index + 1),
                "time_s": seconds * part * (1 + noise[0]),
                "updates": int(settings["updates"] * part),
                "local_steps": 40 * index,
                "examples": 800 * index,
                "wall_s": 0.5 * index,
                **{f"{group}_accuracy": value for group, value in values.items()},
                **{f"{group}_loss": 1 - value for group, value in values.items()},
                **{
                    f"matched_{group}_accuracy": values[group] + 0.05
                    for group in ("straggler", "total")
                    if matched
                },
                "dropped": dropped,
                "late": 3 * index,
                "test_examples": 1000,
            }
        )
    (folder / "curve.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    share = {"population": 0.235, "used": 0.118, "late": None, "unused": 0.61}
    run = {
        "format": 2,
        "name": name,
        "hash": digest,
        "seed": seed,
        "status": status,
        "diverged": diverged,
        "started": "2026-01-02T03:04:05Z",
        "finished": "2026-01-02T03:05:05Z",
        "trained": 2400,
        "dropped": dropped,
        "wall_s": 60.0,
        "versions": {"stragglers": "0.1.0", "python": "3.11.9", "jax": "0.10.2"},
        "device": {"kind": "cpu"},
        "data": {},
        "schedule": {
            "time_s": seconds,
            "server_steps": 12 * points,
            "client_updates": 2400,
            "staleness": {"mean": 0.0, "p50": 0.0, "p95": 0.0, "p99": 0.0, "max": 0.0},
            "share": {
                "standard": {"population": 0.765, "used": 0.882, "late": None, "unused": 0.39},
                "straggler": share,
            },
            "groups": {
                group: {"always_late": 0.1, "latency_s": {"p50": 50.0, "p95": 150.0, "p99": 250.0}}
                for group in ("standard", "straggler")
            },
            "device_s": {"used": 800.0, "wasted": 150.0, "in_flight": 50.0},
            "clients": 200,
            "population": "200 writers",
        },
    }
    return sealed(folder, run)


def sealed(folder: Path, run: dict[str, Any]) -> Path:
    """As if all that is there had been written so; an unsealed run stays one."""
    if run["format"] == 1:
        (folder / "run.json").write_text(json.dumps(run))
        return folder
    names = ["settings.toml", *sorted(path.name for path in folder.glob("copy-*"))]
    if run["status"] == "running":
        _check_lines(folder / "curve.jsonl")
    else:
        ends = ("curve.jsonl", "curve.jsonl.gz", "model.safetensors")
        names += [name for name in ends if (folder / name).exists()]
    files = {name: seals.digest_of(folder / name) for name in names}
    (folder / "run.json").write_bytes(seals.sealed({**run, "files": files}))
    return folder


def changed(folder: Path, **changes: Any) -> Path:
    """With other facts in its run.json, and whatever else has changed, sealed again."""
    return sealed(folder, json.loads((folder / "run.json").read_text()) | changes)


def unsealed(folder: Path) -> Path:
    """As a version before 0.2.0 left it."""
    run = json.loads((folder / "run.json").read_text())
    del run["files"], run["seal"]
    return sealed(folder, run | {"format": 1})


def _check_lines(path: Path) -> None:
    lines = path.read_bytes().splitlines()
    path.write_bytes(
        b"".join(line + b"\n" if b'"check"' in line else checked(line) for line in lines)
    )


HEIGHTS = {
    "fare-dust": 0.72,
    "feast": 0.66,
    "fedadam": 0.63,
    "fedbuff-ema": 0.59,
    "fedadam-over-selection": 0.53,
    "fedavg": 0.52,
}
SECONDS = {
    "fare-dust": 19_060,
    "feast": 16_112,
    "fedadam": 42_381,
    "fedbuff-ema": 6_929,
    "fedadam-over-selection": 19_060,
    "fedavg": 42_381,
}


def demo(root: Path, trials: int = 3, task: str = "glyphs/per-domain") -> Path:
    """Six algorithms, as `stragglers run` leaves them."""
    for row, height in HEIGHTS.items():
        for seed in range(trials):
            run_folder(root, f"{task}/{row}", seed, height=height, seconds=SECONDS[row])
    return root
