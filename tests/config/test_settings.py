"""A new setting defaults to None, so that no stored result changes its hash."""

import typing
from collections.abc import Iterator

import msgspec

from stragglers.config import catalog, documents
from stragglers.config.settings import Experiment

# Defaults other than None, by section: resolved documents hold them. Another one would change the
# hash of every stored run that has its section. So this table only shrinks; a new section, which
# no stored run has, may join it.
HELD = {
    "Experiment": ["aggregation", "evaluations", "precision", "readings", "seed", "threads"],
    "Glyphs": ["data_seed", "writers"],
    "Emnist": ["profile", "straggler_classes"],
    "Cifar100": ["partition_seed", "profile", "straggler_classes"],
    "StackOverflow": ["accuracy", "profile", "straggler_tags", "vocabulary"],
    "LatencyModel": ["correlation", "cost", "download", "download_share", "persistence", "upload"],
    "Rounds": ["busy", "count"],
    "Buffer": ["busy", "refill"],
    "TimeLimit": ["fill", "scope"],
    "Client": [
        "distillation",
        "distillation_loss",
        "distillation_term",
        "epochs",
        "last_batch",
        "proximal",
        "temperature",
    ],
    "Adjusted": ["smoothing", "tau"],
    "Margin": ["tau"],
    "Sgd": ["momentum"],
    "Adam": ["b1", "b2", "eps"],
    "Yogi": ["b1", "b2", "eps"],
    "Adagrad": ["eps"],
    "Amsgrad": ["b1", "b2", "eps"],
    "Fadas": ["ema"],
    "FedAvg": ["ema"],
    "FedBuff": ["ema"],
    "Ca2fl": ["ema"],
    "FedVarp": ["ema"],
    "Mifa": ["ema"],
    "SemiAsync": ["ema"],
    "FareDust": ["average", "ema", "history", "teacher_lr", "teacher_step"],
    "Feast": ["ema"],
    "Own": ["arguments", "ema"],
    "Aggregation": [
        "exponent",
        "local_steps",
        "normalise",
        "participation",
        "staleness",
        "weight",
    ],
    "Faults": ["crash", "drop_out", "duplicate", "huge", "inf", "nan"],
    "Availability": ["cycle", "leaving"],
    "Hours": ["spread"],
}
HELD |= dict.fromkeys(("PerExample", "PerDomain", "PerGroup"), HELD.pop("LatencyModel"))


def structs(annotation) -> Iterator[type[msgspec.Struct]]:
    """All sections that an annotation can hold."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        yield annotation
        for field in msgspec.structs.fields(annotation):
            yield from structs(field.type)
    for part in typing.get_args(annotation):
        yield from structs(part)


def test_a_new_setting_defaults_to_none():
    found = {
        cls.__name__: sorted(
            field.encode_name
            for field in msgspec.structs.fields(cls)
            if not field.required and field.default is not None
        )
        for cls in structs(Experiment)
    }
    assert {name: held for name, held in found.items() if held} == HELD


def nulls(document) -> bool:
    inside = document.values() if isinstance(document, dict) else [document]
    return any(value is None or (isinstance(value, dict) and nulls(value)) for value in inside)


def test_what_is_not_given_is_absent_from_the_resolved_document():
    for name in ("fleet", "glyphs/per-domain/feast", "emnist/per-example/fedbuff"):
        document = documents.settings_from(catalog.read(name)).document
        assert not nulls(document)
        assert "label_skew" not in document.get("client", {}) and "faults" not in document


def test_an_experiment_is_decoded_once():
    experiment = documents.settings_from(catalog.read("glyphs/per-domain/feast"))
    assert experiment.document is experiment.document and len(experiment.hash) == 12
    other = msgspec.structs.replace(experiment, updates=100)
    assert other.document["updates"] == 100 and other.hash != experiment.hash
