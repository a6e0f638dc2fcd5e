"""Settings that contradict each other, or that this machine has no memory for, are refused here."""

from stragglers._core import memory_limits
from stragglers._core.errors import BadInput, shown
from stragglers.config import settings
from stragglers.planning import latency, policy
from stragglers.planning.policy import Buffer, Policy, Rounds
from stragglers.planning.population import Clients


def check(experiment: settings.Experiment) -> None:
    """Refuses settings that contradict each other, before anything is loaded or drawn for them."""
    _check_memory(experiment)
    latency.check(experiment.latency)
    policy.check(experiment.schedule, experiment.updates)
    _check_late(experiment.schedule, experiment.algorithm)
    weight = experiment.aggregation
    if weight.participation == "corrected" and weight.normalise != "weight":
        raise BadInput(
            f"aggregation.participation = 'corrected' with normalise = '{weight.normalise}': "
            "server steps would grow by clients / reports. Leave `normalise` out."
        )
    if isinstance(experiment.algorithm, settings.Remembering) and weight != settings.Aggregation():
        name = experiment.algorithm.__struct_config__.tag
        raise BadInput(
            f"[aggregation] with algorithm.name = {shown(name)}: the reports that it remembers "
            "count alike. Leave the section out."
        )
    _check_label_skew(experiment)
    _check_local(experiment.client)


def _check_local(given: settings.Client | None) -> None:
    if given and given.rate_arguments is not None and given.rate_schedule is None:
        raise BadInput(
            "client.rate_arguments: arguments of no schedule. Name one in client.rate_schedule."
        )


def _check_label_skew(experiment: settings.Experiment) -> None:
    """Next-word examples have no class, so no client lacks one."""
    given = experiment.client.label_skew if experiment.client else None
    if given is not None and isinstance(experiment.task, settings.StackOverflow):
        raise BadInput(
            f"client.label_skew.kind = {shown(given.__struct_config__.tag)}: task "
            "'stackoverflow' predicts words, and its examples have no class each. "
            "Leave client.label_skew out."
        )


def _check_late(given: Policy, algorithm: settings.Algorithm | None) -> None:
    """An algorithm that uses late reports needs a schedule that tracks them, and no other does."""
    waits = {
        name: wait
        for name in ("late_seconds", "late_rounds")
        if (wait := getattr(given, name, None)) is not None
    }
    if isinstance(algorithm, settings.Feast) and not waits:
        raise BadInput(
            "algorithm.name = 'feast': FeAST learns from late reports. Set "
            "schedule.late_seconds, its tau_max."
        )
    if isinstance(algorithm, settings.SemiAsync) and isinstance(given, Buffer):
        raise BadInput(
            "algorithm.name = 'semi-async': a buffered schedule has no late reports. Set "
            "schedule.kind = 'over_selected', or use 'fedbuff'."
        )
    if isinstance(algorithm, settings.SemiAsync) and "late_rounds" not in waits:
        raise BadInput(
            "algorithm.name = 'semi-async': late reports join for a number of rounds. Set "
            "schedule.late_rounds" + (" instead of late_seconds." if waits else ".")
        )
    if isinstance(
        algorithm, settings.FedAvg | settings.FedBuff | settings.Fadas | settings.Remembering
    ):
        for name, wait in waits.items():
            raise BadInput(
                f"schedule.{name} = {wait:g}: {algorithm.__struct_config__.tag} ignores late "
                "reports. Leave it out."
            )


def _check_memory(experiment: settings.Experiment) -> None:
    """Refuses clients and dispatches that this machine has no memory for."""
    match experiment.task:
        case settings.Glyphs(writers=writers):
            memory_limits.check(
                f"task.writers: {writers:,} writers", writers, memory_limits.WRITER, "lower it"
            )
        case Clients(groups=dict(groups)):
            clients = sum(group.clients for group in groups.values())
            memory_limits.check(
                f"task.groups: {clients:,} clients",
                clients,
                memory_limits.CLIENT,
                "lower `clients`",
            )
    given, updates = experiment.schedule, experiment.updates
    dispatches = given.dispatches(updates)
    size = "schedule.concurrency" if isinstance(given, Buffer) else "schedule.cohort"
    memory_limits.check(
        f"updates: the {dispatches:,} dispatches of {updates:,} updates",
        dispatches,
        memory_limits.DISPATCH,
        f"lower it or {size}",
    )


def check_trainable(experiment: settings.Experiment) -> None:
    """Refuses what can only be planned, or not even that, before anything is loaded for it."""
    check(experiment)
    if isinstance(experiment.task, settings.Glyphs):
        writers = experiment.task.writers
        what = f"task.writers: the drawings of {writers:,} writers"
        memory_limits.check(what, writers, memory_limits.DRAWN, "lower it")
    if isinstance(experiment.task, Clients):
        raise BadInput("task.name = 'fleet': a fleet has no data. Use `stragglers plan`.")
    for name in ("client", "server", "algorithm"):
        if getattr(experiment, name) is None:
            raise BadInput(f"[{name}] is missing: training needs it, planning does not")
    history_length(experiment)


def history_length(experiment: settings.Experiment) -> int:
    """FARe-DUST's k is how many rounds its schedule waits; other algorithms keep no history."""
    if not isinstance(experiment.algorithm, settings.FareDust):
        return 1
    given = experiment.schedule
    if isinstance(given, Rounds) and given.late_rounds is not None:
        return given.late_rounds
    raise BadInput(
        "algorithm.name = 'fare-dust': FARe-DUST learns from late reports. Set "
        "schedule.late_rounds, its k."
    )
