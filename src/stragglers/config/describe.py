"""Settings in words: what a plan says of its schedule, and of all that the paper has not."""

from stragglers.config import settings
from stragglers.config.build import cohort
from stragglers.planning import faults


def policy(experiment: settings.Experiment) -> str:
    """A schedule, and what is beyond the paper, in a few words."""
    given, faulty = experiment.schedule, experiment.faults
    if isinstance(given, settings.Buffered):
        words = [f"steps on {given.buffer} reports, {given.concurrency} clients under way"]
        words += ["refilled at once"] if given.refill == "at_once" else []
        words += _patience("clients", given.client_timeout, given.minimum)
    else:
        words = [f"rounds of {cohort(given)} clients that close at {given.goal} reports"]
        words += [f"each of one of {given.tiers} tiers of like clients"] if given.tiers else []
        words += _patience("rounds", given.round_timeout, given.minimum)
        words += (
            [f"late ones within {given.late_seconds:,.0f} s"]
            if given.late_seconds is not None
            else []
        )
        words += [f"late ones within {given.late_rounds} rounds"] if given.late_rounds else []
    words += [_limit(given.time_limit)] if given.time_limit else []
    words += [
        f"{name} checks in {often:g} times as often"
        for name, often in (given.check_in or {}).items()
    ]
    words += ["nobody asked again while it works"] if given.busy == "skip" else []
    words += _hours(experiment.availability) if experiment.availability else []
    words += _luck(experiment.latency)
    return ", ".join(words + ([_faults(faulty)] if faulty else []))


def _limit(given: settings.TimeLimit) -> str:
    if given.seconds is not None:
        return f"{given.scope} limited to {given.seconds:g} s"
    return f"{given.scope} limited to what {given.percentile:g} % of clients train an epoch in"


def _hours(given: settings.Availability) -> list[str]:
    words = [f"clients there at the hours of {given.csv}"] if given.csv else []
    for name, group in (given.groups or {}).items():
        begin = group.begin % given.cycle
        words.append(
            f"{name} there for {group.hours:g} of {given.cycle:g} h from hour {begin:g} on"
            + (f" (+- {group.spread:g})" if group.spread else "")
        )
    done = {"lose": "loses its work", "pause": "pauses", "finish": "finishes all the same"}
    return [*words, f"whoever leaves {done[given.leaving]}"]


def _luck(given: settings.Latency) -> list[str]:
    words = []
    if given.persistence:
        words.append(f"clients keep {100 * given.persistence:g} % of their luck")
    if given.correlation:
        words.append(f"time per example correlated with communication by {given.correlation:g}")
    if (given.download, given.upload) != (1, 1):
        words.append(
            f"{given.download:g} models down ({100 * given.download_share:g} % of "
            f"communication), {given.upload:g} up"
        )
    words += ["time per example by its tokens"] if given.cost == "tokens" else []
    return words


def _patience(who: str, timeout: float | None, minimum: int | None) -> list[str]:
    if timeout is None:
        return []
    return [f"{who} given up after {timeout:,.0f} s, steps abandoned below {minimum or 1}"]


def _faults(faulty: settings.Faults) -> str:
    """The faults that there are, and how often they strike."""
    parts = [f"those of {faulty.csv}"] if faulty.csv else []
    for name in faults.NAMES:
        share = getattr(faulty, name)
        if isinstance(share, dict):
            by_group = ", ".join(f"{group} {100 * part:g} %" for group, part in share.items())
            parts.append(f"{name} ({by_group})")
        elif share:
            parts.append(f"{name} {100 * share:g} %")
    return "faults: " + (", ".join(parts) or "none")
