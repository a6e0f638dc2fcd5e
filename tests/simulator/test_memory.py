import jax
import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.simulator import memory
from stragglers.simulator.memory import Memory

MIB = 1 << 20
PARTS = Memory(
    state=MIB, buckets=2 * MIB, data=3 * MIB, schedule=4096, program=4 * MIB, other=MIB, preparing=0
)


def test_what_is_announced_is_all_parts_or_what_preparing_took():
    assert PARTS.total == PARTS.training == 11 * MIB + 4096
    assert str(PARTS) == (
        "11 MiB (state 1 MiB, buckets 2 MiB, data 3 MiB, schedule 4 KiB, program 4 MiB, "
        "other 1 MiB)"
    )
    cold = PARTS._replace(preparing=20 * MIB)
    assert cold.total == 20 * MIB and cold.training == PARTS.training
    assert str(cold).startswith("20 MiB (") and str(cold).endswith("preparing 20 MiB)")


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "device_bytes", lambda: PARTS.total)
    memory.check_fits(PARTS)
    monkeypatch.setattr(memory, "device_bytes", lambda: PARTS.total - 1)
    with pytest.raises(
        BadInput, match=r"training needs 11 MiB \(.*\), the device has 11 MiB; lower"
    ):
        memory.check_fits(PARTS)


def test_a_device_says_what_was_in_use(monkeypatch):
    class Device:
        def memory_stats(self):
            return {"bytes_in_use": 5, "peak_bytes_in_use": 7, "bytes_limit": 9}

    assert memory.in_use() == (0, 0) or jax.default_backend() != "cpu"
    monkeypatch.setattr(jax, "devices", lambda: [Device()])
    assert memory.in_use() == (5, 7) and memory.device_bytes() == 9


def test_a_history_that_does_not_fit_is_refused(monkeypatch):
    model = {"w": jax.ShapeDtypeStruct((1 << 20,), np.float32)}  # 4 MiB
    monkeypatch.setattr(memory, "device_bytes", lambda: 1 << 30)
    memory.check_history(200, model)
    with pytest.raises(BadInput, match=r"a history of 300 models of 4 MiB: 1.2 GiB, .* 1.0;"):
        memory.check_history(300, model)
    memory.check_buckets(200, model)
    with pytest.raises(BadInput, match=r"sums in flight of 300 .* 1.2 GiB, .* 1.0; lower updates"):
        memory.check_buckets(300, model)


def test_the_device_says_what_it_has():
    assert 1 << 28 < memory.device_bytes() < 1 << 48
