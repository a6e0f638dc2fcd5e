"""Two devices train as one does: the same clients, the same sums, the same numbers."""

import jax
import numpy as np
import optax
import pytest

from stragglers._core.errors import BadInput
from stragglers.algorithms.base import with_ema
from stragglers.algorithms.fare_dust import fare_dust
from stragglers.algorithms.feast import feast
from stragglers.algorithms.fedavg import fedavg
from stragglers.planning.policy import Buffer, Rounds
from stragglers.simulator import device_mesh
from stragglers.simulator.events import ChunkEnded
from stragglers.simulator.local_training import Local
from stragglers.simulator.prepare import Trial, default_lanes
from stragglers.simulator.simulate import Simulation, results, simulate
from tests.support.helpers import linear_task, load_of, matrix, measured, plan_for
from tests.support.together import simulate_together

STEPS, K = 10, 3
ADAM = optax.adam(0.05, eps=1e-3)
TABLE = np.random.default_rng(1).lognormal(1, 1, 80)
CLIENT = Local(learning_rate=0.2, batch_size=4, distillation=0.5)
KINDS = {
    "fedavg": (with_ema(fedavg(ADAM), 0.8), Rounds(goal=3, cohort=5)),
    "fedbuff": (fedavg(ADAM), Buffer(size=3, concurrency=7)),
    "fare-dust": (fare_dust(ADAM, k=K), Rounds(goal=3, cohort=5, late_rounds=K)),
    "feast": (feast(ADAM, beta=0.5, kappa=0.3), Rounds(goal=3, cohort=5, late_seconds=9.0)),
}


def trained(kind, dtype, seed=0, **options):
    algorithm, policy = KINDS[kind]
    task = linear_task(dtype=dtype)
    plan = plan_for(task, policy, TABLE, seed=seed, steps=STEPS)
    return simulate(task, plan, algorithm, CLIENT, seed=seed, evaluate_at=[4], **options)


def assert_close(a, b, **tolerance):
    for one, other in ((a.params, b.params), (a.model, b.model)):
        np.testing.assert_allclose(matrix(one), matrix(other), **tolerance)
    for one, other in zip(a.curve, b.curve, strict=True):
        np.testing.assert_allclose(measured(one), measured(other), **tolerance)
    assert a.trained == b.trained and a.dropped == b.dropped


@pytest.mark.parametrize("lanes", [None, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_two_devices_train_as_one(kind, lanes):
    with jax.enable_x64(True):
        one = trained(kind, np.float64)
        two = trained(kind, np.float64, devices=2, lanes=lanes)
        assert (one.start.devices, two.start.devices) == (1, 2)
        assert two.start.lanes == (lanes or 2)
        assert_close(one, two, rtol=1e-10, atol=1e-10)


def test_in_float32_too():
    assert_close(
        trained("fare-dust", np.float32),
        trained("fare-dust", np.float32, devices=2),
        rtol=1e-5,
        atol=1e-6,
    )


def test_the_same_bits_every_time_and_in_chunks_of_any_length():
    one, other = (trained("feast", np.float32, devices=2, chunk=chunk) for chunk in (3, 10))
    np.testing.assert_array_equal(matrix(one.params), matrix(other.params))
    np.testing.assert_array_equal(matrix(one.model), matrix(other.model))


def test_trials_together_on_two_devices():
    algorithm, policy = KINDS["fedavg"]
    with jax.enable_x64(True):
        task = linear_task(dtype=np.float64)
        trials = [Trial(plan_for(task, policy, TABLE, seed=s, steps=STEPS), s) for s in range(3)]
        both = simulate_together(
            task, trials, algorithm, CLIENT, devices=2, lanes=4, evaluate_at=[4]
        )
        for seed, result in enumerate(both):
            assert_close(trained("fedavg", np.float64, seed), result, rtol=1e-10, atol=1e-10)


def test_a_run_goes_on_where_it_stood():
    algorithm, policy = KINDS["fare-dust"]
    task = linear_task(dtype=np.float32)
    trial = Trial(plan_for(task, policy, TABLE, seed=0, steps=STEPS))
    options = dict(evaluate_at=[4], devices=2, chunk=2)
    whole = trained("fare-dust", np.float32, devices=2, chunk=2)
    for event in Simulation(task, [trial], algorithm, CLIENT, **options).run():
        if isinstance(event, ChunkEnded) and event.snapshot.step == 6:
            carry = jax.tree.map(np.array, event.snapshot.carry)  # valid until the next event
            kept = event.snapshot._replace(carry=carry)
            break
    simulation = Simulation(task, [trial], algorithm, CLIENT, **options)
    places = simulation.first().carry
    put = jax.tree.map(lambda a, b: jax.device_put(a, b.sharding), kept.carry, places)
    (again,) = results(simulation.events(kept._replace(carry=put)))
    np.testing.assert_array_equal(matrix(whole.params), matrix(again.params))
    np.testing.assert_array_equal(matrix(whole.model), matrix(again.model))


def test_a_bad_report_is_dropped_once_whichever_device_trained_it():
    algorithm, policy = KINDS["fedavg"]
    task = linear_task(dtype=np.float32)
    task.x[: task.offsets[2]] = np.nan  # the first two clients'
    plan = plan_for(task, policy, TABLE, seed=0, steps=STEPS)
    one, two = (simulate(task, plan, algorithm, CLIENT, devices=n) for n in (1, 2))
    assert one.dropped == two.dropped > 0
    np.testing.assert_allclose(matrix(one.params), matrix(two.params), rtol=1e-5, atol=1e-6)


def test_more_devices_than_there_are():
    with pytest.raises(BadInput, match="devices=99, but this process has 2; .*NUM_CPU_DEVICES=99"):
        device_mesh.mesh_of(99)
    assert device_mesh.mesh_of() is None is device_mesh.mesh_of(1)


def test_lanes_are_the_same_number_on_each():
    with pytest.raises(BadInput, match="lanes=3; expected a multiple of the 2 devices"):
        trained("fedavg", np.float32, devices=2, lanes=3)


def test_lanes_that_several_accelerators_would_take(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    equal = load_of([[10] * 64])
    assert default_lanes(equal, 1) == 64 == default_lanes(equal, 4)
    assert default_lanes(load_of([[1] * 63 + [60]]), 4) % 4 == 0
