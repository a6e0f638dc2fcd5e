"""An experiment in words: its policy, and all that goes beyond the paper."""

from stragglers.config import settings
from stragglers.planning import faults
from stragglers.planning.availability import Availability
from stragglers.planning.faults import Faults
from stragglers.planning.latency import LatencyModel, TimeLimit
from stragglers.planning.policy import Buffer, Policy, Rounds


def policy(experiment: settings.Experiment) -> str:
    """The policy, and all that goes beyond the paper, in a few words."""
    given = experiment.schedule
    words = _buffer(given) if isinstance(given, Buffer) else _rounds(given)
    words += _selection(given)
    words += _hours(experiment.availability) if experiment.availability else []
    words += _latency(experiment.latency)
    words += [_faults(experiment.faults)] if experiment.faults else []
    return ", ".join(words)


def _buffer(given: Buffer) -> list[str]:
    words = [f"a server step for every {given.size} reports, {given.concurrency} clients in flight"]
    words += ["each client replaced at once"] if given.refill == "at_once" else []
    return words + _timeout("clients", given.client_timeout, given.minimum)


def _rounds(given: Rounds) -> list[str]:
    words = [f"rounds of {given.cohort_size} clients that close at {given.goal} reports"]
    words += [f"drawn from one of {given.tiers} speed tiers"] if given.tiers else []
    words += _timeout("rounds", given.round_timeout, given.minimum)
    if given.late_seconds is not None:
        words.append(f"late reports count for {given.late_seconds:,.0f} s")
    if given.late_rounds is not None:
        words.append(f"late reports count for {given.late_rounds} rounds")
    return words


def _selection(given: Policy) -> list[str]:
    words = [_limit(given.time_limit)] if given.time_limit else []
    words += [
        f"{name} checks in {often:g} times as often"
        for name, often in (given.check_in or {}).items()
    ]
    return words + (["busy clients are not selected"] if given.busy == "skip" else [])


def _limit(given: TimeLimit) -> str:
    if given.seconds is not None:
        return f"{given.scope} limited to {given.seconds:g} s"
    return (
        f"{given.scope} limited to the time in which {given.percentile:g} % of clients train "
        "one epoch"
    )


def _hours(given: Availability) -> list[str]:
    words = [f"clients online at the hours of {given.csv}"] if given.csv else []
    for name, group in (given.groups or {}).items():
        begin = group.begin % given.cycle
        words.append(
            f"{name} online for {group.hours:g} of {given.cycle:g} h from hour {begin:g}"
            + (f" (+- {group.spread:g})" if group.spread else "")
        )
    done = {"lose": "lose their work", "pause": "pause", "finish": "finish nevertheless"}
    return [*words, f"clients that go offline {done[given.leaving]}"]


def _latency(given: LatencyModel) -> list[str]:
    words = []
    if given.persistence:
        words.append(f"{100 * given.persistence:g} % of latency variance persists per client")
    if given.correlation:
        words.append(f"time per example correlated with communication by {given.correlation:g}")
    if (given.download, given.upload) != (1, 1):
        words.append(
            f"{given.download:g} models down ({100 * given.download_share:g} % of "
            f"communication), {given.upload:g} up"
        )
    return words + (["time per example by its tokens"] if given.cost == "tokens" else [])


def _timeout(who: str, timeout: float | None, minimum: int | None) -> list[str]:
    if timeout is None:
        return []
    return [f"{who} time out after {timeout:,.0f} s, steps abandoned below {minimum or 1} reports"]


def _faults(given: Faults) -> str:
    """The faults that are set, and how often they strike."""
    parts = [f"those of {given.csv}"] if given.csv else []
    for name in faults.NAMES:
        share = getattr(given, name)
        if isinstance(share, dict):
            by_group = ", ".join(f"{group} {100 * part:g} %" for group, part in share.items())
            parts.append(f"{name} ({by_group})")
        elif share:
            parts.append(f"{name} {100 * share:g} %")
    return "faults: " + (", ".join(parts) or "none")
