"""Run folders as experiments, in the order of the paper's tables.

trial       one run folder
experiment  trials on the same data of settings that are equal, but for the seed, once today's
            defaults are filled in: a row of a table, a line of a figure
section     experiments of one task and one latency model: what a table may compare
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from stragglers._core.errors import BadInput, did_you_mean
from stragglers.config import catalog, documents
from stragglers.config.settings import settings_hash
from stragglers.runs.records import Record

TASKS = {"emnist": "EMNIST", "cifar100": "CIFAR-100", "stackoverflow": "StackOverflow"}
LATENCIES = ("per-example", "per-domain")
NOT_SETTINGS = {"seed", "readings", "paper"}  # what does not tell two experiments apart

# The paper's comparisons: rows that differ in one thing, by name.
SETS = {
    "FedBuff and regularisation": ("fedbuff", "fedbuff-kd", "fedbuff-l2"),
    "FedBuff, EMA and Adam": ("fedbuff", "fedbuff-ema", "fedbuff-ema-adam"),
    "FedAdam and over-selection": ("fedadam", "fedadam-over-selection"),
}


class Experiment(NamedTuple):
    name: str
    hash: str  # of the settings
    label: str  # unique in its section
    settings: dict[str, Any]  # with today's defaults; as they were, if they are refused today
    trials: tuple[Record, ...]  # by seed

    @property
    def row(self) -> str:
        """The name's last part: the algorithm's row in the paper's tables, for a preset."""
        return self.name.rsplit("/", 1)[-1]

    @property
    def paper(self) -> dict[str, Any] | None:
        return catalog.published(self.name, self.settings)

    @property
    def finished(self) -> tuple[Record, ...]:
        """Trials that are over, well or not; numbers of the others are not final yet."""
        return tuple(trial for trial in self.trials if trial.status != "running")


class Section(NamedTuple):
    task: str
    latency: str
    experiments: tuple[Experiment, ...]  # by name

    @property
    def title(self) -> str:
        return f"{TASKS.get(self.task, self.task)}, {self.latency} latency"


def sections(records: Iterable[Record]) -> list[Section]:
    """Groups trials; the order in which they were given does not matter."""
    groups: dict[tuple[str, str], list[Experiment]] = defaultdict(list)
    for experiment in _experiments(records):
        task = plain(str(experiment.settings.get("task", {}).get("name", "unknown task")))
        latency = plain(str(experiment.settings.get("latency", {}).get("model", "unknown")))
        groups[task, latency].append(experiment)
    return [
        Section(task, latency, _labelled(f"{task}/{latency}/", groups[task, latency]))
        for task, latency in sorted(groups, key=_paper_order)
    ]


def today(record: Record) -> tuple[str, dict[str, Any]]:
    """A trial's settings with today's defaults, and their hash; both as stored if refused today."""
    try:
        settings = documents.completed(record.settings)
        return settings_hash(settings), settings
    except BadInput:
        return record.hash, record.settings


def _experiments(records: Iterable[Record]) -> Iterator[Experiment]:
    """Each by its name, not yet labelled."""
    groups: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    settings: dict[tuple[str, str, str], dict[str, Any]] = {}
    for record in sorted(records, key=lambda r: (r.name, r.hash, r.seed, str(r.folder))):
        digest, given = today(record)
        key = (record.name, digest, record.data)
        groups[key].append(record)
        settings.setdefault(key, given)
    for key, trials in groups.items():
        for stored, some in _without_repetition(trials).items():
            ordered = tuple(sorted(some, key=lambda trial: trial.seed))
            yield Experiment(plain(key[0]), stored or key[1], "", settings[key], ordered)


def _without_repetition(trials: list[Record]) -> dict[str, list[Record]]:
    """All of them; by their stored hashes if seeds were trained before a setting and after."""
    if len({trial.seed for trial in trials}) == len(trials):
        return {"": trials}
    groups: dict[str, list[Record]] = defaultdict(list)
    for trial in trials:
        some = groups[trial.hash]
        if some and some[-1].seed == trial.seed:
            raise BadInput(
                f"{some[-1].folder} and {trial.folder} hold the same trial; give one of them"
            )
        some.append(trial)
    return groups


def _paper_order(key: tuple[str, str]) -> tuple[Any, ...]:
    task, latency = key
    known = list(TASKS)
    return (
        known.index(task) if task in known else len(known),
        task,
        LATENCIES.index(latency) if latency in LATENCIES else len(LATENCIES),
        latency,
    )


def _labelled(prefix: str, experiments: Iterable[Experiment]) -> tuple[Experiment, ...]:
    by_name: dict[str, list[Experiment]] = defaultdict(list)
    for experiment in experiments:
        by_name[experiment.name].append(experiment)
    found = []
    for name, members in by_name.items():
        short = name.removeprefix(prefix) or "unnamed"
        differing = differences([experiment.settings for experiment in members])
        keys = _short(differing)
        for index, experiment in enumerate(members):
            values = [values[index] for values in differing.values()]
            pairs = [pair for pair in zip(keys, values, strict=True) if pair[1] is not None]
            given = ", ".join(f"{key}={shown(value)}" for key, value in pairs)
            found.append(experiment._replace(label=f"{short} ({given})" if given else short))
    for mark in (lambda e: f"data {plain(e.trials[0].data)[:8]}", lambda e: plain(e.hash)[:8]):
        found = _told_apart(found, mark)
    return tuple(found)


def _told_apart(
    experiments: list[Experiment], mark: Callable[[Experiment], str]
) -> list[Experiment]:
    """Equal labels get marks, if these differ."""
    marks: dict[str, set[str]] = defaultdict(set)
    for experiment in experiments:
        marks[experiment.label].add(mark(experiment))
    return [
        e._replace(label=f"{e.label} [{mark(e)}]") if len(marks[e.label]) > 1 else e
        for e in experiments
    ]


def differences(documents: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Settings in which documents differ, by their path; None where unset."""
    flat = [_flat(document) for document in documents]
    paths = sorted({path for one in flat for path in one})
    values = {path: [one.get(path) for one in flat] for path in paths}
    return {path: given for path, given in values.items() if any(v != given[0] for v in given)}


def _short(paths: Collection[str]) -> list[str]:
    """The last part of each path where that is clear."""
    leaves = Counter(map(_leaf, paths))
    return [_leaf(path) if leaves[_leaf(path)] == 1 else path for path in paths]


def _leaf(path: str) -> str:
    return path.rsplit(".", 1)[-1]


def _flat(document: Mapping[str, Any]) -> dict[str, Any]:
    deciding = {key: value for key, value in document.items() if key not in NOT_SETTINGS}
    return {plain(path): value for path, value in documents.flat(deciding).items()}


def shown(value: Any) -> str:
    """A setting as it would stand in a TOML file, without quotes."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return plain(str(value))


def plain(text: str) -> str:
    """Text of one line without control or direction marks, fit for terminals and files."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def comparison_sets(section: Section) -> dict[str, list[Experiment]]:
    """The paper's comparisons of which a section has at least two rows."""
    found = {name: [e for e in section.experiments if e.row in rows] for name, rows in SETS.items()}
    return {name: some for name, some in found.items() if len({e.row for e in some}) > 1}


def chosen(section: Section, reference: str) -> Experiment | None:
    """The experiment that a user means by a label, a row or a whole name."""
    for of in (lambda e: e.label, lambda e: e.name, lambda e: e.row):
        matches = [e for e in section.experiments if of(e) == reference]
        if len(matches) > 1:
            labels = ", ".join(repr(e.label) for e in matches)
            raise BadInput(f"{reference!r} could be any of {labels}; give one of these")
        if matches:
            return matches[0]
    return None


def check_reference(found: Sequence[Section], reference: str) -> None:
    """Refuses a reference that is in no section at all."""
    if not any(chosen(section, reference) for section in found):
        labels = {e.label for section in found for e in section.experiments}
        raise BadInput(
            f"no experiment {reference!r} to compare with; {did_you_mean(reference, labels)}"
        )
