"""What was run, and what it took: trials, trainings, hours; seconds and memory of each row."""

from collections import Counter
from typing import Any

from reproduction.rows import Found, published
from stragglers.runs.records import Record


def ran(there: Found) -> dict[str, Any]:
    trials = [trial for some in there.values() for trial in some]
    rows = [variant for variant in published() if variant.key in there]
    devices = Counter(trial.run["device"]["kind"] for trial in trials)
    return {
        "trials": len(trials),
        "rows": len(rows),
        "of": len(published()),
        "trainings": _trainings(trials),
        "client_updates": sum(trial.run["trained"] / models(trial) for trial in trials),
        "on": [
            _on([trial for trial in trials if trial.run["device"]["kind"] == device])
            for device, _ in devices.most_common()
        ],
    }


def _on(trials: list[Record]) -> dict[str, Any]:
    """Of one kind of device."""
    seconds = sum(
        trial.run["wall_s"] / trial.run["device"]["trials_together"] / models(trial)
        for trial in trials
    )
    return {
        "device": trials[0].run["device"]["kind"],
        "jax": " and ".join(sorted({trial.run["versions"]["jax"] for trial in trials})),
        "trainings": _trainings(trials),
        "hours": seconds / 3600,
    }


def _trainings(trials: list[Record]) -> int:
    return round(sum(1 / models(trial) for trial in trials))


def is_on_a_cpu(trial: Record) -> bool:
    return trial.run["device"]["platform"] == "cpu"


def models(trial: Record) -> int:
    """Of the training that it comes from."""
    return trial.run["device"].get("models_together", 1)


def costs(there: Found) -> tuple[list[str], list[list[str]]]:
    """Columns, and the real time of the latest trial of each published row.

    Of several in a program it is a share. Trials whose training has no other model come first.
    """
    rows = []
    for variant in published():
        latest = sorted(
            there.get(variant.key, []),
            key=lambda trial: (-models(trial), trial.run["finished"]),
        )
        for trial in latest[-1:]:
            together = trial.run["device"]["trials_together"]
            training = float(trial.curve["wall_s"][-1]) / together
            rows.append(
                [
                    variant.preset,
                    f"{training:.0f}",
                    f"{trial.run['trained'] / training:,.0f}",
                    f"{trial.curve['examples'][-1] / training:,.0f}",
                    f"{trial.run['wall_s'] / together - training:.0f}",
                    f"{_training(trial.run['memory']) / 2**30:.2f}",
                    str(together),
                ]
            )
    names = [
        "",
        "training [s]",
        "client updates/s",
        "examples/s",
        "start-up [s]",
        "memory [GiB]",
        "in one program",
    ]
    return names, rows


def _training(memory: dict[str, int]) -> int:
    return sum(size for part, size in memory.items() if part != "preparing")
