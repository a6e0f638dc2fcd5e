import os

import pytest

from stragglers import device
from stragglers.errors import BadInput


@pytest.fixture
def plugged(monkeypatch):
    """Says which plugins are installed, and leaves the environment as it was."""
    for name in ("PJRT_NPROC", "JAX_PLATFORMS"):
        monkeypatch.setenv(name, "to be restored")
        monkeypatch.delenv(name)

    def plug(*plugins):
        monkeypatch.setattr(device, "find_spec", lambda name: name if name in plugins else None)

    return plug


def test_a_cpu_gets_its_threads_and_refuses_others(plugged):
    plugged()
    device.prepare(3)
    assert os.environ["PJRT_NPROC"] == "3"
    with pytest.raises(BadInput, match="threads=2, but the environment says PJRT_NPROC=3"):
        device.prepare(2)


def test_an_accelerator_compiles_with_all_threads_there_are(plugged, monkeypatch):
    plugged("jax_cuda13_plugin")
    device.prepare(2)
    assert device.on_accelerator() and "PJRT_NPROC" not in os.environ
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    device.prepare(2)
    assert not device.on_accelerator() and os.environ["PJRT_NPROC"] == "2"
