"""The server's side of Flower, over a grid in this process; test_fleet.py has a real one."""

import itertools

import jax
import numpy as np
import optax
import pytest
from flwr.app import DEFAULT_TTL, Error, Message

from stragglers._core import random_streams
from stragglers._core.shuffle import seed_word
from stragglers.algorithms.fare_dust import fare_dust
from stragglers.algorithms.feast import feast
from stragglers.algorithms.fedavg import fedavg
from stragglers.planning.policy import Buffer, Rounds
from stragglers.serving import serve as live
from stragglers.serving.flower import messages
from stragglers.serving.flower.client import answer
from stragglers.serving.flower.server import serve
from stragglers.serving.serve import Clock
from stragglers.simulator.coordinator import Coordinator
from stragglers.simulator.local_training import Local, on_own_data
from stragglers.simulator.simulate import simulate
from tests.support.helpers import linear_task, table_latency
from tests.support.plans import options_of, over_selected

NODES = [2**63 + 5, 7, 2**64 - 1, 12, 13, 14, 15, 16, 17]  # Flower's are of 64 bits


class Grid:
    """As much of Flower's as a server uses, in virtual time."""

    def __init__(self, train, delays=(1.0,), gone=()):
        self.train, self.delays, self.gone = train, itertools.cycle(delays), gone
        self.now, self.under_way, self.sent = 0.0, {}, []

    def get_node_ids(self):
        return iter(NODES)

    def push_messages(self, letters):
        for letter in letters:
            number = f"message {len(self.sent)}"
            letter.metadata.__dict__["_message_id"] = number  # as Flower's own grids do
            self.sent.append(letter)
            if len(self.sent) - 1 in self.gone:
                yield ""
            else:
                self.under_way[number] = self.now + next(self.delays), letter
                yield number

    def pull_messages(self, ids):
        ready = [one for one in ids if self.under_way[one][0] <= self.now]
        return [self.train(self.under_way.pop(one)[1]) for one in ready]

    def serve(self, *given, **options):
        def sleep(seconds):
            self.now += seconds

        return serve(self, *given, clock=Clock(lambda: self.now, sleep), **options)


def twice(message):
    """A client that doubles its weights."""
    node = message.metadata.dst_node_id
    return answer(message, lambda sent: ({n: 2 * w for n, w in sent.model.items()}, node % 97))


W0 = {"w": np.arange(1, 4, dtype=np.float32), "b": np.float32(0.5)}


@pytest.mark.parametrize(
    "algorithm, policy",
    [
        (fedavg(optax.sgd(1.0)), Rounds(2, 3)),
        (fedavg(optax.sgd(1.0)), Buffer(2, 3)),
        (fare_dust(optax.sgd(1.0), k=3), Rounds(2, 3, late_rounds=3)),
        (feast(optax.sgd(1.0), beta=0.9, kappa=0.2), Rounds(2, 3, late_seconds=50.0)),
    ],
)
def test_it_learns_from_flowers_clients(algorithm, policy):
    served = Grid(twice, [1.0, 3, 2]).serve(algorithm, policy, W0, steps=4)
    if isinstance(policy, Rounds):
        np.testing.assert_allclose(served.params["w"], 2**4 * W0["w"])  # w - 1 * (w - 2 w)
    else:  # some doubled an older one
        assert np.all((2 * W0["w"] < served.params["w"]) & (served.params["w"] < 2**4 * W0["w"]))
    assert served.counts["on_time"] >= 8 and served.counts["failed"] == 0


def test_a_teacher_travels_only_where_there_is_one():
    plain, taught = Grid(twice), Grid(twice, [1.0, 1, 2])
    plain.serve(fedavg(optax.sgd(1.0)), Rounds(2, 2), W0, steps=2)
    taught.serve(fare_dust(optax.sgd(1.0), k=3), Rounds(2, 3, late_rounds=3), W0, steps=5)
    assert all(messages.TEACHER not in one.content for one in plain.sent)
    lessons = set()
    for one in taught.sent:
        model, teacher = (
            messages.unpacked(one.content[key])["w"] for key in (messages.MODEL, messages.TEACHER)
        )
        lessons |= {*((teacher - model) / W0["w"]).tolist()}
    # Nothing, or a whole step on a late report of one of the first rounds: it doubled the model.
    assert {0, 1, 2} <= lessons <= {0, 1, 2, 4, 8}


def test_a_model_is_packed_once_for_all():
    grid = Grid(twice)
    grid.serve(fedavg(optax.sgd(1.0)), Rounds(4, 4), W0, steps=1)
    assert len({id(one.content[messages.MODEL]) for one in grid.sent}) == 1
    assert [one.content[messages.ORDER]["dispatch"] for one in grid.sent] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "policy, seconds",
    [
        (Rounds(1, 1), DEFAULT_TTL),
        (Rounds(1, 1, late_seconds=10.0), DEFAULT_TTL),
        (Rounds(1, 1, late_seconds=1e5), 1e5),
        (Rounds(1, 1, late_seconds=np.inf), DEFAULT_TTL),
        (Buffer(1, 1), DEFAULT_TTL),
    ],
)
def test_a_message_lives_as_long_as_its_report_may_take(policy, seconds):
    grid = Grid(twice)
    grid.serve(feast(optax.sgd(1.0), beta=0.9, kappa=0.2), policy, W0, steps=1)
    assert {one.metadata.ttl for one in grid.sent} == {seconds}


def test_clients_fail_in_many_ways(caplog):
    """An error, a node that is gone, a report of another model: each is a client that failed."""

    def train(message):
        number = message.content[messages.ORDER]["dispatch"]
        if number == 0:
            return Message(Error(2, "out of memory"), reply_to=message)
        if number == 2:
            other = messages.report({"w": np.zeros(5)}, 1, 0.0, "x")
            return Message(other, reply_to=message)
        return twice(message)

    grid = Grid(train, gone=[1])
    served = grid.serve(fedavg(optax.sgd(1.0)), Rounds(4, 4), W0, steps=2)
    assert (served.counts["on_time"], served.counts["failed"]) == (5, 3)
    said = sorted(record.getMessage().split("failed: ")[1] for record in caplog.records)
    assert said == [
        "b is not there, expected float32 []",
        "it was gone when it was called",
        "out of memory",
    ]
    np.testing.assert_allclose(served.params["w"], 4 * W0["w"])


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_a_fleet_learns_what_the_simulator_does(monkeypatch, rho):
    """The whole way: orders and reports through messages, clients that train by their own."""
    task, seed = linear_task(), 3
    delays = np.random.default_rng(0).integers(1, 7, 60).astype(float)
    policy = Rounds(goal=3, cohort=5, late_rounds=4)
    server = fare_dust(optax.adam(0.05), k=4)
    local = Local(0.2, 4, distillation=rho)
    plan = over_selected(
        9,
        table_latency(delays, task.population.examples),
        seed=seed,
        updates=10 * policy.goal,
        **options_of(policy),
    )

    # A simulated client may be asked again while it is under way: so may these.
    class Redrawn(Coordinator):
        def __init__(self, algorithm, policy, params, choose, weigh, teacher):
            super().__init__(algorithm, policy, params, self.drawn, weigh, teacher)

        def drawn(self, group):
            rows = random_streams.cohorts(
                seed, random_streams.Purpose.CLIENTS, 9, 5, group, group + 1
            )
            return [NODES[i] for i in rows[0]]

    monkeypatch.setattr(live, "Coordinator", Redrawn)
    with jax.enable_x64(True):
        w0 = task.model.init(jax.random.key(seed_word(seed)))
        train = on_own_data(task.lesson, local, seed=seed)

        def do(message):
            who = NODES.index(message.metadata.dst_node_id)
            mine = slice(task.offsets[who], task.offsets[who + 1])
            x, y = task.x[mine], task.y[mine]
            return answer(message, lambda sent: (train(sent, x, y), len(x)), like=w0)

        grid = Grid(do, delays)
        monkeypatch.setattr(grid, "get_node_ids", lambda: range(100))
        served = grid.serve(server, policy, w0, seed=seed, steps=10)
        simulated = simulate(task, plan, server, local, seed=seed)
        for ours, theirs in ((served.params, simulated.params), (served.model, simulated.model)):
            jax.tree.map(
                lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10), ours, theirs
            )
    assert served.counts["late"] > 5
