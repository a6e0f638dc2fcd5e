"""Without Flax, one line says what to install."""

import sys

import pytest

import stragglers as st
from stragglers._core.errors import BadInput


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "flax", None)
    with pytest.raises(BadInput, match=r"pip install 'stragglers\[flax\]'"):
        st.nnx_model(lambda rngs: rngs)
