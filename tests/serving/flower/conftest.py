import pytest
from flwr.supercore.task_identity import TaskIdentity


@pytest.fixture(autouse=True)
def inside_an_app(monkeypatch):
    """Flower makes messages only inside its apps, which know their run."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
