"""Federated learning with slow clients: time is data.

A schedule says which client starts when, from which model version, and which server step its report
meets. It is a table made before any training.

    import stragglers as st

    fleet = st.Fleet(st.clients(1000, examples=st.Constant(100)), st.PER_EXAMPLE)
    schedule = st.schedule(fleet, st.Rounds(goal=10, over_selection=1.2), updates=1000)
    st.summarise(schedule)

What this module names is public; all else may change. A name is loaded when it is first used, so
that planning loads neither jax nor matplotlib.
"""

from typing import TYPE_CHECKING, Any

from stragglers._core import moved
from stragglers._core.version import __version__ as __version__

moved.install()

if TYPE_CHECKING:  # for editors and type checkers: the same names, from the same modules
    from stragglers._core.errors import BadInput as BadInput
    from stragglers.algorithms import trees as trees
    from stragglers.algorithms.base import Algorithm as Algorithm
    from stragglers.algorithms.base import Mean as Mean
    from stragglers.algorithms.base import State as State
    from stragglers.algorithms.base import Sum as Sum
    from stragglers.algorithms.base import all_of as all_of
    from stragglers.algorithms.base import descend as descend
    from stragglers.algorithms.base import with_ema as with_ema
    from stragglers.algorithms.fare_dust import fare_dust as fare_dust
    from stragglers.algorithms.feast import feast as feast
    from stragglers.algorithms.fedavg import fedavg as fedavg
    from stragglers.algorithms.fedavg import semi_async as semi_async
    from stragglers.config.catalog import preset as preset
    from stragglers.config.settings import Experiment as Experiment
    from stragglers.planning.availability import Availability as Availability
    from stragglers.planning.availability import Hours as Hours
    from stragglers.planning.distributions import Constant as Constant
    from stragglers.planning.distributions import Gamma as Gamma
    from stragglers.planning.distributions import LogNormal as LogNormal
    from stragglers.planning.distributions import Pareto as Pareto
    from stragglers.planning.distributions import Percentiles as Percentiles
    from stragglers.planning.distributions import Samples as Samples
    from stragglers.planning.distributions import ShiftedExponential as ShiftedExponential
    from stragglers.planning.faults import Faults as Faults
    from stragglers.planning.fleet import Fleet as Fleet
    from stragglers.planning.latency import PER_DOMAIN as PER_DOMAIN
    from stragglers.planning.latency import PER_EXAMPLE as PER_EXAMPLE
    from stragglers.planning.latency import Latency as Latency
    from stragglers.planning.latency import PerGroup as PerGroup
    from stragglers.planning.latency import TimeLimit as TimeLimit
    from stragglers.planning.make_schedule import schedule as schedule
    from stragglers.planning.policy import Buffer as Buffer
    from stragglers.planning.policy import Rounds as Rounds
    from stragglers.planning.population import Clients as Clients
    from stragglers.planning.population import Population as Population
    from stragglers.planning.population import clients as clients
    from stragglers.planning.schedule import Fate as Fate
    from stragglers.planning.schedule import Schedule as Schedule
    from stragglers.report.plans import Summary as Summary
    from stragglers.report.plans import plan as plan
    from stragglers.report.plans import summarise as summarise
    from stragglers.runs.records import Record as Record
    from stragglers.runs.results import Runs as Runs
    from stragglers.runs.results import load_runs as load_runs
    from stragglers.runs.run import run as run
    from stragglers.serving.serve import Link as Link
    from stragglers.serving.serve import Reply as Reply
    from stragglers.serving.serve import Served as Served
    from stragglers.serving.serve import serve as serve
    from stragglers.simulator import label_skew as label_skew
    from stragglers.simulator.events import ChunkEnded as ChunkEnded
    from stragglers.simulator.events import Diverged as Diverged
    from stragglers.simulator.events import Evaluated as Evaluated
    from stragglers.simulator.events import Finished as Finished
    from stragglers.simulator.events import Progressed as Progressed
    from stragglers.simulator.events import Started as Started
    from stragglers.simulator.local_training import Local as Local
    from stragglers.simulator.simulate import simulate as simulate
    from stragglers.simulator.simulate import simulate_events as simulate_events
    from stragglers.simulator.trial_state import Result as Result
    from stragglers.tasks.base import Task as Task
    from stragglers.tasks.cifar100 import cifar100 as cifar100
    from stragglers.tasks.emnist import emnist as emnist
    from stragglers.tasks.glyphs import glyphs as glyphs
    from stragglers.tasks.stackoverflow import stackoverflow as stackoverflow
else:
    import importlib

    # Where each public name lives.
    HOMES = {
        "Clients": "stragglers.planning.population",
        "Population": "stragglers.planning.population",
        "clients": "stragglers.planning.population",
        "Constant": "stragglers.planning.distributions",
        "Gamma": "stragglers.planning.distributions",
        "LogNormal": "stragglers.planning.distributions",
        "Pareto": "stragglers.planning.distributions",
        "Percentiles": "stragglers.planning.distributions",
        "Samples": "stragglers.planning.distributions",
        "ShiftedExponential": "stragglers.planning.distributions",
        "PER_DOMAIN": "stragglers.planning.latency",
        "PER_EXAMPLE": "stragglers.planning.latency",
        "Latency": "stragglers.planning.latency",
        "PerGroup": "stragglers.planning.latency",
        "TimeLimit": "stragglers.planning.latency",
        "Faults": "stragglers.planning.faults",
        "Availability": "stragglers.planning.availability",
        "Hours": "stragglers.planning.availability",
        "Fleet": "stragglers.planning.fleet",
        "Buffer": "stragglers.planning.policy",
        "Rounds": "stragglers.planning.policy",
        "schedule": "stragglers.planning.make_schedule",
        "Fate": "stragglers.planning.schedule",
        "Schedule": "stragglers.planning.schedule",
        "Summary": "stragglers.report.plans",
        "plan": "stragglers.report.plans",
        "summarise": "stragglers.report.plans",
        "trees": "stragglers.algorithms",
        "Algorithm": "stragglers.algorithms.base",
        "Mean": "stragglers.algorithms.base",
        "State": "stragglers.algorithms.base",
        "Sum": "stragglers.algorithms.base",
        "all_of": "stragglers.algorithms.base",
        "descend": "stragglers.algorithms.base",
        "with_ema": "stragglers.algorithms.base",
        "fedavg": "stragglers.algorithms.fedavg",
        "semi_async": "stragglers.algorithms.fedavg",
        "fare_dust": "stragglers.algorithms.fare_dust",
        "feast": "stragglers.algorithms.feast",
        "Task": "stragglers.tasks.base",
        "glyphs": "stragglers.tasks.glyphs",
        "emnist": "stragglers.tasks.emnist",
        "cifar100": "stragglers.tasks.cifar100",
        "stackoverflow": "stragglers.tasks.stackoverflow",
        "label_skew": "stragglers.simulator",
        "Local": "stragglers.simulator.local_training",
        "simulate": "stragglers.simulator.simulate",
        "simulate_events": "stragglers.simulator.simulate",
        "ChunkEnded": "stragglers.simulator.events",
        "Diverged": "stragglers.simulator.events",
        "Evaluated": "stragglers.simulator.events",
        "Finished": "stragglers.simulator.events",
        "Progressed": "stragglers.simulator.events",
        "Started": "stragglers.simulator.events",
        "Result": "stragglers.simulator.trial_state",
        "preset": "stragglers.config.catalog",
        "Experiment": "stragglers.config.settings",
        "run": "stragglers.runs.run",
        "Runs": "stragglers.runs.results",
        "load_runs": "stragglers.runs.results",
        "Record": "stragglers.runs.records",
        "Link": "stragglers.serving.serve",
        "Reply": "stragglers.serving.serve",
        "Served": "stragglers.serving.serve",
        "serve": "stragglers.serving.serve",
        "BadInput": "stragglers._core.errors",
        "__version__": "stragglers._core.version",
    }
    __all__ = [*HOMES]

    def __getattr__(name: str) -> Any:
        if name not in HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = importlib.import_module(HOMES[name])
        # As `from home import name` does: an attribute, or else a module.
        found = getattr(home, name, None) or importlib.import_module(f"{HOMES[name]}.{name}")
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted(__all__)
