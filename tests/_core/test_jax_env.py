import os

import pytest

from stragglers._core import jax_env
from stragglers._core.errors import BadInput


@pytest.fixture
def plugged(monkeypatch):
    """Says which plugins are installed, and leaves the environment as it was."""
    for name in ("PJRT_NPROC", "JAX_NUM_CPU_DEVICES", "JAX_PLATFORMS"):
        monkeypatch.setenv(name, "to be restored")
        monkeypatch.delenv(name)

    def plug(*plugins):
        monkeypatch.setattr(jax_env, "find_spec", lambda name: name if name in plugins else None)

    return plug


def test_a_cpu_gets_its_threads_and_refuses_others(plugged):
    plugged()
    jax_env.prepare(3)
    assert (os.environ["PJRT_NPROC"], os.environ["JAX_NUM_CPU_DEVICES"]) == ("1", "3")
    jax_env.prepare(2)  # three are enough
    with pytest.raises(BadInput, match="threads=4, but the environment says JAX_NUM_CPU_DEVICES=3"):
        jax_env.prepare(4)


@pytest.mark.parametrize("name", ["PJRT_NPROC", "JAX_NUM_CPU_DEVICES"])
def test_what_the_environment_must_not_say(plugged, monkeypatch, name):
    plugged()
    monkeypatch.setenv(name, "many")
    with pytest.raises(BadInput, match=f"the environment says {name}=many.*unset it"):
        jax_env.prepare(1)


def test_an_accelerator_compiles_with_all_threads_there_are(plugged, monkeypatch):
    plugged("jax_cuda13_plugin")
    jax_env.prepare(2)
    assert jax_env.on_accelerator() and "PJRT_NPROC" not in os.environ
    assert os.environ["JAX_NUM_CPU_DEVICES"] == "2"  # a plugin may be there without its device
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    jax_env.prepare(2)
    assert not jax_env.on_accelerator() and os.environ["JAX_NUM_CPU_DEVICES"] == "2"
