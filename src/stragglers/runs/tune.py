"""Hyper-parameters by search, over the values that the paper scanned or others.

    grid        a TOML file of searches; each starts from the best of the one before
    search      settings with their values: all combinations, or as many as Optuna may propose
    objective   weight * straggler + (1 - weight) * total accuracy, at the end, median over trials:
                the paper uses straggler accuracy (weight 1) and would prefer a balance;
                matched accuracies are under the bias of simulator/prior_matching.py, which is
                fitted on the validation half, too
    validation  the half of the test examples that objectives are measured on; the best of many
                candidates is biased upwards there, so report values of the other half

A candidate is an experiment like any other, with run folders of its own. So an interrupted search
resumes, and a repeated search trains nothing. A candidate with a diverged trial has no value and is
never chosen.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stragglers._core import toml_files
from stragglers._core.errors import BadInput, about, did_you_mean, shown
from stragglers.config import documents, overrides
from stragglers.runs import records, trials
from stragglers.runs.records import Record
from stragglers.runs.workers import Terms

Document = dict[str, Any]
Search = dict[str, list[Any]]  # values of each setting, by its path
Train = Callable[[dict[str, Document]], list[list[Record]]]  # trials of each, by their labels


class Unfinished(Exception):
    """The time ran out before these trials finished; a later call resumes."""

    def __init__(self, left: list[str]) -> None:
        super().__init__(left)
        self.left = left


class Trainer:
    """Trains what is missing of some candidates, and keeps all that it has seen."""

    def __init__(
        self,
        name: str,
        objective: "Objective",
        count: int,
        out: Path,
        processes: int | None,
        terms: Terms,
        together: int | None,
    ) -> None:
        self.name, self.objective, self.count, self.out = name, objective, count, out
        self.processes, self.terms, self.together = processes, terms, together
        self.found: dict[Path, Record] = {}

    def __call__(self, candidates: dict[str, Document]) -> list[list[Record]]:
        groups = []
        for label, document in candidates.items():
            experiment = documents.settings_from(document)
            jobs = trials.jobs_of({self.name: experiment}, self.count, self.out)
            groups.append([job._replace(label=f"{job.label}, {label}") for job in jobs])
        every = [job for jobs in groups for job in jobs]
        over = [records.load(job.folder) for job in every if records.is_over(job.folder)]
        check_validated(over, self.objective)
        left = trials.run_missing(every, self.processes, self.terms, self.together)
        if left:
            raise Unfinished([job.label for job in left])
        self.found |= {job.folder: records.load(job.folder) for job in every}
        return [[self.found[job.folder] for job in jobs] for jobs in groups]


class Candidate(NamedTuple):
    chosen: dict[str, Any]
    value: float  # of the objective; NaN if a trial diverged
    held_out: dict[str, float]  # straggler and total accuracy that nothing was chosen by, medians
    document: Document


class Objective(NamedTuple):
    name: str
    weight: float  # of straggler accuracy; the rest is total accuracy's
    matched: bool = False

    @property
    def kind(self) -> str:
        """What the columns that it goes by begin with."""
        return "validation_matched_" if self.matched else "validation_"

    @property
    def held_out(self) -> str:
        """The same on the half that no candidate is chosen by."""
        return "matched_" if self.matched else "held_out_"

    def of(self, trials: Sequence[Record]) -> float:
        weights = {"straggler": self.weight, "total": 1 - self.weight}
        values = [
            # Without straggler tests that accuracy is NaN, and must not count.
            sum(w * trial.outcome(f"{self.kind}{n}_accuracy") for n, w in weights.items() if w)
            for trial in trials
        ]
        return float(np.median(values)) if values else math.nan


def check_validated(trials: Sequence[Record], objective: Objective) -> None:
    """Refuses trials from before there was an objective, so that none is trained in vain."""
    old = [
        trial.folder
        for trial in trials
        if math.isfinite(trial.outcome("total_accuracy"))
        and math.isnan(trial.outcome(f"{objective.kind}total_accuracy"))
    ]
    if old:
        more = f" (and {len(old) - 1} more)" if len(old) > 1 else ""
        raise BadInput(
            f"{old[0]}: trained before there was a validation accuracy to choose by{more}; "
            "delete such folders to have them trained again, or choose another --out"
        )


def parsed_objective(text: str) -> Objective:
    """`straggler`, `total`, `balance` or `balance=0.7`; `matched-` before each."""
    name, equals, given = text.partition("=")
    weights = {"straggler": 1.0, "total": 0.0, "balance": 0.5}
    known = [*weights, *(f"matched-{name}" for name in weights)]
    if name not in known:
        raise BadInput(f"--objective {text!r}; {did_you_mean(name, known)}")
    plain, matched = name.removeprefix("matched-"), name.startswith("matched-")
    if not equals:
        return Objective(name, weights[plain], matched)
    try:
        weight = float(given)
    except ValueError:
        weight = math.nan
    if plain != "balance" or not 0 <= weight <= 1:
        raise BadInput(f"--objective {text!r}, expected balance=WEIGHT with a weight from 0 to 1")
    return Objective(name, weight, matched)


def grids() -> list[str]:
    """The paper's grids, such as per-domain/feast."""
    root = resources.files("stragglers.config") / "grids"
    return sorted(
        f"{folder.name}/{file.name.removesuffix('.toml')}"
        for folder in root.iterdir()
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith(".toml")
    )


def read_grid(name: str) -> list[Search]:
    """A grid of the paper, or one from a file."""
    if name.endswith(".toml"):
        source: Any = Path(name)
    elif name in grids():
        source = resources.files("stragglers.config") / "grids" / f"{name}.toml"
    else:
        nearest = did_you_mean(name, grids())
        raise BadInput(f"no grid {name!r} (--grid takes a .toml file, too); {nearest}")
    document = toml_files.read(source, name)
    for key in document:
        if key != "search":
            raise BadInput(f"{name}: unknown key {shown(key)}; did you mean 'search'?")
    searches = document.get("search")
    tables = isinstance(searches, list) and all(isinstance(s, dict) and s for s in searches)
    if not (searches and tables):
        raise BadInput(f"{name}: expected [[search]] tables of settings with lists of values")
    for key, values in ((key, values) for search in searches for key, values in search.items()):
        if not (values and isinstance(values, list)):
            raise BadInput(f"{name}: {key}: {shown(values)} given, expected a list of values")
    return searches


def checked_grid(document: Document, grid: list[Search]) -> list[Search]:
    """The grid with whole paths; every value is checked before anything is trained."""
    found = []
    for search in grid:
        paths = {name: documents.full_path(document, name) for name in search}
        _check_independent(paths)
        found.append({paths[name]: values for name, values in search.items()})
        for path, values in found[-1].items():
            _check_values(document, path, values)
    return found


def _check_independent(paths: dict[str, str]) -> None:
    """Rejects two names of one setting, and settings that exclude each other."""
    for one, other in itertools.combinations(paths, 2):
        both = {paths[one], paths[other]}
        if len(both) == 1 or both in overrides.ALTERNATIVES:
            raise BadInput(
                f"{one} and {other} in one search, but one replaces the other; leave one out"
            )


def _check_values(document: Document, path: str, values: list[Any]) -> None:
    """Rejects wrong values, and equal values, which would share run folders."""
    seen: dict[str, Any] = {}
    for value in values:
        with about(f"{path} = {value}"):
            key = documents.settings_from(_with(document, {path: value})).hash
        if key in seen:
            raise BadInput(
                f"{path}: {toml_files.inline(seen[key])} and {toml_files.inline(value)} "
                "given, expected different experiments; leave one out"
            )
        seen[key] = value


def tune(
    document: Document,
    grid: list[Search],
    objective: Objective,
    train: Train,
    proposals: int | None = None,
) -> tuple[Candidate, list[list[Candidate]]]:
    """The best of the last search, and all candidates, search by search."""
    history = []
    for search in grid:
        if proposals is None:
            tried = _everything(document, search, objective, train)
        else:
            tried = _proposed(document, search, objective, train, proposals)
        document = _best(tried).document
        history.append(tried)
    return _best(history[-1]), history


def _best(tried: list[Candidate]) -> Candidate:
    good = [candidate for candidate in tried if math.isfinite(candidate.value)]
    if not good and any(math.isfinite(one.held_out["total_accuracy"]) for one in tried):
        raise BadInput(
            "no candidate has a straggler accuracy: no test example is a straggler's. Choose by "
            "--objective total."
        )
    if not good:
        raise BadInput("every candidate diverged; try smaller learning rates in the grid")
    # The first of equals, in the order of the grid: max keeps it.
    return max(good, key=lambda candidate: candidate.value)


def combinations(search: Search) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*search.values()):
        yield dict(zip(search, values, strict=True))


def label(chosen: dict[str, Any]) -> str:
    """kappa=0.5, beta=0.9: the values with the last parts of their paths."""
    leaves = [path.rsplit(".", 1)[-1] for path in chosen]
    names = leaves if len(set(leaves)) == len(leaves) else list(chosen)
    values = map(toml_files.inline, chosen.values())
    return ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))


def _everything(
    document: Document, search: Search, objective: Objective, train: Train
) -> list[Candidate]:
    chosen = list(combinations(search))
    candidates = {label(one): _with(document, one) for one in chosen}
    trained = train(candidates)
    return [
        Candidate(one, objective.of(found), _held_out(found, objective), given)
        for one, given, found in zip(chosen, candidates.values(), trained, strict=True)
    ]


def _proposed(
    document: Document, search: Search, objective: Objective, train: Train, proposals: int
) -> list[Candidate]:
    """Optuna's tree of Parzen estimators with a fixed seed: asked again, it proposes the same."""
    try:
        import optuna
    except ImportError:
        raise BadInput("--proposals needs Optuna: pip install 'stragglers[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=document.get("seed", 0))
    )
    tried: dict[str, Candidate] = {}
    for _ in range(proposals):
        trial = study.ask()
        chosen = {path: trial.suggest_categorical(path, values) for path, values in search.items()}
        key = label(chosen)
        if key not in tried:
            given = _with(document, chosen)
            (found,) = train({key: given})
            held_out = _held_out(found, objective)
            tried[key] = Candidate(chosen, objective.of(found), held_out, given)
        value = tried[key].value
        if math.isfinite(value):
            study.tell(trial, value)
        else:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
    return list(tried.values())


def _held_out(trials: Sequence[Record], objective: Objective) -> dict[str, float]:
    return {
        name: float(np.median([trial.outcome(f"{objective.held_out}{name}") for trial in trials]))
        for name in ("straggler_accuracy", "total_accuracy")
    }


def _with(document: Document, chosen: dict[str, Any]) -> Document:
    return documents.override_all(
        document, [f"{k}={toml_files.inline(v)}" for k, v in chosen.items()]
    )
