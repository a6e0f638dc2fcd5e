"""What trials took: each its share of a program, and of a training."""

import pytest

from reproduction import costs, rows


@pytest.fixture(scope="module")
def there():
    return rows.found()


def test_trials_of_one_program_share_its_time(there):
    key = rows.Variant("emnist/per-example/feast").key
    (trial,) = (trial for trial in there[key] if trial.run["device"]["trials_together"] == 1)
    shared = trial._replace(
        run={**trial.run, "device": {**trial.run["device"], "trials_together": 3}}
    )
    alone, of_three = (costs.costs({key: [one]})[1][0] for one in (trial, shared))
    assert alone[1] == "24" and of_three[1] == "8"
    assert [one[-1] for one in (alone, of_three)] == ["1", "3"]
    hours = [costs.ran({key: [one]})["on"][0]["hours"] for one in (trial, shared)]
    assert hours[0] == pytest.approx(3 * hours[1])


def test_models_of_one_training_are_counted_once(there):
    """And a row's cost is that of a trial without others, where there is one."""
    key = rows.Variant("cifar100/per-domain/feast").key
    first, second = sorted(there[key], key=lambda trial: trial.seed)
    assert [costs.models(trial) for trial in (first, second)] == [1, 11]
    assert costs.costs({key: [first, second]}) == costs.costs({key: [first]})
    alone, shared = (costs.ran({key: [trial] * 11}) for trial in (first, second))
    assert (alone["trainings"], shared["trainings"]) == (11, 1)
    assert shared["client_updates"] == pytest.approx(second.run["trained"])
    assert shared["on"][0]["hours"] == pytest.approx(second.run["wall_s"] / 3600)


def test_devices_are_told_apart(there):
    key = rows.Variant("emnist/per-domain/fedadam").key
    trials = there[key]
    cpu = trials[0]._replace(
        run={
            **trials[0].run,
            "wall_s": 7200,
            "device": {"platform": "cpu", "kind": "cpu", "trials_together": 1},
        }
    )
    most, other = costs.ran({key: [*trials, cpu]})["on"]
    assert (most["device"], other["device"]) == ("NVIDIA H200", "cpu")
    assert other["hours"] == 2 and other["trainings"] == 1 and most["trainings"] == len(trials)
    assert costs.is_on_a_cpu(cpu) and not any(map(costs.is_on_a_cpu, trials))
