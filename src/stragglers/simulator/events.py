"""What happens while trials train, in the order in which `simulate_events` yields it.

    Started
    Progressed, Diverged, ChunkEnded    after every chunk: a range of server steps
    Evaluated                           at every evaluation
    Finished

Events are values that do not change. With several trials in one program `trial` says which one an
event is of: the position of its result.
"""

from typing import NamedTuple

from stragglers.simulator.metrics import Metrics
from stragglers.simulator.prepare import Start
from stragglers.simulator.server_step import Carry
from stragglers.simulator.trial_state import Point, Result, TrialState


class Snapshot(NamedTuple):
    """A simulation between two chunks: all that it takes to resume."""

    step: int  # server steps made
    wall_s: float
    carry: Carry
    trials: tuple[TrialState, ...]


class Started(NamedTuple):
    """Programs are compiled and data is on the device: training begins.

    Attributes:
        start: The device, the lanes (clients that train at once) and the memory that it takes.

    Example:
        >>> import stragglers as st
        >>> events = st.simulate_events(task, schedule, algorithm, local)  # as in `st.simulate`
        >>> started = next(events)
        >>> started.start.lanes
        1
        >>> events.close()  # training ends, and the device's memory is free
    """

    start: Start


class Progressed(NamedTuple):
    """A trial has made some server steps more.

    Attributes:
        step: Server steps made.
        steps: Server steps of the whole schedule.
        trained: Clients that have trained.
        wall_s: Real seconds since training began.
        time_s: Simulated seconds since training began.
        metrics: Those of the last evaluation; None before the first.
        trial: Position of the trial's result.

    Example:
        >>> import stragglers as st
        >>> events = st.simulate_events(task, schedule, algorithm, local)  # as in `st.simulate`
        >>> progress = [event for event in events if isinstance(event, st.Progressed)]
        >>> progress[-1].step == progress[-1].steps == schedule.steps
        True
    """

    step: int
    steps: int
    trained: int
    wall_s: float
    time_s: float
    metrics: Metrics | None
    trial: int = 0


class Evaluated(NamedTuple):
    """A model was evaluated.

    Attributes:
        point: What was measured, and when: a point of the curve.
        trial: Position of the trial's result.

    Example:
        >>> import stragglers as st
        >>> events = st.simulate_events(task, schedule, algorithm, local)  # as in `st.simulate`
        >>> [event.point.updates for event in events if isinstance(event, st.Evaluated)]
        [8]
    """

    point: Point
    trial: int = 0


class Diverged(NamedTuple):
    """A trial has diverged: it trains no further, and its result has no weights.

    Attributes:
        reason: What happened after which server step, and what to do.
        trial: Position of the trial's result.

    Example:
        >>> import stragglers as st
        >>> events = st.simulate_events(task, schedule, algorithm, local)  # as in `st.simulate`
        >>> [event.reason for event in events if isinstance(event, st.Diverged)]
        []
    """

    reason: str
    trial: int = 0


class ChunkEnded(NamedTuple):
    """Trials can be interrupted here.

    The event is valid until the next one is asked for: the device's memory behind the snapshot is
    then used again. Copy what is to be kept.

    Attributes:
        snapshot: What it takes to resume; `st.run` writes it to the disk.

    Example:
        >>> import stragglers as st
        >>> events = st.simulate_events(task, schedule, algorithm, local)  # as in `st.simulate`
        >>> ends = [event.snapshot.step for event in events if isinstance(event, st.ChunkEnded)]
        >>> ends[-1]
        4
    """

    snapshot: Snapshot


class Finished(NamedTuple):
    """A trial is over, at the end of its schedule or because it diverged.

    Attributes:
        result: The trial's curve, weights and counters.
        trial: Position of the trial's result.

    Example:
        >>> import stragglers as st
        >>> events = st.simulate_events(task, schedule, algorithm, local)  # as in `st.simulate`
        >>> *_, finished = events
        >>> finished.result.trained
        8
    """

    result: Result
    trial: int = 0


Event = Started | Progressed | Evaluated | Diverged | ChunkEnded | Finished
