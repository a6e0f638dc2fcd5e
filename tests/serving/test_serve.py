"""A live server on a fleet in virtual time: the interpreter's twin, and what it alone does."""

from functools import partial

import jax
import numpy as np
import optax
import pytest

from stragglers._core import random_streams
from stragglers._core.errors import BadInput
from stragglers.algorithms.fedavg import fedavg
from stragglers.planning.policy import Buffer, Rounds
from stragglers.planning.report_weights import Reports, report_weights
from stragglers.serving.serve import PATIENCE, as_weights
from stragglers.simulator.coordinator import Coordinator
from stragglers.simulator.interpreter import interpret
from tests.support.fleet import (
    ADAM,
    ALGORITHMS,
    CLIENTS,
    STEPS,
    W0,
    Fleet,
    K,
    close,
    failing,
    trained,
)

POLICIES = {
    "wait for all": Rounds(goal=4, cohort=4),
    "over-selected": Rounds(goal=3, cohort=5),
    "late in seconds": Rounds(goal=3, cohort=5, late_seconds=6.0),
    "late in rounds": Rounds(goal=2, cohort=5, late_rounds=K),
    "rounds given up": Rounds(goal=3, cohort=4, late_seconds=9.0, round_timeout=4.0, minimum=2),
    "buffered": Buffer(size=3, concurrency=6),
    "buffered, refilled at once": Buffer(size=3, concurrency=6, refill="at_once"),
    "clients given up": Buffer(3, 6, "at_once", client_timeout=4.0, minimum=2),
}


def latencies(policy, seed=3):
    """Whole seconds, so that every poll is on time; with ties, and some that never come."""
    rng = np.random.default_rng(seed)
    times = rng.integers(1, 9, 400).astype(float)
    never = "given up" in policy
    return np.where(never & (rng.random(400) < 0.1), np.inf, times)


def interpreted(algorithm, policy, delays, seed, weigh):
    """The same clients chosen among the idle, event by event."""

    def choose(group):
        busy = {job.client for job in server.jobs.values()}
        idle = sorted({*range(CLIENTS)} - busy)
        first = policy.cohort_size if isinstance(policy, Rounds) else policy.concurrency
        later = {"at_update": 3, "at_once": 1}.get(getattr(policy, "refill", ""), first)
        size = later if group else first
        order = random_streams.generator(seed, random_streams.Purpose.IDLE, group).permutation(
            len(idle)
        )
        return [idle[place] for place in order[:size]]

    def teacher(dispatch, version):
        chance = random_streams.uniforms(
            seed, random_streams.Purpose.TEACHER, dispatch, dispatch + 1
        )[0]
        return version - 1 - int(chance * min(version, max(1, algorithm.teachers)))

    def weight(arrival):
        columns = arrival.staleness, 3 + arrival.client, 1, arrival.step, arrival.before
        return float(weigh(Reports(*(np.array([column]) for column in columns)))[0])

    server = Coordinator(
        algorithm,
        policy,
        W0,
        choose,
        weight,
        teacher,
    )
    return interpret(server, trained, lambda dispatch, client: delays[dispatch], STEPS)


def weigh(reports):
    return report_weights(
        reports, by="examples", discount="inverse_sqrt", participation="corrected"
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_it_is_the_interpreter_in_time(algorithm, policy):
    chosen, rule, delays = ALGORITHMS[algorithm], POLICIES[policy], latencies(policy)
    with jax.enable_x64(True):
        told = interpreted(chosen, rule, delays, 5, weigh)
        served = Fleet(delays).serve(chosen, rule, seed=5, weigh=weigh)
        close(served.params, chosen.params(told.state))
        close(served.model, chosen.model(told.state))
    if isinstance(rule, Rounds):  # of a buffer the interpreter takes what comes with the last step
        assert served.counts["on_time"] == told.counts["on_time"]
    if algorithm == "feast":  # the others do not wait for what comes after the last step
        assert served.counts["late"] == told.counts["late"]
    assert not np.allclose(served.params["w"], W0["w"])


def test_a_round_ends_without_clients_that_failed():
    fleet = Fleet(np.array([1.0, 2, 3, 4] * 50), spoil=failing(1, 2))
    steps = []
    served = fleet.serve(
        fedavg(optax.sgd(1.0)),
        Rounds(goal=4, cohort=4),
        steps=3,
        on_step=lambda step, now, model: steps.append((step, now)),
    )
    assert steps == [(1, 4.0), (2, 8.0), (3, 12.0)]
    assert served.counts == {
        "on_time": 10,
        "late": 0,
        "unused": 0,
        "duplicate": 0,
        "failed": 2,
        "dropped": 0,
    }


def test_a_round_ends_with_its_last_failure():
    """The slowest client fails: nobody is left to be waited for."""
    fleet = Fleet(np.array([1.0, 2, 3, 7] * 50), spoil=failing(3))
    steps = []
    fleet.serve(
        fedavg(optax.sgd(1.0)),
        Rounds(goal=4, cohort=4),
        steps=2,
        on_step=lambda step, now, model: steps.append(now),
    )
    assert steps == [7.0, 14.0]


def test_a_round_of_failures_moves_nothing():
    fleet = Fleet(np.ones(50), spoil=failing(0, 1))
    models = []
    fleet.serve(
        fedavg(optax.sgd(1.0)),
        Rounds(goal=2, cohort=2),
        steps=2,
        on_step=lambda step, now, model: models.append(model),
    )
    close(models[0], W0)
    assert not np.allclose(models[1]["w"], W0["w"])


def test_over_selection_makes_good_for_failures():
    fleet = Fleet(np.array([1.0, 2, 3, 4] * 50), spoil=failing(0))
    steps = []
    fleet.serve(
        fedavg(optax.sgd(1.0)),
        Rounds(goal=3, cohort=4),
        steps=2,
        on_step=lambda step, now, model: steps.append(now),
    )
    assert steps == [4.0, 7.0]


@pytest.mark.parametrize("refill, started", [("at_update", 4), ("at_once", 6)])
def test_a_buffer_leaves_the_place_of_a_failure_empty(refill, started):
    fleet = Fleet(np.array([2.0, 2, 3, 4] * 50), spoil=failing(0, 1))
    policy = Buffer(size=3, concurrency=4, refill=refill)
    served = fleet.serve(fedavg(optax.sgd(1.0)), policy, steps=1)
    assert len(fleet.orders) == started  # no more once the last step is made
    assert served.counts["on_time"] == 1 and served.counts["failed"] == 2


def test_feast_does_not_wait_for_who_failed():
    """The late client of the last round fails at 9 s; its time would be over after 1,000."""
    fleet = Fleet(np.array([1.0, 2, 9] * 50), spoil=failing(2, 5))
    served = fleet.serve(ALGORITHMS["feast"], Rounds(2, 3, late_seconds=1000.0), steps=2)
    assert served.seconds == 2 + 9 + 1  # a poll later
    assert served.counts["failed"] == 2 and served.counts["late"] == 0


def test_nothing_is_learned_from_a_fleet_that_fails():
    fleet = Fleet(np.ones(500), spoil=failing(*range(500)))
    with pytest.raises(BadInput, match=f"^{PATIENCE} clients in a row have failed.* out of memory"):
        fleet.serve(fedavg(optax.sgd(1.0)), Rounds(4, 4), steps=100)


def test_a_round_waits_for_its_cohort(caplog):
    """Three clients until second 100, then six."""
    fleet = Fleet(np.ones(50), online=lambda now: range(3 if now < 100 else 6))
    served = fleet.serve(fedavg(optax.sgd(1.0)), Rounds(goal=3, cohort=5), steps=1)
    assert served.seconds == 102
    said = [record.getMessage() for record in caplog.records]
    assert said == ["3 clients are idle, 5 shall start"] * 2  # once a minute


def test_a_buffer_starts_who_is_there():
    """Two clients until second 10, then all; four are to be under way."""
    fleet = Fleet(np.full(90, 100.0), online=lambda now: range(2 if now < 10 else CLIENTS))
    fleet.serve(fedavg(optax.sgd(1.0)), Buffer(size=4, concurrency=4), steps=1)
    assert [order.dispatch for order in fleet.orders] == [0, 1, 2, 3]
    assert fleet.now == 111  # the last two started at 10


def test_who_is_busy_is_not_asked_again():
    """With a cohort of all but two clients, of which three are slow, a round waits for one."""
    delays = np.array(([1.0] * 7 + [50] * 3) * 20)
    fleet = Fleet(delays)
    fleet.serve(fedavg(optax.sgd(1.0)), Rounds(goal=7, cohort=10), steps=2)
    first, second = fleet.orders[:10], fleet.orders[10:]
    assert len({order.client for order in second}) == 10
    assert {order.client for order in first} != {order.client for order in second}
    assert fleet.now == 52  # the second round starts when the first one's last are back


def test_reports_that_are_no_numbers_are_dropped():
    def spoil(reply):
        nan = jax.tree.map(lambda x: x * np.nan, reply.delta)
        return reply._replace(delta=nan) if reply.dispatch == 1 else reply

    served = Fleet(np.ones(50), spoil=spoil).serve(fedavg(optax.sgd(1.0)), Rounds(3, 3), steps=1)
    assert served.counts["dropped"] == 1
    assert np.all(np.isfinite(served.params["w"]))


@pytest.mark.parametrize(
    "policy, options, says",
    [
        (Rounds(5, 4), {}, "goal=5 reports can never arrive from cohort=4 clients"),
        (Rounds(2, 2, late_seconds=1.0, late_rounds=2), {}, "late_seconds=1.0 and late_rounds=2"),
        (Rounds(2, 2, minimum=1), {}, "minimum=1 has no effect without `round_timeout`"),
        (Buffer(5, 4), {}, "buffer=5 reports can never come from concurrency=4"),
        (Buffer(2, 4, client_timeout=-1.0), {}, "client_timeout: -1.0 given, expected"),
        (Rounds(2, 2), {"steps": 0}, "steps=0, expected a whole number >= 1"),
        (Rounds(2, 2), {"keep_every": 0}, "keep_every=0, expected a whole number >= 1"),
        (Rounds(2, 2), {"poll_seconds": 0.0}, "poll_seconds=0.0, expected a finite number > 0"),
    ],
)
def test_what_can_never_be_served_is_one_line(policy, options, says):
    fleet = Fleet(np.ones(50))
    with pytest.raises(BadInput) as refused:
        fleet.serve(fedavg(ADAM), policy, **options)
    assert str(refused.value).startswith(says) and not fleet.orders


def test_weights_that_are_no_numbers_to_learn_are_refused():
    with pytest.raises(BadInput, match="params: count is int32, expected floating-point"):
        Fleet(np.ones(50)).serve(
            fedavg(ADAM), Rounds(2, 2), {"w": np.ones(2), "count": np.int32(1)}
        )


def test_failures_between_reports_never_add_up():
    """One of four fails in every round: more than a fleet that only fails would be let."""
    fleet = Fleet(np.ones(400), spoil=failing(*range(0, 400, 4)))
    served = fleet.serve(fedavg(ADAM), Rounds(4, 4), steps=2 * PATIENCE)
    assert served.counts["failed"] == 2 * PATIENCE


def test_whoever_comes_later_does_not_count_for_all_the_time_before():
    """The last client is there from second 30 on; t counts from then."""
    seen = []

    def weigh(reports):
        seen.append([int(column[0]) for column in reports])
        return report_weights(reports, participation="corrected")

    def online(now):
        return range(CLIENTS if now > 30 else CLIENTS - 1)

    Fleet(np.ones(400), online=online).serve(fedavg(ADAM), Rounds(3, 3), steps=60, weigh=weigh)
    newcomer = [(step, before) for _, examples, _, step, before in seen if examples == 2 + CLIENTS]
    others = [step for _, examples, _, step, _ in seen if examples != 2 + CLIENTS]
    assert len(newcomer) > 2 and newcomer[0][1] == 0 and newcomer[0][0] < 20
    assert max(step for step, _ in newcomer) < 45 < max(others)


def test_directions_of_clients_that_do_not_tell_their_steps_are_refused_at_once():
    fleet, directions = Fleet(np.ones(9)), partial(report_weights, local_steps="normalised")
    with pytest.raises(BadInput, match="local_steps='normalised', but clients do not tell"):
        fleet.serve(fedavg(ADAM), Rounds(3, 3), weigh=directions)
    assert not fleet.orders


def test_a_buffer_makes_no_step_beyond_the_last():
    """Eight reports come at once, and make three of the four steps that they would make."""
    steps = []
    served = Fleet(np.ones(50)).serve(
        fedavg(ADAM), Buffer(2, 8), steps=3, on_step=lambda step, *_: steps.append(step)
    )
    assert steps == [1, 2, 3] and served.counts["on_time"] == 6


def test_what_waits_to_join_has_not_taken_part():
    """A report that comes during an abandoned step is not in the state that is kept after it."""
    server = Coordinator(
        ALGORITHMS["semi-async"],
        Rounds(2, 3, late_rounds=K, round_timeout=4.0, minimum=2),
        as_weights(W0),
        lambda group: [0, 1, 2],
        lambda arrival: 1.0,
        lambda *which: -1,
    )
    first = server.dispatch(0.0)
    for order in first[:2]:
        server.receive(order.dispatch, trained(order), 1.0)
    server.dispatch(1.0)
    server.receive(first[2].dispatch, trained(first[2]), 2.0)
    server.time_out(1, 5.0)
    assert server.abandoned == {1} and server.joining.reports == 1
    assert server.participations() == {0: 1, 1: 1, 2: 0}
    for order in server.dispatch(5.0)[:2]:
        server.receive(order.dispatch, trained(order), 6.0)
    assert server.participations() == {0: 2, 1: 2, 2: 1}


def test_what_came_late_is_in_what_is_kept():
    """Of a round that has closed, before the next group starts."""
    algorithm = ALGORITHMS["fare-dust"]
    server = Coordinator(
        algorithm,
        Rounds(1, 2, late_rounds=K),
        as_weights(W0),
        lambda group: [0, 1],
        lambda arrival: 1.0,
        lambda dispatch, version: -1,
    )
    first, second = server.dispatch(0.0)
    server.receive(first.dispatch, trained(first), 1.0)
    server.receive(second.dispatch, trained(second), 1.5)
    kept, before = server.so_far(), server.state
    server.finish()
    close(kept, server.state)
    rows = [state.core.history.rows.delta["w"] for state in (before, kept)]
    assert not np.any(rows[0]) and np.any(rows[1])
