"""What a live server leaves: a log that fits, and a state to go on from."""

import csv
from functools import partial

import numpy as np
import optax
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from stragglers._core.errors import BadInput
from stragglers.algorithms.fedavg import fedavg
from stragglers.planning.fit import logs
from stragglers.planning.policy import Rounds
from stragglers.planning.report_weights import report_weights
from tests.support.fleet import ADAM, ALGORITHMS, W0, Fleet, close, failing


def test_the_log_is_one_to_fit(tmp_path):
    fleet = Fleet(np.array([2.0, 3, 4, 9] * 50), spoil=failing(0, 21))
    fleet.serve(fedavg(optax.sgd(1.0)), Rounds(goal=3, cohort=4), folder=tmp_path, steps=8)
    log = logs.read(tmp_path / "log.csv")
    lines = [*csv.DictReader((tmp_path / "log.csv").read_text().splitlines())]
    assert log.groups in (("a", "b"), ("b", "a"))
    # The first to fail was never heard of before: what it has to train on is not known.
    assert np.sum(~log.came) == 1 and len(lines) > 20
    by_number = {order.dispatch: order for order in fleet.orders}
    failed = next(line for line in lines if not line["training"])
    assert int(failed["client"]) == by_number[21].client
    assert failed["examples"] == str(3 + by_number[21].client)
    first = lines[0]
    assert (first["communication"], first["training"]) == ("2.500", "0.500")  # three seconds
    assert (first["started"], first["version"], first["step"]) == ("0.000", "0", "0")
    late = [line for line in lines if line["version"] != line["step"]]
    assert {float(line["communication"]) for line in late} >= {8.5}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_server_goes_on_where_it_was(tmp_path, algorithm):
    """Clients under way are forgotten; rounds, draws and the model go on."""
    chosen, policy = ALGORITHMS[algorithm], Rounds(goal=3, cohort=3)
    delays = np.array([1.0, 2, 3] * 50)
    whole = Fleet(delays).serve(chosen, policy, seed=1)
    first = Fleet(delays).serve(chosen, policy, seed=1, steps=4, folder=tmp_path)
    steps = []
    rest = Fleet(delays)
    second = rest.serve(
        chosen, policy, seed=1, folder=tmp_path, on_step=lambda step, now, model: steps.append(step)
    )
    close((second.model, second.params), (whole.model, whole.params))
    assert steps == [5, 6, 7, 8, 9, 10] and rest.orders[0].dispatch == 12
    again = Fleet(delays).serve(chosen, policy, seed=1, folder=tmp_path)
    close(again.model, whole.model)
    assert again.seconds == 0 and not np.allclose(first.params["w"], whole.params["w"])


def test_who_took_part_before_is_not_forgotten(tmp_path):
    """Clients that were there the more often count for less, in the second part as in the whole."""
    weigh = partial(report_weights, participation="corrected")
    policy, delays = Rounds(goal=3, cohort=3), np.array([1.0, 2, 3] * 50)
    whole, uncorrected = (
        Fleet(delays).serve(fedavg(ADAM), policy, seed=1, **options)
        for options in ({"weigh": weigh}, {})
    )
    for steps in (4, 7, 10):
        rest = Fleet(delays).serve(
            fedavg(ADAM), policy, seed=1, steps=steps, folder=tmp_path, weigh=weigh
        )
    close(rest.params, whole.params)
    assert not np.allclose(whole.params["w"], uncorrected.params["w"])


def test_a_state_that_does_not_say_who_took_part_goes_on(tmp_path):
    """As those of before do not."""
    policy, delays = Rounds(goal=3, cohort=3), np.array([1.0, 2, 3] * 50)
    whole = Fleet(delays).serve(fedavg(ADAM), policy, seed=1)
    Fleet(delays).serve(fedavg(ADAM), policy, seed=1, steps=4, folder=tmp_path)
    path = tmp_path / "state.safetensors"
    with safe_open(path, "numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        counters = file.metadata()
    without = {name: array for name, array in arrays.items() if not name.startswith("clients.")}
    assert len(without) < len(arrays)
    save_file(without, path, counters)
    rest = Fleet(delays).serve(fedavg(ADAM), policy, seed=1, folder=tmp_path)
    close(rest.params, whole.params)


def test_a_state_is_kept_every_so_many_steps(tmp_path):
    kept = []

    def look(step, now, model):
        path = tmp_path / "state.safetensors"
        if path.exists():
            with safe_open(path, "numpy") as file:
                kept.append((step, int(file.metadata()["version"])))

    Fleet(np.ones(50)).serve(
        fedavg(ADAM), Rounds(2, 2), steps=7, folder=tmp_path, keep_every=3, on_step=look
    )
    assert kept == [(3, 3), (4, 3), (5, 3), (6, 6), (7, 6)]
    with safe_open(tmp_path / "state.safetensors", "numpy") as file:
        assert file.metadata()["version"] == "7"  # the end is always kept


def test_a_server_that_was_stopped_keeps_what_was_in(tmp_path):
    """FeAST's rounds that still wait are settled with what they have."""

    class Stopped(Exception):
        pass

    def stop(step, now, model):
        if step == 5:
            raise Stopped

    chosen, policy = ALGORITHMS["feast"], Rounds(goal=2, cohort=4, late_seconds=30.0)
    fleet = Fleet(np.array([1.0, 2, 5, 90] * 50))
    with pytest.raises(Stopped):
        fleet.serve(chosen, policy, folder=tmp_path, on_step=stop)
    steps = []
    Fleet(np.ones(90)).serve(
        chosen, policy, folder=tmp_path, on_step=lambda step, now, model: steps.append(step)
    )
    assert steps == [6, 7, 8, 9, 10]


@pytest.mark.parametrize(
    "damage, says",
    [
        (lambda path: path.write_bytes(b"no tensors"), "no state of a server"),
        (lambda path: path.write_bytes(path.read_bytes()[:-8]), "no state of a server"),
    ],
)
def test_a_damaged_state_is_no_start(tmp_path, damage, says):
    Fleet(np.ones(50)).serve(fedavg(ADAM), Rounds(2, 2), steps=1, folder=tmp_path)
    damage(tmp_path / "state.safetensors")
    with pytest.raises(BadInput, match=says):
        Fleet(np.ones(50)).serve(fedavg(ADAM), Rounds(2, 2), steps=2, folder=tmp_path)


def test_the_state_of_another_model_is_no_start(tmp_path):
    Fleet(np.ones(50)).serve(fedavg(ADAM), Rounds(2, 2), steps=1, folder=tmp_path)
    for other in (dict(algorithm=fedavg(optax.sgd(1.0))), dict(params={**W0, "b": np.ones(3)})):
        with pytest.raises(BadInput, match="another algorithm or model; name another folder"):
            Fleet(np.ones(50)).serve(
                **{
                    "algorithm": fedavg(ADAM),
                    "policy": Rounds(2, 2),
                    "folder": tmp_path,
                    **other,
                }
            )


def test_a_clients_clock_is_no_faster_than_the_servers(tmp_path):
    fleet = Fleet(np.full(50, 2.0), spoil=lambda reply: reply._replace(training=5.0))
    fleet.serve(fedavg(ADAM), Rounds(2, 2), steps=1, folder=tmp_path)
    for line in csv.DictReader((tmp_path / "log.csv").read_text().splitlines()):
        assert (line["communication"], line["training"]) == ("0.000", "2.000")
