"""What does not fit together is one line, before anything is compiled."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import stragglers as st
from stragglers._core.errors import BadInput
from stragglers.algorithms.base import all_of, with_ema
from stragglers.simulator.contract import check_contract
from stragglers.tasks.base import cross_entropy
from tests.support.helpers import linear_task

TASK, SGD = linear_task(), optax.sgd(1.0)
WHOLE = st.fedavg(SGD)


def refused(line, task=TASK, **changes):
    with pytest.raises(BadInput, match=line) as error:
        check_contract(task, WHOLE._replace(**changes))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "algorithm",
    [
        WHOLE,
        st.semi_async(SGD),
        st.fare_dust(optax.adam(0.1), k=3, average="corrected"),
        with_ema(st.feast(SGD, beta=0.9, kappa=0.3), 0.5),
        all_of([st.feast(SGD, beta=0.9, kappa=kappa) for kappa in (0.1, 0.5)]),
    ],
)
@pytest.mark.parametrize("task", [TASK, st.glyphs(writers=4)], ids=lambda task: task.name)
def test_the_package_keeps_it(task, algorithm):
    check_contract(task, algorithm)


def test_nothing_is_computed(monkeypatch):
    monkeypatch.setattr(jax.stages.Lowered, "compile", lambda *_: pytest.fail("compiled"))
    check_contract(TASK, WHOLE)


def test_when_late_reports_settle():
    refused("settles = 'next-step'; did you mean 'next_step'", settles="next-step")


def growing(state, on_time):
    stepped, opened = WHOLE.step(state, on_time)
    return st.State(stepped.core, aside=jnp.zeros(3)), opened


def widened(state, on_time):
    stepped, opened = WHOLE.step(state, on_time)
    wide = jax.tree.map(lambda w: jnp.stack([w, w]), stepped.core.params)
    return st.State(stepped.core._replace(params=wide)), opened


def test_a_state_that_changes_in_a_step():
    refused(
        "step.* returned aside as float32.3., but the state of `init` has nothing", step=growing
    )
    refused("step.* returned core.params.* as float32.2, .*Keep structure, shapes", step=widened)
    refused("step.* returned core.*Keep structure", step=lambda state, _: (state._asdict(), None))


def test_functions_that_return_something_else():
    refused(r"step\(state, on_time\) returned no pair", step=lambda state, on_time: state)
    refused(r"init\(params\) returned no State", init=lambda params: params)
    refused(r"params\(state\) returned", params=lambda state: state.core)
    refused(r"model\(state\) returned", model=lambda state: jnp.zeros(()))
    refused(r"others\[0\]\(state\) returned", others=(lambda state: state,))
    refused(r"teach\(state, starting\) returned", teach=lambda state, starting: starting.round)
    late = {"settles": "by_round", "settle": lambda state, opened, late, round: late}
    refused(r"settle\(state, opened, late, round\) returned", **late)


def test_a_function_that_raises_is_named_with_its_line():
    def broken(state, on_time):
        return state.core.nothing, None

    refused(
        r"step.* failed \(AttributeError: .*'nothing', at .*test_contract.py:\d+\)", step=broken
    )


def test_a_task_s_functions():
    model = TASK.model
    ints = model._replace(init=lambda key: jnp.zeros((3, 2), int))
    refused("one array of int32. Return floating point", TASK._replace(model=ints))
    refused("loss.* failed .TypeError", TASK._replace(loss=lambda logits: logits))
    mean = TASK._replace(loss=lambda logits, y: jnp.mean(logits))
    refused(r"loss.* returned float32\[\] for a batch of 2", mean)
    refused("score.* returned no pair", TASK._replace(score=lambda logits, y: y))
    refused(
        "penalty.* returned a dict|penalty.*Return a number", TASK._replace(penalty=lambda w: w)
    )
    labelled = TASK._replace(loss=cross_entropy)  # for another loss, labels mean something else
    refused("y has label 99, but the model has", labelled._replace(y=np.full_like(TASK.y, 99)))
    refused("test_y has label -1", labelled._replace(test_y=np.full_like(TASK.test_y, -1)))


def test_teachers_need_late_reports():
    fleet = st.Fleet(TASK.population, st.PER_EXAMPLE)
    schedule = st.schedule(fleet, st.Rounds(goal=2, cohort=4), updates=8)
    local = st.Local(0.1, 4, distillation=0.5)
    with pytest.raises(BadInput, match="no report is late and counts.*Set late_rounds=3"):
        st.simulate(TASK, schedule, st.fare_dust(SGD, k=3), local)
