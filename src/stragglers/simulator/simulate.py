"""Training along a schedule: one compiled program walks it from server step to server step.

    for version v:   clients that start from v:  delta -> its bucket
                     step(v) on the bucket of reports that are on time
                     settle what is late and due

prepare.py makes the program and engine.py has it; here it is fed and watched, and what happens is
yielded (events.py). A chunk is a range of server steps given as dynamic bounds: long enough to
amortise its launch, short enough for progress and evaluation in between, and of no influence on any
bit of the result.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from numbers import Integral
from typing import Literal, TypedDict, Unpack

import jax
import numpy as np

from stragglers._core.errors import BadInput, check_type, did_you_mean
from stragglers.algorithms import trees
from stragglers.algorithms.base import Algorithm, Params, State
from stragglers.planning.report_weights import Weigh, report_weights
from stragglers.planning.schedule import Fate, Schedule
from stragglers.simulator import metrics
from stragglers.simulator.contract import check_taught
from stragglers.simulator.events import (
    ChunkEnded,
    Diverged,
    Evaluated,
    Event,
    Finished,
    Progressed,
    Snapshot,
    Started,
)
from stragglers.simulator.local_training import Local, check_local
from stragglers.simulator.prepare import Start, Trial, set_up
from stragglers.simulator.trial_state import Result, TrialState
from stragglers.tasks.base import Task

CHUNK_SECONDS = 1.0


class Options(TypedDict, total=False):
    """How trials are trained and evaluated; `simulate_events` says what each means."""

    evaluate_at: Sequence[int] | None
    weigh: Weigh
    lanes: int | None
    devices: int | None
    curve_examples: int | None
    chunk: int | None
    precision: Literal["float32"] | None


def simulate(
    task: Task,
    schedule: Schedule,
    algorithm: Algorithm,
    local: Local,
    *,
    seed: int = 0,
    **options: Unpack[Options],
) -> Result:
    """Trains one trial along a schedule, to the end.

    Args:
        task: Data and model.
        schedule: Which client starts when, and which server step its report meets; made for the
            task's own clients.
        algorithm: The server, such as `fedavg(optax.sgd(1.0))`.
        local: How a client trains.
        seed: Of the initial model, and of what clients shuffle and draw.
        **options: As of `simulate_events`.

    Returns:
        The trial's curve, weights and counters.

    Raises:
        BadInput: If the arguments contradict each other, or the device's memory is too small.

    Example:
        >>> import optax
        >>> import stragglers as st
        >>> task = st.glyphs(writers=12)
        >>> fleet = st.Fleet(task.population, st.PER_DOMAIN)
        >>> schedule = st.schedule(fleet, st.Rounds(goal=2, cohort=3), updates=8)
        >>> algorithm, local = st.fedavg(optax.sgd(1.0)), st.Local(0.05, 20)
        >>> result = st.simulate(task, schedule, algorithm, local)
        >>> [(point.step, point.updates) for point in result.curve], result.trained
        ([(4, 8)], 8)
    """
    (result,) = results(simulate_events(task, schedule, algorithm, local, seed=seed, **options))
    return result


def simulate_events(
    task: Task,
    schedule: Schedule,
    algorithm: Algorithm,
    local: Local,
    *,
    seed: int = 0,
    **options: Unpack[Options],
) -> Iterator[Event]:
    """Trains one trial along a schedule, and yields what happens.

    Training goes on when the next event is asked for. It ends with the iterator: `close()` it, or
    drop it, and the device's memory is free.

    Args:
        task: Data and model.
        schedule: Which client starts when, and which server step its report meets; made for the
            task's own clients.
        algorithm: The server, such as `fedavg(optax.sgd(1.0))`.
        local: How a client trains.
        seed: Of the initial model, and of what clients shuffle and draw.
        evaluate_at: Server steps after which the model is evaluated, besides the last one;
            `schedule.steps_at` turns update counts and times into server steps.
        weigh: How much each report counts, by default 1 (see `planning.report_weights`).
        lanes: Clients that train at once; by default one a device on a CPU, and what the sizes of
            clients fill on an accelerator.
        devices: How many of this process's devices train; by default all, of a CPU one.
        curve_examples: Test examples behind all points of the curve but the last; by default all.
        chunk: Server steps between two `ChunkEnded`; by default about a second's.
        precision: "float32" for exact matrix products on GPUs; by default as JAX has them (TF32).

    Yields:
        `Started`, then `Progressed` and `ChunkEnded` after every chunk, `Evaluated` after every
        evaluation, and `Finished` at the end; `Diverged` before it if training did.

    Raises:
        BadInput: If the arguments contradict each other, or the device's memory is too small.

    Example:
        >>> import stragglers as st
        >>> trained = st.simulate_events(  # the arguments are those of the example of `st.simulate`
        ...     task, schedule, algorithm, local, evaluate_at=[2], chunk=2)
        >>> for event in trained:
        ...     match event:
        ...         case st.Progressed(step=step, steps=steps):
        ...             print(f"server step {step} of {steps}")
        ...         case st.Evaluated(point):
        ...             print(f"evaluated after {point.updates} client updates")
        ...         case st.Finished(result):
        ...             print(f"{result.trained} clients have trained, {result.dropped} dropped")
        server step 2 of 4
        evaluated after 4 client updates
        server step 4 of 4
        evaluated after 8 client updates
        8 clients have trained, 0 dropped
    """
    check_type("task", task, Task, "a task, such as st.glyphs()")
    check_type("schedule", schedule, Schedule, "what st.schedule returns")
    check_type("algorithm", algorithm, Algorithm, "an Algorithm, such as st.fedavg returns")
    check_type("seed", seed, Integral, "a whole number of at least 0")
    check_local(local)
    for name in options.keys() - Options.__annotations__:
        raise BadInput(f"unknown option {name!r}; {did_you_mean(name, Options.__annotations__)}")
    check_taught(algorithm, schedule.fate == Fate.LATE)
    return Simulation(task, [Trial(schedule, seed)], algorithm, local, **options).run()


def results(events: Iterator[Event]) -> list[Result]:
    """Runs to the end."""
    return [event.result for event in events if isinstance(event, Finished)]


class Simulation:
    """Trials in one program: compiled, and all data on the device. Each trains as if it were alone.

    Events name their trial. An algorithm with several models (`algorithms.base.all_of`) has a
    result for each of them, trial after trial.

    To resume, prepare, restore and iterate:

        simulation = Simulation(task, trials, algorithm, local)
        for event in simulation.events(checkpoint.restore(found, simulation.first())):
            ...
    """

    def __init__(
        self,
        task: Task,
        trials: Sequence[Trial],
        algorithm: Algorithm,
        local: Local,
        *,
        evaluate_at: Sequence[int] | None = None,
        weigh: Weigh = report_weights,
        lanes: int | None = None,
        devices: int | None = None,
        curve_examples: int | None = None,
        chunk: int | None = None,
        precision: Literal["float32"] | None = None,
    ) -> None:
        self.task, self.trials, self.algorithm, self.local = task, trials, algorithm, local
        self.steps, self.chunk, self.precision = trials[0].schedule.steps, chunk, precision
        self.stops = sorted({*(evaluate_at or ()), self.steps})
        if self.stops[0] < 0 or self.stops[-1] > self.steps:
            raise BadInput(
                f"evaluate_at={self.stops}, expected server steps from 0 to {self.steps}"
            )
        with self._exactly():
            self.setup = set_up(
                task,
                trials,
                algorithm,
                local,
                weigh=weigh,
                lanes=lanes,
                devices=devices,
                curve_examples=curve_examples,
                stops=self.stops,
            )
        models = (algorithm.model, *algorithm.others)
        # Where each result comes from: trial after trial, of each the models of its training.
        self.places = [(trial, model) for trial in range(len(trials)) for model in models]

    @property
    def start(self) -> Start:
        return self.setup.start

    def first(self) -> Snapshot:
        """Before the first server step."""
        carry, params = self.setup.carry, self.algorithm.params
        models = (_of(params, carry.server, trial) for trial, _ in self.places)
        return Snapshot(0, 0.0, carry, tuple(map(TrialState, models)))

    def run(self) -> Iterator[Event]:
        """Trains from the beginning to the end, and yields what happens."""
        yield Started(self.start)
        yield from self.events(self.first())

    def events(self, snapshot: Snapshot) -> Iterator[Event]:
        """Trains on from a snapshot, whose arrays are given away, and yields what happens."""
        began, length = time.perf_counter() - snapshot.wall_s, self.chunk or 1
        evaluated = max(len(state.curve) for state in snapshot.trials)
        for stop in self.stops[evaluated:]:
            while snapshot.step < stop and (training := _training(snapshot)):
                ticked = time.perf_counter()
                snapshot = self._advanced(snapshot, min(stop, snapshot.step + length), began)
                if self.chunk is None:
                    length = _next_length(length, time.perf_counter() - ticked)
                for place in training:
                    yield self._progressed(snapshot, place)
                    if reason := snapshot.trials[place].diverged:
                        yield Diverged(reason, place)
                yield ChunkEnded(snapshot)
            for place in _training(snapshot):
                snapshot = self._evaluated(snapshot, place, began)
                yield Evaluated(snapshot.trials[place].curve[-1], place)
        yield from self._finished(snapshot)

    def _advanced(self, snapshot: Snapshot, stop: int, began: float) -> Snapshot:
        """Some server steps further: to `stop`, or the next one at which trials meet."""
        advance, feed, legs = self.setup.advance, self.setup.feed, self.setup.legs
        leg = np.searchsorted(legs, snapshot.step)
        last = max(leg + 1, np.searchsorted(legs, stop))
        carry = advance(snapshot.carry, feed, np.int32(leg), np.int32(last))
        finite = np.asarray(carry.finite).tolist()  # waits for the device
        dropped = np.sum(np.split(np.asarray(carry.dropped), self.start.devices), axis=0)
        step, states = int(legs[last]), list(snapshot.trials)
        for place in _training(snapshot):
            trial, _ = self.places[place]
            work = self.setup.works[trial]
            states[place] = states[place].after(work, step, dropped[trial], finite[trial])
        return Snapshot(step, time.perf_counter() - began, carry, tuple(states))

    def _progressed(self, snapshot: Snapshot, place: int) -> Progressed:
        state, schedule = snapshot.trials[place], self.trials[self.places[place][0]].schedule
        known = state.curve[-1].metrics if state.curve else None
        time_s = float(schedule.ready[snapshot.step - 1])
        return Progressed(
            snapshot.step, self.steps, state.trained, snapshot.wall_s, time_s, known, place
        )

    def _evaluated(self, snapshot: Snapshot, place: int, began: float) -> Snapshot:
        """With one model more evaluated; the one before is let go, so that memory is for one."""
        setup, (trial, model) = self.setup, self.places[place]
        test = setup.every if snapshot.step == self.steps else setup.some
        state = snapshot.trials[place]._replace(model=_of(model, snapshot.carry.server, trial))
        with self._exactly():
            measured = metrics.evaluate(self.task, state.model, test, setup.mesh)
        point = state.point(
            setup.works[trial],
            self.trials[trial].schedule,
            snapshot.step,
            self.local.batch_size,
            time.perf_counter() - began,
            test,
            measured,
        )
        states = list(snapshot.trials)
        states[place] = state._replace(curve=(*state.curve, point))
        return snapshot._replace(trials=tuple(states))

    def _finished(self, snapshot: Snapshot) -> Iterator[Finished]:
        server, params = snapshot.carry.server, self.algorithm.params
        trained = {self.places[place][0] for place in _training(snapshot)}
        weights = {trial: _of(params, server, trial) for trial in sorted(trained)}
        for place, state in enumerate(snapshot.trials):
            own, clients = None, None
            if not state.diverged:
                own = weights[self.places[place][0]]
                with self._exactly():
                    clients = metrics.per_client(
                        self.task, state.model, self.setup.every, self.setup.mesh
                    )
            yield Finished(
                Result(
                    curve=state.curve,
                    params=own,
                    model=state.model,
                    trained=state.trained,
                    dropped=state.dropped,
                    diverged=state.diverged,
                    start=self.start,
                    clients=clients,
                ),
                place,
            )

    def _exactly(self) -> AbstractContextManager[object]:
        return jax.default_matmul_precision(self.precision) if self.precision else nullcontext()


def _training(snapshot: Snapshot) -> list[int]:
    """Places of trials that have not diverged."""
    return [place for place, state in enumerate(snapshot.trials) if not state.diverged]


def _next_length(length: int, seconds: float) -> int:
    """Steers a chunk towards CHUNK_SECONDS."""
    return max(1, min(4 * length, round(length * CHUNK_SECONDS / max(seconds, 1e-3))))


@partial(jax.jit, static_argnums=0)
def _of(what: Callable[[State], Params], server: State, trial: int) -> Params:
    """A trial's model, in buffers of its own: the carry's are given away to the next chunk."""
    return what(trees.row(server, trial))
