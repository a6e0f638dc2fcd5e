"""The schema of an experiment, section by section; catalog.py and documents.py read files into it.

    task -> latency -> schedule, faults, availability -> client, server, algorithm, and the
    published row, if any

Sections are frozen and closed: an unknown key is an error. Distributions and schedules have the
argument names of the functions that they build.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=1, le=10**8)]
Positive = Annotated[float, Meta(gt=0, le=1e300)]  # nor is infinity of any use
NotNegative = Annotated[float, Meta(ge=0, le=1e300)]
Decay = Annotated[float, Meta(ge=0, lt=1)]
Share = Annotated[float, Meta(ge=0, le=1)]
Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Profile = Literal["fedjax", "afo"]  # of two code bases, see docs/reference/profiles.md


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """What every section is."""


# Distributions: the fields are the arguments of the functions in distributions.py.
class LogNormal(Settings, frozen=True, tag="lognormal", tag_field="kind"):
    mu: float  # natural logarithm of the median
    sigma: float


class Constant(Settings, frozen=True, tag="constant", tag_field="kind"):
    value: float


class ShiftedExponential(Settings, frozen=True, tag="shifted_exponential", tag_field="kind"):
    shift: float
    scale: float


class Gamma(Settings, frozen=True, tag="gamma", tag_field="kind"):
    shape: float
    scale: float


class Pareto(Settings, frozen=True, tag="pareto", tag_field="kind"):
    minimum: float
    alpha: float


class Samples(Settings, frozen=True, tag="samples", tag_field="kind"):
    file: str
    column: str | None = None


class Percentiles(Settings, frozen=True, tag="percentiles", tag_field="kind"):
    table: dict[str, float]


Distribution = LogNormal | Constant | ShiftedExponential | Gamma | Pareto | Samples | Percentiles


# Tasks: whose clients these are.
class WithData(Settings, frozen=True):
    """What tasks have whose data is in files."""

    path: str | None = None  # of the files; only training needs it
    clients: Count | None = None  # so many of them, at random; default all


class Emnist(WithData, frozen=True, tag="emnist", tag_field="name"):
    profile: Profile = "fedjax"
    stragglers: Count | None = None  # clients; default 800 of 3,400
    straggler_classes: tuple[Annotated[int, Meta(ge=0, le=61)], ...] = (0, 1, 2, 3, 4)
    digits: Annotated[float, Meta(gt=0, lt=1)] | None = None  # of images; default as in the files


class Cifar100(WithData, frozen=True, tag="cifar100", tag_field="name"):
    profile: Literal["fedjax", "afo", "distorted"] = "fedjax"
    stragglers: Count | None = None  # clients; default 125 of 500
    straggler_classes: tuple[Annotated[int, Meta(ge=0, le=19)], ...] = (18, 19)  # coarse
    partition_seed: Seed = 0  # of images that come without clients


class StackOverflow(WithData, frozen=True, tag="stackoverflow", tag_field="name"):
    profile: Profile = "fedjax"
    straggler_tags: tuple[str, ...] = ("math", "c++")  # as they are, no parts of others
    vocabulary: Annotated[int, Meta(ge=1, le=65_532)] = 10_000  # words; ids are 16 bits
    accuracy: Literal["fedjax", "tff"] = "fedjax"  # whether unknown words count, as wrong


class Glyphs(Settings, frozen=True, tag="glyphs", tag_field="name"):
    """The embedded task."""

    writers: Count = 200
    data_seed: Seed = 0


class FleetGroup(Settings, frozen=True):
    clients: Count
    examples: Distribution


class Fleet(Settings, frozen=True, tag="fleet", tag_field="name"):
    """Clients without a task: made up, or read from a CSV file."""

    groups: dict[str, FleetGroup] | None = None
    csv: str | None = None


Task = Glyphs | Emnist | Cifar100 | StackOverflow | Fleet


# Latency: T = T_communication + C + T_per_example * N.
class Factors(Settings, frozen=True):
    communication: Distribution
    overhead: Distribution
    per_example: Distribution


class AnyLatency(Settings, frozen=True, kw_only=True):
    persistence: Share = 0.0  # of a factor's spread: 0 as published, 1 a client draws once
    correlation: Annotated[float, Meta(ge=-1, le=1)] = 0.0  # of communication and time per example
    download: NotNegative = 1.0  # models that a client gets; the factor is for one each way
    upload: NotNegative = 1.0  # models that it sends
    download_share: Share = 0.5  # of the factor
    cost: Literal["examples", "tokens"] = "examples"  # what training takes time in proportion to


class PerExample(AnyLatency, frozen=True, tag="per-example", tag_field="model"):
    pass


class PerDomain(AnyLatency, frozen=True, tag="per-domain", tag_field="model"):
    pass


class Groups(AnyLatency, frozen=True, tag="groups", tag_field="model"):
    groups: dict[str, Factors]


Latency = PerExample | PerDomain | Groups


# Schedules: the arguments of the functions in rounds.py and planning/buffered.py.
class TimeLimit(Settings, frozen=True):
    """A cap in seconds, or the percentile of one epoch's training time over all clients."""

    seconds: Positive | None = None
    percentile: Annotated[float, Meta(gt=0, lt=100)] | None = None
    scope: Literal["training", "computation", "latency"] = "training"  # what is capped
    fill: bool = True


class OverSelected(Settings, frozen=True, tag="over_selected", tag_field="kind"):
    goal: Count  # B, reports that close a round
    cohort: Count | None = None  # B_t, clients started in a round
    over_selection: Annotated[float, Meta(ge=1, le=1e6)] | None = None  # or B_t / B at least
    late_seconds: Annotated[float, Meta(ge=0)] | None = None  # FeAST's tau_max; inf: all
    late_rounds: Count | None = None  # FARe-DUST's k, and the length of its history
    count: Literal["on_time", "all_returned"] = "on_time"
    round_timeout: Positive | None = None  # seconds after which a round is given up
    minimum: Count | None = None  # reports without which it is then abandoned; default 1
    time_limit: TimeLimit | None = None
    check_in: dict[str, NotNegative] | None = None  # how often, against others; default 1
    busy: Literal["again", "skip"] = "again"  # whether whoever still works may be asked again
    tiers: Count | None = None  # of like clients, from one of which each round is drawn


class Buffered(Settings, frozen=True, tag="buffered", tag_field="kind"):
    buffer: Count  # B
    concurrency: Count  # chi
    refill: Literal["at_update", "at_once"] = "at_update"
    client_timeout: Positive | None = None  # seconds after which a client is given up
    minimum: Count | None = None  # reports without which a step is abandoned; default 1
    time_limit: TimeLimit | None = None
    check_in: dict[str, NotNegative] | None = None  # how often, against others; default 1
    busy: Literal["again", "skip"] = "again"  # whether whoever still works may be asked again


Schedule = OverSelected | Buffered


# Faults: shares of dispatches, of everybody or by group; see faults.py.
class Faults(Settings, frozen=True):
    drop_out: Share | dict[str, Share] = 0.0
    crash: Share | dict[str, Share] = 0.0
    nan: Share | dict[str, Share] = 0.0
    inf: Share | dict[str, Share] = 0.0
    huge: Share | dict[str, Share] = 0.0
    duplicate: Share | dict[str, Share] = 0.0
    csv: str | None = None  # by client: a column `client` of names, then some of the above


# When clients are there; see availability.py.
class Hours(Settings, frozen=True):
    """Of a group, once a cycle, in hours."""

    begin: Annotated[float, Meta(ge=-1e6, le=1e6)]
    hours: Positive
    spread: Annotated[float, Meta(ge=0, le=1e6)] = 0.0  # of `begin` over its clients: a deviation


class Availability(Settings, frozen=True):
    groups: dict[str, Hours] | None = None  # those that are not named are always there
    csv: str | None = None  # or of each client: columns client, begin, end, in hours
    cycle: Annotated[float, Meta(ge=0.001, le=1e6)] = 24.0  # hours after which all repeats
    leaving: Literal["lose", "pause", "finish"] = "lose"  # what becomes of unfinished work


# Training.
# Supervised losses for skewed labels: the fields are those of the classes in label_skew.py.
class Damped(Settings, frozen=True, tag="damped", tag_field="kind"):
    alpha: Share  # log alpha is added to the logits of absent classes; 0 removes them


class Scaled(Settings, frozen=True, tag="scaled", tag_field="kind"):
    alpha: Share  # factor of the logits of absent classes: FedRS


class Adjusted(Settings, frozen=True, tag="adjusted", tag_field="kind"):
    tau: NotNegative = 1.0  # strength: logit adjustment
    smoothing: Share = 0.01  # added to the share of each class: ReBaFL


class Margin(Settings, frozen=True, tag="margin", tag_field="kind"):
    tau: NotNegative = 1.0  # margin of a class with one example: FedLC


class Balanced(Settings, frozen=True, tag="balanced", tag_field="kind"):
    """Balanced softmax, by the labels of all clients; in simulation alone."""


LabelSkew = Damped | Scaled | Adjusted | Margin | Balanced


class Client(Settings, frozen=True):
    learning_rate: Positive
    batch_size: Count
    epochs: Positive = 1.0
    last_batch: Literal["fill", "keep", "drop"] = "fill"
    distillation: NotNegative = 0.0  # rho, towards the teacher: FARe-DUST's, or the model it got
    distillation_loss: Literal["cross_entropy", "kl", "logit_mse"] = "cross_entropy"
    distillation_term: Literal["mean", "sum"] = "mean"  # over a batch
    temperature: Positive = 1.0
    proximal: NotNegative = 0.0  # nu
    label_skew: LabelSkew | None = None  # the supervised loss; default plain cross-entropy


class Sgd(Settings, frozen=True, tag="sgd", tag_field="optimizer"):
    learning_rate: Positive
    momentum: Decay = 0.0


class Adam(Settings, frozen=True, tag="adam", tag_field="optimizer"):
    learning_rate: Positive
    b1: Decay = 0.9
    b2: Decay = 0.99
    eps: Positive = 1e-8


class Yogi(Settings, frozen=True, tag="yogi", tag_field="optimizer"):
    learning_rate: Positive
    b1: Decay = 0.9
    b2: Decay = 0.99
    eps: Positive = 1e-3


class Adagrad(Settings, frozen=True, tag="adagrad", tag_field="optimizer"):
    learning_rate: Positive
    eps: Positive = 1e-7


Server = Sgd | Adam | Yogi | Adagrad


class Aggregation(Settings, frozen=True):
    """How much a report counts, and what a sum of them is divided by."""

    weight: Literal["uniform", "examples"] = "uniform"
    staleness: Literal["none", "inverse_sqrt", "polynomial"] = "none"
    exponent: NotNegative = 0.5  # of "polynomial"
    local_steps: Literal["any", "normalised"] = "any"  # or divided by their number, as in FedNova
    participation: Literal["any", "corrected"] = "any"  # or weighed up where rare, as in FedAU
    normalise: Literal["weight", "count", "sum"] = "weight"


class FedAvg(Settings, frozen=True, tag="fedavg", tag_field="name"):
    ema: Decay = 0.0


class FedBuff(Settings, frozen=True, tag="fedbuff", tag_field="name"):
    ema: Decay = 0.0


class SemiAsync(Settings, frozen=True, tag="semi-async", tag_field="name"):
    ema: Decay = 0.0


class FareDust(Settings, frozen=True, tag="fare-dust", tag_field="name"):
    ema: Decay = 0.0
    history: Literal["late", "all"] = "late"
    teacher_step: Literal["sgd", "server"] = "sgd"
    teacher_lr: Positive = 1.0
    average: Literal["weights", "corrected"] = "weights"  # by what was late


class Feast(Settings, frozen=True, tag="feast", tag_field="name"):
    beta: Decay
    kappa: Share  # eta_a / eta_g
    ema: Decay = 0.0


class Own(Settings, frozen=True, tag="own", tag_field="name"):
    """An algorithm of one's own: a function in a Python file, see algorithms/from_file.py."""

    file: str  # beside the settings; counts by what is in it
    function: str
    arguments: dict[str, bool | int | float | str] = {}
    ema: Decay = 0.0

    def __hash__(self) -> int:
        return hash((self.file, self.function, self.ema, tuple(sorted(self.arguments.items()))))


Algorithm = FedAvg | FedBuff | SemiAsync | FareDust | Feast | Own

# What an algorithm has aside, and training does not depend on: models that differ in these alone
# come from one training.
ASIDE = ("ema", "average", "beta", "kappa")


class Paper(Settings, frozen=True):
    """The published row that a preset reproduces: percent, and seconds."""

    row: str
    straggler: float
    straggler_interval: tuple[float, float]
    total: float
    total_interval: tuple[float, float]
    time_s: float
    anomaly: str | None = None  # why its time is not one to aim at


class Experiment(Settings, frozen=True):
    task: Task
    latency: Latency
    schedule: Schedule
    updates: Count  # the budget, in client updates
    seed: Seed = 0
    client: Client | None = None
    server: Server | None = None
    algorithm: Algorithm | None = None
    aggregation: Aggregation = Aggregation()
    faults: Faults | None = None
    availability: Availability | None = None
    threads: Count = 2  # of a CPU, each training its own clients: part of the result's last bits
    precision: Literal["tf32", "float32", "bfloat16"] = "tf32"  # of products; tf32: on GPUs alone
    lanes: Count | None = None  # clients trained at once; by default what suits the device
    evaluations: Count = 20  # points of the curve, evenly spread over the server steps
    curve_examples: Count | None = None  # test examples behind all points but the last
    readings: dict[str, dict[str, Any]] = {}  # other readings of the paper: settings by name
    paper: Paper | None = None
