"""Policies: when the server steps, and which clients start.

    Rounds   a cohort starts together; the round closes at report number `goal`
    Buffer   `concurrency` clients are in flight after each refill; every `size` reports, or
             time-outs, make a server step

A policy is what settings, the planner, the simulator's coordinator and a live server all read. A
new field belongs here, into `check`, and into the step of rounds.py or buffered.py that uses it.
"""

import math
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, field

from stragglers._core.errors import BadInput, shown
from stragglers._core.schema import Count, NotNegative, Positive, Settings
from stragglers.planning.latency import TimeLimit

Busy = Literal["again", "skip"]


class Rounds(Settings, frozen=True, tag="over_selected", tag_field="kind"):
    """Synchronous rounds: a cohort starts together, and the round closes at report number `goal`.

    Example:
        >>> import stragglers as st
        >>> st.Rounds(goal=50, over_selection=1.2).cohort_size
        60
    """

    goal: Count  #: Reports that close a round, B.
    cohort: Count | None = None  #: Clients that start in a round, B_t; by default `goal`.
    #: The cohort as a multiple of the goal, rounded up to whole clients.
    over_selection: Annotated[float, Meta(ge=1, le=1e6)] | None = None
    #: [s] Late reports count for this long after their round opened: FeAST's tau_max.
    late_seconds: Annotated[float, Meta(ge=0)] | None = None
    #: [rounds] Late reports count for this many rounds: FARe-DUST's k.
    late_rounds: Count | None = None
    #: Reports that count against `updates`: those on time, or late ones as well.
    count: Literal["on_time", "all_returned"] = "on_time"
    round_timeout: Positive | None = None  #: [s] A round closes after this with what it has.
    #: Fewest reports of a round that times out; with fewer it is abandoned. By default 1.
    minimum: Count | None = None
    time_limit: TimeLimit | None = None  #: Cap on the clients' training time.
    #: How often clients of a group are selected, relative to others at 1.
    check_in: dict[str, NotNegative] | None = None
    busy: Busy = "again"  #: `skip` excludes clients that are still in flight from selection.
    tiers: Count | None = None  #: Number of speed tiers; each round is drawn from one (TiFL).

    @property
    def cohort_size(self) -> int:
        """Clients that start in a round."""
        if self.cohort is not None:
            return self.cohort
        # The least whole number that reaches the ratio; 50 * 1.1 is 55 and a bit, and means 55.
        return math.ceil(self.goal * (self.over_selection or 1) * (1 - 1e-12))

    def dispatches(self, updates: int) -> int:
        """Clients that start within a budget, at most."""
        return updates // self.goal * self.cohort_size


class Buffer(Settings, frozen=True, tag="buffered", tag_field="kind"):
    """Asynchronous server steps: every `buffer` reports, with `concurrency` clients in flight.

    A client that times out counts as one of the `buffer`, without a report. Without
    `client_timeout`, a client that drops out holds its place for good.

    Example:
        >>> import stragglers as st
        >>> st.Buffer(size=50, concurrency=200).refill
        'at_update'
    """

    size: Count = field(name="buffer")  #: Reports that make a server step, B.
    concurrency: Count  #: Clients in flight, chi.
    #: When a client that reported is replaced: together with the others at the next server step
    #: (`at_update`), or by itself as soon as it reports (`at_once`).
    refill: Literal["at_update", "at_once"] = "at_update"
    #: [s] A client that has not reported by then is replaced, and its place in the buffer
    #: stays empty.
    client_timeout: Positive | None = None
    #: Fewest reports of a server step; with fewer it is abandoned. By default 1.
    minimum: Count | None = None
    time_limit: TimeLimit | None = None  #: Cap on the clients' training time.
    #: How often clients of a group are selected, relative to others at 1.
    check_in: dict[str, NotNegative] | None = None
    busy: Busy = "again"  #: `skip` excludes clients that are still in flight from selection.

    @property
    def group(self) -> int:
        """Clients that start together to replace clients that reported."""
        return self.size if self.refill == "at_update" else 1

    def dispatches(self, updates: int) -> int:
        """Clients that start within a budget, at most."""
        return self.concurrency + updates


Policy = Rounds | Buffer


def check(policy: Policy, updates: int) -> None:
    """Refuses a policy that contradicts itself, or that no population can serve."""
    check_positive(updates=updates)
    _check_limit(policy.time_limit)
    if isinstance(policy, Rounds):
        _check_rounds(policy)
        _check_minimum(policy.minimum, policy.goal, "goal", policy.round_timeout, "round_timeout")
        _check_budget(updates, policy.goal, "round", "goal")
    else:
        _check_buffer(policy)
        _check_minimum(
            policy.minimum, policy.size, "buffer", policy.client_timeout, "client_timeout"
        )
        _check_budget(updates, policy.size, "server step", "buffer")


def _check_rounds(policy: Rounds) -> None:
    if policy.cohort is not None and policy.over_selection is not None:
        raise BadInput(
            f"schedule: cohort={policy.cohort} and over_selection={policy.over_selection}, "
            "expected one of them"
        )
    check_positive(goal=policy.goal, cohort=policy.cohort_size)
    if policy.goal > policy.cohort_size:
        raise BadInput(
            f"goal={policy.goal} reports can never arrive from cohort={policy.cohort_size} "
            "clients; lower `goal` or raise `cohort`"
        )
    if policy.late_seconds is not None and policy.late_rounds is not None:
        raise BadInput(
            f"late_seconds={policy.late_seconds} and late_rounds={policy.late_rounds}, expected one"
        )
    if policy.late_seconds is not None and not policy.late_seconds >= 0:
        raise BadInput(f"late_seconds={policy.late_seconds}, expected a number >= 0")
    if policy.late_rounds is not None and policy.late_rounds < 1:
        raise BadInput(f"late_rounds={policy.late_rounds}, expected a whole number >= 1")


def _check_buffer(policy: Buffer) -> None:
    check_positive(buffer=policy.size, concurrency=policy.concurrency)
    if policy.size > policy.concurrency:
        raise BadInput(
            f"buffer={policy.size} reports can never come from concurrency={policy.concurrency} "
            "clients; lower `buffer` or raise `concurrency`"
        )


def _check_limit(given: TimeLimit | None) -> None:
    if given is None:
        return
    if (given.seconds is None) == (given.percentile is None):
        raise BadInput("schedule.time_limit: give `seconds` or `percentile`, and not both")
    if given.scope == "latency" and given.percentile is not None:
        raise BadInput(
            f"schedule.time_limit: percentile={given.percentile:g} with scope='latency',"
            " but a percentile is one of training times; give `seconds`"
        )


def _check_minimum(
    minimum: int | None, goal: int, name: str, timeout: float | None, timeout_name: str
) -> None:
    if timeout is not None and not 0 < timeout < math.inf:
        raise BadInput(f"{timeout_name}={timeout}, expected a finite number > 0")
    if minimum is None:
        return
    check_positive(minimum=minimum)
    if timeout is None:
        raise BadInput(
            f"minimum={minimum} has no effect without `{timeout_name}`: no step times out. Set it, "
            "or leave `minimum` out"
        )
    if minimum > goal:
        raise BadInput(f"minimum={minimum} is more than {name}={goal}; lower `minimum`")


def _check_budget(updates: int, each: int, what: str, name: str) -> None:
    if updates < each:
        raise BadInput(
            f"updates={updates} is less than one {what} of {name}={each}; "
            f"raise `updates` or lower `{name}`"
        )


def check_positive(**values: int) -> None:
    for name, value in values.items():
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
            raise BadInput(f"{name}={shown(value)}, expected a whole number >= 1")
