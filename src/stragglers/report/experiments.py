"""Run folders as experiments, in the order of the paper's tables.

trial       one run folder
experiment  trials of equal settings but for the seed: a row of a table, a line of a figure
section     experiments of one task and one latency model: what a table may compare
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from stragglers.errors import BadInput, did_you_mean
from stragglers.records import Record

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
    hash: str
    label: str  # unique in its section
    settings: dict[str, Any]
    trials: tuple[Record, ...]  # by seed

    @property
    def row(self) -> str:
        """The name's last part: the algorithm's row in the paper's tables, for a preset."""
        return self.name.rsplit("/", 1)[-1]

    @property
    def paper(self) -> dict[str, Any] | None:
        return self.settings.get("paper")

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
    groups: dict[tuple[str, str], dict[tuple[str, str], list[Record]]] = defaultdict(dict)
    for record in sorted(records, key=lambda r: (r.name, r.hash, r.seed, str(r.folder))):
        task = plain(str(record.settings.get("task", {}).get("name", "unknown task")))
        latency = plain(str(record.settings.get("latency", {}).get("model", "unknown")))
        trials = groups[task, latency].setdefault((record.name, record.hash), [])
        if trials and trials[-1].seed == record.seed:
            raise BadInput(
                f"{trials[-1].folder} and {record.folder} hold the same trial; give one of them"
            )
        trials.append(record)
    return [
        Section(task, latency, _experiments(f"{task}/{latency}/", groups[task, latency]))
        for task, latency in sorted(groups, key=_paper_order)
    ]


def _paper_order(key: tuple[str, str]) -> tuple[Any, ...]:
    task, latency = key
    known = list(TASKS)
    return (
        known.index(task) if task in known else len(known),
        task,
        LATENCIES.index(latency) if latency in LATENCIES else len(LATENCIES),
        latency,
    )


def _experiments(
    prefix: str, groups: Mapping[tuple[str, str], list[Record]]
) -> tuple[Experiment, ...]:
    by_name: dict[str, list[tuple[str, list[Record]]]] = defaultdict(list)
    for (name, digest), trials in groups.items():
        by_name[name].append((digest, trials))
    found = []
    for name, members in by_name.items():
        short = plain(name).removeprefix(prefix) or "unnamed"
        differing = differences([trials[0].settings for _, trials in members])
        keys = _short(differing)
        for index, (digest, trials) in enumerate(members):
            values = [values[index] for values in differing.values()]
            pairs = [pair for pair in zip(keys, values, strict=True) if pair[1] is not None]
            given = ", ".join(f"{key}={shown(value)}" for key, value in pairs)
            label = f"{short} ({given})" if given else short
            found.append(Experiment(plain(name), digest, label, trials[0].settings, tuple(trials)))
    twice = {label for label, count in Counter(e.label for e in found).items() if count > 1}
    return tuple(
        e._replace(label=f"{e.label} [{plain(e.hash)[:8]}]") if e.label in twice else e
        for e in found
    )


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


def _flat(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found = {}
    for key, value in document.items():
        if prefix or key not in NOT_SETTINGS:
            if isinstance(value, Mapping):
                found |= _flat(value, f"{prefix}{key}.")
            else:
                found[plain(f"{prefix}{key}")] = value
    return found


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
        raise BadInput(f"no experiment {reference!r} to compare with; "
                       f"{did_you_mean(reference, labels)}")  # fmt: skip
