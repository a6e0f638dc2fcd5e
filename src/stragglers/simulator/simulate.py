"""Training along a schedule: one compiled program walks it from server step to server step.

    for version v:   clients that start from v:  delta -> its bucket
                     step(v) on the bucket of reports that are on time
                     settle what is late and due

prepare.py makes the program and engine.py has it; here it is fed and watched. A chunk is a range of
server steps given as dynamic bounds: long enough to amortise its launch, short enough for progress
and evaluation in between, and of no influence on any bit of the result.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from stragglers._core.errors import BadInput
from stragglers.algorithms import trees
from stragglers.algorithms.base import Algorithm, Params
from stragglers.planning.report_weights import Weigh, report_weights
from stragglers.planning.schedule import Schedule
from stragglers.simulator import metrics
from stragglers.simulator.local_training import Local
from stragglers.simulator.prepare import Start, Trial, set_up
from stragglers.simulator.server_step import Carry
from stragglers.simulator.trial_state import Course, Point, Progress, Result
from stragglers.tasks.base import Task

CHUNK_SECONDS = 1.0


class Moment(NamedTuple):
    """A run between two chunks: all that it takes to go on."""

    step: int  # server steps made
    wall_s: float
    carry: Carry
    courses: list[Course]


def simulate(
    task: Task,
    schedule: Schedule,
    algorithm: Algorithm,
    local: Local,
    *,
    seed: int = 0,
    on_progress: Callable[[Progress], None] | None = None,
    on_point: Callable[[Point], None] | None = None,
    **options: Any,
) -> Result:
    """Trains one trial; options as in `simulate_together`."""
    (result,) = simulate_together(
        task,
        [Trial(schedule, seed)],
        algorithm,
        local,
        on_progress=on_progress and (lambda _, progress: on_progress(progress)),
        on_point=on_point and (lambda _, point: on_point(point)),
        **options,
    )
    return result


def simulate_together(
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
    on_start: Callable[[Start], None] | None = None,
    on_progress: Callable[[int, Progress], None] | None = None,
    on_point: Callable[[int, Point], None] | None = None,
    resume: Callable[[Moment], Moment] | None = None,
    on_chunk: Callable[[Moment], None] | None = None,
    chunk: int | None = None,
) -> list[Result]:
    """Trains trials of one experiment in one program, each as if it were alone.

    An algorithm with several models (`algorithms.base.all_of`) has a result for each of them, trial
    after trial; callbacks count likewise.

    Evaluates after the given server steps (default: the last); `schedule.steps_at` turns update
    counts and times into server steps. `lanes` clients train at once (default: one a device on a
    CPU, what the sizes fill on an accelerator), over the first `devices` of this process (default:
    all, of a CPU one). `curve_examples` limits the test set for all points but the last; `chunk`
    fixes the number of server steps between two looks at the clock. `on_chunk` sees the run after
    each of them, and must copy what it keeps; `resume` gets the first moment, and gives back that
    or a later one to go on from.
    """
    steps = trials[0].schedule.steps
    stops = sorted({*(evaluate_at or ()), steps})
    if stops[0] < 0 or stops[-1] > steps:
        raise BadInput(f"evaluate_at={stops}, expected server steps from 0 to {steps}")
    run = set_up(
        task,
        trials,
        algorithm,
        local,
        weigh=weigh,
        lanes=lanes,
        devices=devices,
        curve_examples=curve_examples,
        stops=stops,
    )
    if on_start:
        on_start(run.start)

    models = (algorithm.model, *algorithm.others)
    places = [(trial, model) for trial in range(len(trials)) for model in models]
    courses = [Course(trials[trial], run.works[trial]) for trial, _ in places]
    for (trial, _), course in zip(places, courses, strict=True):
        course.model = _of(algorithm.params, run.carry.server, trial)
    moment = Moment(0, 0.0, run.carry, courses)
    step, wall_s, carry, courses = resume(moment) if resume else moment
    began, length = time.perf_counter() - wall_s, chunk or 1
    under_way = {place: course for place, course in enumerate(courses) if not course.diverged}
    evaluated = max(len(course.curve) for course in courses)
    for stop in stops[evaluated:]:
        while step < stop and under_way:
            leg = np.searchsorted(run.legs, step)
            last = max(leg + 1, np.searchsorted(run.legs, min(stop, step + length)))
            step, ticked = int(run.legs[last]), time.perf_counter()
            carry = run.advance(carry, run.feed, np.int32(leg), np.int32(last))
            finite = np.asarray(carry.finite).tolist()  # waits for the device
            dropped = np.sum(np.split(np.asarray(carry.dropped), run.start.devices), axis=0)
            if chunk is None:
                length = _next_length(length, time.perf_counter() - ticked)
            for place, course in list(under_way.items()):
                trial, _ = places[place]
                course.goes_on(step, dropped[trial], finite[trial])
                if course.diverged:
                    del under_way[place]
                if on_progress:
                    on_progress(place, course.progress(step, time.perf_counter() - began))
            if on_chunk:
                on_chunk(Moment(step, time.perf_counter() - began, carry, courses))
        test = run.every if step == steps else run.some
        for place, course in under_way.items():
            trial, model = places[place]
            course.model = _of(model, carry.server, trial)
            measured = metrics.evaluate(task, course.model, test, run.mesh)
            course.reaches(step, local.batch_size, time.perf_counter() - began, test, measured)
            if on_point:
                on_point(place, course.curve[-1])
    trained = {places[place][0] for place in under_way}
    weights = {trial: _of(algorithm.params, carry.server, trial) for trial in sorted(trained)}
    for place, course in under_way.items():
        course.params = weights[places[place][0]]
        course.clients = metrics.per_client(task, course.model, run.every, run.mesh)
    return [course.result(run.start) for course in courses]


def _next_length(length: int, seconds: float) -> int:
    """Steers a chunk towards CHUNK_SECONDS."""
    return max(1, min(4 * length, round(length * CHUNK_SECONDS / max(seconds, 1e-3))))


@partial(jax.jit, static_argnums=0)
def _of(what: Callable[[Any], Params], server: Any, trial: int) -> Params:
    """A trial's model, in buffers of its own: the carry's are given away to the next chunk."""
    return what(trees.row(server, trial))
