"""Controls on the embedded glyphs: what makes the gap of straggler accuracy, and what does not.

    plain     the task as it is, where only stragglers hold the straggler classes: accuracies as the
              bias on these classes runs, and on a test set in which they are as rare as in training
    weighted  the same task; each report of a straggler counts several times
    frequent  straggler classes are as frequent in training as in the test set: of the other
              examples, each client loses the same share
    scarce    no client loses a class, but all clients lose the same share of straggler classes, so
              that these are as rare in training as they are in `plain`
    unsplit   no client loses a class: neither absent nor rare
    slanted   no classes: stragglers are the writers who slant most, and their drawings are tested
    turned    the same, and stragglers turn their paper by a quarter

Latency goes by group as ever. Every row has ten seeds; its figures are lists over them. The models
of `plain` are those of the trials in results/, read from the run folders that they came from:

    python -m reproduction run glyphs --trials 10 --out DIR
    python -m reproduction.controls DIR [CONTROL ...]    trains what controls.json lacks
"""

import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from msgspec import structs

from reproduction.rows import DAMPED, HERE, Variant
from stragglers._core import files, random_streams
from stragglers._core.random_streams import Purpose
from stragglers.config import build, checks, documents
from stragglers.config.settings import Experiment
from stragglers.planning.paper_populations import EMNIST_STRAGGLERS, most, share
from stragglers.planning.report_weights import Reports
from stragglers.planning.training_rows import rows_of
from stragglers.runs import run_folder
from stragglers.simulator import metrics, prior_matching
from stragglers.simulator.prepare import Trial
from stragglers.simulator.simulate import Simulation, results
from stragglers.simulator.together import join
from stragglers.simulator.trial_state import Result
from stragglers.tasks.base import Task, check
from stragglers.tasks.datasets.handwriting import book, draw, streams
from stragglers.tasks.glyphs import glyphs
from stragglers.tasks.models.base import Params

STORED = HERE / "controls.json"
SEEDS = range(10)
WRITERS, DATA_SEED = 200, 0  # of the presets
BIASES = np.arange(-6, 8.01, 0.5)  # on the logits of the straggler classes, for the curve
FIGURES = (
    "straggler_accuracy",
    "total_accuracy",
    "matched_straggler_accuracy",
    "matched_total_accuracy",
    "matched_bias",
    "straggler_auc",
)
RARE = (
    "held_out_straggler_accuracy",
    "held_out_total_accuracy",
    "matched_straggler_accuracy",
    "matched_total_accuracy",
    "matched_bias",
)


class Row(NamedTuple):
    preset: str  # of glyphs/per-domain
    sets: tuple[str, ...] = ()
    weight: float = 1.0  # of a straggler's report

    @property
    def name(self) -> str:
        weighted = [f"weight={self.weight:g}"] if self.weight != 1 else []
        return " ".join([self.preset, *self.sets, *weighted])

    @property
    def variant(self) -> Variant:
        return Variant(f"glyphs/per-domain/{self.preset}", self.sets)

    @property
    def experiment(self) -> Experiment:
        return documents.settings_from(self.variant.document)


FEDADAM, OVER = Row("fedadam"), Row("fedadam-over-selection")
DUST, FEAST, BUFF = Row("fare-dust"), Row("feast"), Row("fedbuff-ema")
JOIN, JOIN_DAMPED = Row("semi-async"), Row("semi-async", DAMPED)
OVER_DAMPED = Row("fedadam-over-selection", DAMPED)
OFTEN = Row("fedadam", (), 4.0)
ROWS = {
    "plain": (FEDADAM, OVER, OVER_DAMPED, JOIN, JOIN_DAMPED, DUST, FEAST, BUFF),
    "weighted": (Row("fedadam", (), 2.0), OFTEN),
    "frequent": (FEDADAM, OVER),
    "scarce": (FEDADAM, OVER),
    "unsplit": (FEDADAM, OVER),
    "slanted": (FEDADAM, OVER, FEAST),
    "turned": (FEDADAM, OVER, DUST, FEAST, BUFF, JOIN),
}


# Tasks.


def plain() -> Task:
    return glyphs(WRITERS, DATA_SEED)


def frequent() -> Task:
    """Thinned at random, but for the straggler classes."""
    task = plain()
    mine = of_straggler_classes(task)
    tested = task.test_straggler.mean()
    kept = mine.sum() * (1 - tested) / tested / (~mine).sum()
    keep = mine | (_generator(0).random(len(mine)) < kept)
    return _with_examples(task, task.x[keep], task.y[keep], _owner(task)[keep])


@cache
def unsplit() -> Task:
    """Everything that the writers wrote; who is a straggler stays."""
    hands, labels, _, _ = book(WRITERS, DATA_SEED)
    drawn = map(draw, streams(DATA_SEED, Purpose.DRAWINGS, WRITERS), hands, labels)
    owner = np.repeat(np.arange(WRITERS), [len(own) for own in labels])
    return _with_examples(plain(), np.concatenate(list(drawn)), np.concatenate(labels), owner)


def scarce() -> Task:
    """Thinned at random: the straggler classes of all clients."""
    task, trained = unsplit(), of_straggler_classes(plain()).mean()
    mine = of_straggler_classes(task)
    kept = (~mine).sum() * trained / (1 - trained) / mine.sum()
    keep = ~mine | (_generator(2).random(len(mine)) < kept)
    return _with_examples(task, task.x[keep], task.y[keep], _owner(task)[keep])


def slanted() -> Task:
    """As many stragglers as ever: the writers furthest from the mean slant."""
    task = unsplit()
    slant = np.array([hand.slant for hand in book(WRITERS, DATA_SEED).hands])
    straggler = most(np.abs(slant - slant.mean()), share(WRITERS, EMNIST_STRAGGLERS))
    assert task.test_client is not None
    return task._replace(
        population=task.population._replace(group=straggler.astype(np.int16)),
        test_straggler=straggler[task.test_client],
        straggler_classes=None,
    )


def turned() -> Task:
    task = slanted()
    mine = task.population.group[_owner(task)] == 1
    return task._replace(x=_turned(task.x, mine), test_x=_turned(task.test_x, task.test_straggler))


TASKS: dict[str, Callable[[], Task]] = {
    "plain": plain,
    "weighted": plain,
    "frequent": frequent,
    "scarce": scarce,
    "unsplit": unsplit,
    "slanted": slanted,
    "turned": turned,
}


def rare(task: Task) -> Task:
    """With fewer test examples of straggler classes."""
    trained, mine = of_straggler_classes(task).mean(), task.test_straggler
    kept = (~mine).sum() * trained / (1 - trained) / mine.sum()
    keep = ~mine | (_generator(1).random(len(mine)) < kept)
    return task._replace(
        test_x=task.test_x[keep],
        test_y=task.test_y[keep],
        test_straggler=mine[keep],
        test_client=None,
    )


def of_straggler_classes(task: Task) -> np.ndarray:
    """Which training examples are."""
    assert task.straggler_classes
    return np.isin(task.y, task.straggler_classes)


def _with_examples(task: Task, x: np.ndarray, y: np.ndarray, owner: np.ndarray) -> Task:
    sizes = np.bincount(owner, minlength=WRITERS)
    population = task.population._replace(examples=sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return check(task._replace(population=population, x=x, y=y, offsets=offsets))


def _owner(task: Task) -> np.ndarray:
    return np.repeat(np.arange(task.population.clients), task.population.examples)


def _turned(x: np.ndarray, which: np.ndarray) -> np.ndarray:
    return np.where(which[:, None, None], np.rot90(x, axes=(1, 2)), x)


def _generator(number: int) -> np.random.Generator:
    return random_streams.generator(DATA_SEED, Purpose.LABELS, WRITERS + number)


# Training.


def trained(task: Task, row: Row) -> list[Result]:
    """A trial for each seed, in one program."""
    from stragglers.runs import train

    experiment = row.experiment
    assert experiment.client and experiment.server and experiment.algorithm
    teachers = checks.history_length(experiment)
    normalise = experiment.aggregation.normalise
    algorithm = train.algorithms(experiment.server, (experiment.algorithm,), normalise, teachers)
    trials = [
        Trial(build.schedule_of(structs.replace(experiment, seed=seed), task.population), seed)
        for seed in SEEDS
    ]
    each = [rows_of(t.schedule, algorithm.settles, seed=t.seed, teachers=teachers) for t in trials]
    straggler = task.population.group[join(each).rows.client] == 1

    def weigh(reports: Reports) -> np.ndarray:
        del reports  # in the order of `join`
        return np.where(straggler, row.weight, 1.0)

    local = train.local(experiment.client)
    simulation = Simulation(task, trials, algorithm, local, weigh=weigh, devices=1)
    return results(simulation.events(simulation.first()))


def measured(control: str, row: Row) -> dict[str, list[float]]:
    task = TASKS[control]()
    names = FIGURES[: 2 if task.straggler_classes is None else None]
    ends = [result.curve[-1].metrics for result in trained(task, row)]
    return {name: [_short(one[name]) for one in ends] for name in names}


def looked_at(row: Row, out: Path) -> dict[str, list[float]]:
    """Models of `plain`: figures on the rare test set, and curves, medians over seeds."""
    models = [kept(row, seed, out) for seed in SEEDS]
    task = rare(plain())
    data = metrics.test_data(task)
    ends = [metrics.evaluate(task, model, data) for model in models]
    curves = np.median([curve(plain(), model) for model in models], axis=0)
    return {name: [_short(one[name]) for one in ends] for name in RARE} | {
        f"{name} by bias": [*map(_short, values)]
        for name, values in zip(FIGURES[:2], curves.T, strict=True)
    }


def kept(row: Row, seed: int, out: Path) -> Params:
    """The model that a trial was evaluated by, from its run folder."""
    from safetensors.numpy import load_file

    experiment = structs.replace(row.experiment, seed=seed)
    folder = run_folder.folder_of(out, row.variant.preset, experiment)
    arrays = load_file(folder / "model.safetensors")

    def named(path: Any, _: Any) -> np.ndarray:
        return arrays[f"model/{jax.tree_util.keystr(path, simple=True, separator='/')}"]

    shapes = jax.eval_shape(plain().model.init, jax.random.key(0))
    return jax.tree_util.tree_map_with_path(named, shapes)


def curve(task: Task, model: Params) -> list[tuple[float, float]]:
    """Straggler and total accuracy under each of BIASES."""
    assert task.straggler_classes
    logits = task.model.apply(model, task.prepare(jnp.asarray(task.test_x), None), None)
    gap, recognised = prior_matching.gaps(logits, jnp.asarray(task.test_y), task.straggler_classes)
    mine = task.test_straggler
    given = prior_matching.examples(
        np.asarray(gap), np.asarray(recognised), mine, np.ones(len(mine), bool)
    )
    right = (prior_matching.right(given, bias) for bias in BIASES)
    return [(ours / given.straggler_count, every / given.total_count) for ours, every in right]


def shares(task: Task) -> dict[str, float]:
    """What is of straggler clients, or of their classes."""
    if task.straggler_classes is None:
        mine = task.population.group[_owner(task)] == 1
    else:
        mine = of_straggler_classes(task)
    return {"training": _short(mine.mean()), "test": _short(task.test_straggler.mean())}


def _short(value: float) -> float:
    return round(float(value), 5)


# Figures.


def stored() -> dict[str, dict[str, Any]]:
    """By control: `shares`, and the figures of each row by its name."""
    return json.loads(STORED.read_text()) if STORED.exists() else {}


def main(out: str, names: list[str]) -> None:
    for control in names or ROWS:
        for row in ROWS[control]:
            if row.name in stored().get(control, {}):
                continue
            figures = looked_at(row, Path(out)) if control == "plain" else measured(control, row)
            document = stored()
            document.setdefault(control, {"shares": shares(TASKS[control]())})[row.name] = figures
            text = _text(document)
            files.write(STORED, lambda path, text=text: Path(path).write_text(text))
            print(f"{control}: {row.name}", flush=True)


def _text(document: dict[str, dict[str, Any]]) -> str:
    """A line for each row."""
    parts = []
    for control in filter(document.__contains__, ROWS):
        lines = [f'  "{name}": {json.dumps(value)}' for name, value in document[control].items()]
        parts.append(f'"{control}": {{\n' + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
