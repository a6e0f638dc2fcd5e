"""Run folders handed on to other programs that people look at curves with.

    tensorboard   event files, one folder for each run
    wandb         Weights & Biases; WANDB_MODE=offline keeps them on this machine

Curves have the server step as their step, and simulated seconds and client updates as columns of
their own. What was not finite is left out. A run is handed on once: its folder, or its id, says so.
"""

import os
import re
import shutil
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np

from stragglers._core import files, toml_files
from stragglers._core.errors import BadInput
from stragglers.report.grouping import today
from stragglers.runs.curve import COLUMNS
from stragglers.runs.records import Record

Sink = Callable[[Record, Path], bool]  # whether it was new


def export(records: Sequence[Record], sink: str, out: Path) -> tuple[int, int]:
    """Hands on what is over; how many runs were new, and how many of all are still going."""
    over = [record for record in records if record.status != "running"]
    return sum(SINKS[sink](record, out) for record in over), len(records) - len(over)


def tensorboard(record: Record, out: Path) -> bool:
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise BadInput(_install("tensorboard")) from None
    folder = out / _id(record)
    if folder.exists():
        return False
    began = datetime.fromisoformat(record.run["started"]).timestamp()
    unfinished = out / f"{files.UNFINISHED}{_id(record)}"
    shutil.rmtree(unfinished, ignore_errors=True)  # of an export that was interrupted
    with SummaryWriter(str(unfinished)) as writer:
        writer.add_text(
            "settings", f"```toml\n{toml_files.dumps(record.settings)}```", walltime=began
        )
        for step, values in _points(record):
            moment = began + values["wall_s"]
            for name, value in values.items():
                writer.add_scalar(_tag(name), value, step, walltime=moment)
    os.replace(unfinished, folder)
    return True


def wandb(record: Record, out: Path) -> bool:
    """The run's id is its own, so that the service, too, has it once."""
    try:
        import wandb as service  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise BadInput(_install("wandb")) from None
    marker = out / _id(record)
    if marker.exists():
        return False
    run = service.init(
        project=os.environ.get("WANDB_PROJECT", "stragglers"),
        dir=str(out),
        id=_id(record),
        name=f"{record.name} seed {record.seed}",
        group=_group(record),
        config=record.settings,
    )
    for step, values in _points(record):
        run.log({_tag(name): value for name, value in values.items()}, step=step)
    run.summary["status"] = record.status
    run.finish()
    marker.touch()
    return True


SINKS: dict[str, Sink] = {"tensorboard": tensorboard, "wandb": wandb}


def _points(record: Record) -> list[tuple[int, dict[str, float]]]:
    """Each evaluation's step, and its finite values by column."""
    found = []
    for index, step in enumerate(record.curve["step"].tolist()):
        values = {name: float(record.curve[name][index]) for name in COLUMNS if name != "step"}
        found.append((step, {name: value for name, value in values.items() if np.isfinite(value)}))
    return found


def _tag(column: str) -> str:
    """straggler_accuracy as accuracy/straggler: one panel for all of them."""
    group, _, what = column.rpartition("_")
    return f"{what}/{group}" if what in ("accuracy", "loss") else f"progress/{column}"


def _group(record: Record) -> str:
    """What trials of one experiment share, as in tables: settings as of today, and data."""
    return f"{record.name} {today(record)[0]} {record.data[:8]}"


def _id(record: Record) -> str:
    """A name for files and services: letters, digits, dots, hyphens and underscores."""
    return re.sub(r"[^\w.-]+", "-", f"{record.name}-{record.hash}-{record.seed}").strip(".-")


def _install(extra: str) -> str:
    return f"--to {extra} needs more than is installed: pip install 'stragglers[{extra}]'"
