"""The schema of an experiment, section by section; catalog.py and documents.py read files into it.

    task -> latency -> schedule, faults, availability -> client, server, algorithm, and the
    published row, if any

Latency, policies, faults and availability are those of the planner (planning/). The comment beside
a field is its meaning in the reference of settings, with its unit in brackets. A new setting
defaults to None and is absent from the resolved document unless given, so that no stored result
changes its hash.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from stragglers._core.errors import BadInput, shown
from stragglers._core.schema import Count, NotNegative, Positive, Settings, Share, convert
from stragglers.config import attached_files, overrides
from stragglers.planning.availability import Availability
from stragglers.planning.faults import Faults
from stragglers.planning.latency import AnyLatency
from stragglers.planning.policy import Policy
from stragglers.planning.population import Clients

Decay = Annotated[float, Meta(ge=0, lt=1)]
Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Profile = Literal["fedjax", "afo"]  # two code bases, see docs/reference/profiles.md


# Tasks.
class WithData(Settings, frozen=True):
    """What tasks with data files have in common."""

    path: str | None = None  #: Folder of the data files; only training needs it.
    clients: Count | None = None  #: Number of clients, drawn at random; by default all.


class Emnist(WithData, frozen=True, tag="emnist", tag_field="name"):
    profile: Profile = "fedjax"  #: Code base whose model and preprocessing are reproduced.
    stragglers: Count | None = None  #: Number of straggler clients; by default 800 of 3,400.
    #: Classes that only straggler clients hold.
    straggler_classes: tuple[Annotated[int, Meta(ge=0, le=61)], ...] = (0, 1, 2, 3, 4)
    #: Share of digits among the images; by default as in the files.
    digits: Annotated[float, Meta(gt=0, lt=1)] | None = None


class Cifar100(WithData, frozen=True, tag="cifar100", tag_field="name"):
    #: Code base whose model and preprocessing are reproduced.
    profile: Literal["fedjax", "afo", "distorted"] = "fedjax"
    stragglers: Count | None = None  #: Number of straggler clients; by default 125 of 500.
    #: Coarse classes that only straggler clients hold.
    straggler_classes: tuple[Annotated[int, Meta(ge=0, le=19)], ...] = (18, 19)
    #: Seed of the partition, for files that do not assign images to clients.
    partition_seed: Seed = 0


class StackOverflow(WithData, frozen=True, tag="stackoverflow", tag_field="name"):
    profile: Profile = "fedjax"  #: Code base whose model and preprocessing are reproduced.
    straggler_tags: tuple[str, ...] = ("math", "c++")  #: Tags that only straggler clients hold.
    vocabulary: Annotated[int, Meta(ge=1, le=65_532)] = 10_000  #: Words, at most 16 bits of them.
    accuracy: Literal["fedjax", "tff"] = "fedjax"  #: `tff` counts unknown words as wrong.


class Glyphs(Settings, frozen=True, tag="glyphs", tag_field="name"):
    """The embedded task."""

    writers: Count = 200  #: Number of writers, each a client.
    data_seed: Seed = 0  #: Seed of the drawings.


Task = Glyphs | Emnist | Cifar100 | StackOverflow | Clients


# Training.
# Supervised losses for skewed labels: the fields are those of the classes in label_skew.py.
class Damped(Settings, frozen=True, tag="damped", tag_field="kind"):
    alpha: Share  #: log alpha is added to the logits of absent classes; 0 removes them.


class Scaled(Settings, frozen=True, tag="scaled", tag_field="kind"):
    alpha: Share  #: Factor of the logits of absent classes: FedRS.


class Adjusted(Settings, frozen=True, tag="adjusted", tag_field="kind"):
    tau: NotNegative = 1.0  #: Strength of the logit adjustment.
    smoothing: Share = 0.01  #: Added to the share of each class, as in ReBaFL.


class Margin(Settings, frozen=True, tag="margin", tag_field="kind"):
    tau: NotNegative = 1.0  #: Margin of a class with one example: FedLC.


class Balanced(Settings, frozen=True, tag="balanced", tag_field="kind"):
    """Balanced softmax, by the labels of all clients; in simulation alone."""


LabelSkew = Damped | Scaled | Adjusted | Margin | Balanced


class Client(Settings, frozen=True):
    learning_rate: Positive  #: Learning rate of local SGD.
    batch_size: Count  #: Examples of a local step.
    epochs: Positive = 1.0  #: Passes over a client's examples.
    #: The last, smaller batch of an epoch: filled from the next epoch, kept small, or dropped.
    last_batch: Literal["fill", "keep", "drop"] = "fill"
    #: Weight rho of distillation towards the teacher: FARe-DUST's, or the model at the start.
    distillation: NotNegative = 0.0
    #: Distance between the logits of client and teacher.
    distillation_loss: Literal["cross_entropy", "kl", "logit_mse"] = "cross_entropy"
    distillation_term: Literal["mean", "sum"] = "mean"  #: Reduction over a batch.
    temperature: Positive = 1.0  #: Softmax temperature of distillation.
    proximal: NotNegative = 0.0  #: Weight nu of the distance to the start, as in FedProx.
    #: Supervised loss for clients that lack classes; by default plain cross-entropy.
    label_skew: LabelSkew | None = None


class Sgd(Settings, frozen=True, tag="sgd", tag_field="optimizer"):
    learning_rate: Positive  #: Server learning rate.
    momentum: Decay = 0.0  #: Momentum.


class Adam(Settings, frozen=True, tag="adam", tag_field="optimizer"):
    learning_rate: Positive  #: Server learning rate.
    b1: Decay = 0.9  #: Decay of the first moment.
    b2: Decay = 0.99  #: Decay of the second moment.
    eps: Positive = 1e-8  #: Added to the root of the second moment.


class Yogi(Settings, frozen=True, tag="yogi", tag_field="optimizer"):
    learning_rate: Positive  #: Server learning rate.
    b1: Decay = 0.9  #: Decay of the first moment.
    b2: Decay = 0.99  #: Decay of the second moment.
    eps: Positive = 1e-3  #: Added to the root of the second moment.


class Adagrad(Settings, frozen=True, tag="adagrad", tag_field="optimizer"):
    learning_rate: Positive  #: Server learning rate.
    eps: Positive = 1e-7  #: Added to the root of the accumulator.


Server = Sgd | Adam | Yogi | Adagrad


class Aggregation(Settings, frozen=True):
    """The weight of each report, and what a sum of reports is divided by."""

    weight: Literal["uniform", "examples"] = "uniform"  #: Equal weights, or by examples.
    #: Discount of stale reports: none, 1 / sqrt(1 + s), or (1 + s)^-exponent.
    staleness: Literal["none", "inverse_sqrt", "polynomial"] = "none"
    exponent: NotNegative = 0.5  #: Exponent of the polynomial discount.
    #: `normalised` divides a report by its number of local steps, as in FedNova.
    local_steps: Literal["any", "normalised"] = "any"
    #: `corrected` weights up clients that rarely participate, as in FedAU.
    participation: Literal["any", "corrected"] = "any"
    #: Divisor of the sum of reports: their weights, their number, or the goal.
    normalise: Literal["weight", "count", "sum"] = "weight"


class FedAvg(Settings, frozen=True, tag="fedavg", tag_field="name"):
    ema: Decay = 0.0  #: Decay of the average of weights that is evaluated; 0 for none.


class FedBuff(Settings, frozen=True, tag="fedbuff", tag_field="name"):
    ema: Decay = 0.0  #: Decay of the average of weights that is evaluated; 0 for none.


class SemiAsync(Settings, frozen=True, tag="semi-async", tag_field="name"):
    ema: Decay = 0.0  #: Decay of the average of weights that is evaluated; 0 for none.


class FareDust(Settings, frozen=True, tag="fare-dust", tag_field="name"):
    ema: Decay = 0.0  #: Decay of the average of weights that is evaluated; 0 for none.
    history: Literal["late", "all"] = "late"  #: Reports that enter the history.
    teacher_step: Literal["sgd", "server"] = "sgd"  #: The step from the weights to a teacher.
    teacher_lr: Positive = 1.0  #: Learning rate of the teacher's SGD step.
    #: What the EMA averages: the weights, or the weights corrected by late reports.
    average: Literal["weights", "corrected"] = "weights"


class Feast(Settings, frozen=True, tag="feast", tag_field="name"):
    beta: Decay  #: Decay of the auxiliary model.
    kappa: Share  #: Auxiliary learning rate over server learning rate, eta_a / eta_g.
    ema: Decay = 0.0  #: Decay of the average of weights that is evaluated; 0 for none.


class Own(Settings, frozen=True, tag="own", tag_field="name"):
    """An algorithm of the user's own: a function in a Python file (algorithms/from_file.py)."""

    file: str  #: Python file; the run's hash covers its content.
    function: str  #: Name of the function that returns the algorithm.
    arguments: dict[str, bool | int | float | str] = {}  #: Its arguments.
    ema: Decay = 0.0  #: Decay of the average of weights that is evaluated; 0 for none.

    def __hash__(self) -> int:
        return hash((self.file, self.function, self.ema, tuple(sorted(self.arguments.items()))))


Algorithm = FedAvg | FedBuff | SemiAsync | FareDust | Feast | Own

# Settings of what an algorithm keeps aside, on which training does not depend: models that differ
# in these alone come from one training.
ASIDE = ("ema", "average", "beta", "kappa")


class Paper(Settings, frozen=True):
    """The published row that a preset reproduces."""

    row: str  #: Name of the row.
    straggler: float  #: [%] Straggler accuracy.
    straggler_interval: tuple[float, float]  #: [%] Its published interval.
    total: float  #: [%] Total accuracy.
    total_interval: tuple[float, float]  #: [%] Its published interval.
    time_s: float  #: [s] Simulated time.
    anomaly: str | None = None  #: Why the time contradicts the paper's own description.


class Experiment(Settings, frozen=True, dict=True):
    """All settings of a training but the number of its trials.

    `st.preset` reads one; its sections print as one would type them. Equal settings are equal
    experiments, whatever their names.

    Attributes:
        name: Name of the preset or of the TOML file: the first part of its run folders.
        document: The settings as TOML has them, every default written out.
        hash: Names the settings: equal hashes give equal results, seed by seed.

    Example:
        >>> import stragglers as st
        >>> experiment = st.preset("emnist/per-domain/feast").replace(kappa=0.2, updates=8_000)
        >>> experiment.algorithm
        Feast(beta=0.99, kappa=0.2)
        >>> st.preset("glyphs/per-domain/fedadam").replace(faults=st.Faults(crash=0.1)).faults
        Faults(crash=0.1)
    """

    task: Task  #: The data and the model; `"fleet"` describes clients without data, to plan only.
    latency: AnyLatency  #: What a client's time depends on: its examples, its domain or its group.
    schedule: Policy  #: The policy: synchronous rounds with over-selection, or a buffer.
    updates: Count  #: Budget: client updates that count towards the length of training.
    seed: Seed = 0  #: Seed of all that is drawn; trial i has seed + i.
    client: Client | None = None  #: Local training; required to train.
    server: Server | None = None  #: The server's optimizer; required to train.
    algorithm: Algorithm | None = None  #: The server's algorithm; required to train.
    aggregation: Aggregation = Aggregation()  #: How much each report counts.
    faults: Faults | None = None  #: What goes wrong at clients; by default, nothing.
    availability: Availability | None = None  #: Hours at which clients are online; default: all.
    #: CPU threads; each trains clients of its own, so the number affects the last bits.
    threads: Count = 2
    #: Precision of matrix products; `tf32` has an effect on GPUs alone.
    precision: Literal["tf32", "float32", "bfloat16"] = "tf32"
    lanes: Count | None = None  #: Clients trained at once; by default, what suits the device.
    evaluations: Count = 20  #: Points of the curve, evenly spaced over the server steps.
    #: Test examples behind every point of the curve but the last; by default, all.
    curve_examples: Count | None = None
    #: Other readings of the paper: settings by the name of the reading.
    readings: dict[str, dict[str, Any]] = {}
    paper: Paper | None = None  #: The published row and its results; they change no training.

    @cached_property
    def document(self) -> dict[str, Any]:
        """The resolved document: every default written out; TOML has no null for None."""
        return _without_none(msgspec.to_builtins(self))

    @cached_property
    def hash(self) -> str:
        """Names the experiment: equal hashes give equal results, seed by seed."""
        return settings_hash(self.document)

    @cached_property
    def name(self) -> str:
        """Name of its run folders; that of its preset, unless it is named otherwise."""
        return "experiment"

    def named(self, name: str) -> "Experiment":
        """The same experiment under another name.

        Raises:
            BadInput: If the name cannot be that of a folder.
        """
        if not isinstance(name, str) or not FOLDERS.fullmatch(name):
            raise BadInput(
                f"name = {shown(name)}: not a name of folders. Give letters, digits and '.', '_', "
                "'-', in parts divided by '/'."
            )
        copy = msgspec.structs.replace(self)
        vars(copy)["name"] = name
        return copy

    def replace(self, settings: Mapping[str, Any] | None = None, /, **more: Any) -> "Experiment":
        """The same experiment with other settings, as `--set` changes them.

        Args:
            settings: Values by the paths of settings, such as {"schedule.goal": 40}.
            **more: Values by the last part of their paths, if that is clear, or whole sections,
                such as `faults=st.Faults(crash=0.1)`. None restores a default.

        Raises:
            BadInput: If there is no such setting, or a value has a wrong type or is out of range.
        """
        document, each = self.document, {**(settings or {}), **more}
        sections = [path for path, value in each.items() if _is_section(path, value)]
        for path in sections:
            document = overrides.without(document, ["paper"])  # no longer the published experiment
            document = _without_none({**document, path: _plain(path, each.pop(path))})
        each = {path: _plain(path, value) for path, value in each.items()}
        document = overrides.with_settings(Experiment, document, each.items())
        return convert(Experiment, document).named(self.name)


def _is_section(path: str, value: Any) -> bool:
    """Whether a whole section is given, or taken away."""
    fields = {field.name: field.type for field in msgspec.structs.fields(Experiment)}
    gone = value is None and any(map(_is_settings, get_args(fields.get(path))))
    return isinstance(value, Settings) or gone


def _is_settings(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Settings)


def _plain(path: str, value: Any) -> Any:
    """A value as a document has it."""
    try:
        return _without_none(msgspec.to_builtins(value))
    except TypeError:
        raise BadInput(f"{path} = {shown(value)}: no value that a setting can have") from None


def _without_none(document: Any) -> Any:
    if not isinstance(document, dict):
        return document
    return {key: _without_none(value) for key, value in document.items() if value is not None}


FOLDERS = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)*", re.ASCII)
NO_RESULT = ("seed", "paper", "readings")  # settings that change no result of a given seed


def settings_hash(document: dict[str, Any]) -> str:
    """Names a resolved document, whatever the order of its keys, by what its files hold now."""
    deciding = {key: value for key, value in document.items() if key not in NO_RESULT}
    # The place of the data does not matter; run.json says what was there (`files_digest`).
    task = {key: value for key, value in document["task"].items() if key != "path"}
    content = attached_files.digested({**deciding, "task": task})
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
