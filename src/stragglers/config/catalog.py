"""Where experiments come from: presets, TOML files, and folders of them.

presets()                        names such as emnist/per-domain/feast
read("emnist/per-domain/feast")  the document of a preset or of a TOML file
expand(["emnist", "mine.toml"])  the names of experiments, and where each is read from
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import msgspec

from stragglers._core import seals, toml_files
from stragglers._core.errors import BadInput, about, check_type, did_you_mean
from stragglers.config import attached_files
from stragglers.config.documents import completed, settings_from
from stragglers.config.overrides import FREE, Document, without
from stragglers.config.settings import Experiment


def presets() -> list[str]:
    """The names of all presets."""
    return sorted(_names(_folder(), ""))


def _folder() -> Any:
    return resources.files("stragglers.config") / "presets"


def _names(folder: Any, prefix: str) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _names(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".toml"):
            yield prefix + entry.name.removesuffix(".toml")


def read(name: str) -> Document:
    """The document of a preset, or of a TOML file given by its path."""
    if name.endswith(".toml"):
        source: Any = Path(name)
    elif name in (known := presets()):
        source = _folder() / f"{name}.toml"
    else:
        raise BadInput(_no_preset(name, set(known)))
    if isinstance(source, Path) and source.name == "settings.toml":
        _check_sealed(source)
    document = toml_files.read(source, name)
    return attached_files.beside(document, source.parent) if isinstance(source, Path) else document


class Listed(NamedTuple):
    """A preset in a list of them."""

    name: str
    task: str
    latency: str
    algorithm: str | None  # none in a fleet, which cannot be trained
    summary: str  # the first sentence of the file, without task and latency


# Where a summary names the task and the latency, which a list has in columns of their own.
_PLACE = re.compile(r",? on (?:the embedded glyphs|[A-Z][\w-]+)(?:,? with per-\w+ latency)?")


def listed(name: str) -> Listed:
    """What a list of presets says about one."""
    file = (_folder() / f"{name}.toml").read_text(encoding="utf-8")
    lines = itertools.takewhile(lambda line: line.startswith("# "), file.splitlines())
    sentence = re.split(r"\.(?= [A-Z]|$)|: ", " ".join(line[2:] for line in lines))[0]
    document = read(name)
    algorithm = document.get("algorithm", {}).get("name")
    model = document["latency"]["model"]
    return Listed(name, document["task"]["name"], model, algorithm, _PLACE.sub("", sentence))


def preset(name: str) -> Experiment:
    """Reads an experiment: a preset, or a TOML file.

    Args:
        name: A preset, as `stragglers list` names them, or the path of a TOML file.

    Returns:
        The experiment. `replace` changes its settings, `st.plan` plans it and `st.run` trains it.

    Raises:
        BadInput: If there is no such preset, or a setting is wrong.

    Example:
        >>> import stragglers as st
        >>> experiment = st.preset("emnist/per-domain/feast")
        >>> experiment.name, experiment.updates, experiment.algorithm.kappa
        ('emnist/per-domain/feast', 100000, 0.9)
    """
    check_type("name", name, str, "a preset, such as 'glyphs/per-domain/feast', or a TOML file")
    document = read(name)
    with about(name):
        return settings_from(document).named(name_of(name) if name.endswith(".toml") else name)


def expand(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """What to read for each experiment, by name, and the names that are given twice.

    An argument is a preset, a folder of presets (emnist/per-domain), `all` for every preset that
    can be trained, a TOML file, or a folder of TOML files.
    """
    sources: dict[str, str] = {}
    twice: list[str] = []
    for name, source in (found for argument in arguments for found in _named(argument)):
        if sources.get(name, source) != source:
            raise BadInput(
                f"{sources[name]} and {source} share the name {name!r}; rename one, or "
                "run one after the other"
            )
        twice += [name] if name in sources else []
        sources[name] = source
    return sources, twice


def _named(argument: str) -> list[tuple[str, str]]:
    """Names and sources of the experiments that one argument stands for."""
    known = presets()
    if argument in known:  # even if a file or folder has the same name, such as the preset's runs
        return [(argument, argument)]
    inside = [name for name in known if name.startswith(argument.rstrip("/") + "/")]
    if argument == "all":
        return [(name, name) for name in known if read(name)["task"]["name"] != "fleet"]
    if inside:
        return [(name, name) for name in inside]
    if Path(argument).is_dir():
        return _in_folder(argument)
    if argument.endswith(".toml"):
        return [(name_of(argument), argument)]
    folders = {str(folder) for name in known for folder in PurePosixPath(name).parents}
    raise BadInput(_no_preset(argument, {*known, *folders}))


def _in_folder(folder: str) -> list[tuple[str, str]]:
    """The experiments in a folder, without the settings that run folders hold."""
    files = sorted(Path(folder).rglob("*.toml"))
    own = [file for file in files if not (file.parent / "run.json").exists()]
    if files and not own:
        raise BadInput(
            f"{folder}: runs, expected experiments; to repeat a run under these "
            f"settings, name its file, such as {files[0]}"
        )
    if not own:
        raise BadInput(f"{folder}: no .toml file in this folder, expected experiments")
    return [(_safe(file.relative_to(folder).with_suffix("").parts), str(file)) for file in own]


def _no_preset(name: str, known: set[str]) -> str:
    nearest = did_you_mean(name, known)
    if nearest.startswith("did") or any(other.startswith(name) for other in known):
        return f"no preset {name!r}; {nearest}"
    return f"no preset {name!r}; `stragglers list` names them, a file's name ends in .toml"


class _Run(msgspec.Struct):
    name: str
    files: dict[str, str] = {}


def _check_sealed(file: Path) -> None:
    """The settings of a run are those that it was trained with."""
    try:
        run = msgspec.json.decode(file.with_name("run.json").read_bytes(), type=_Run)
    except (OSError, ValueError):  # no run.json, or not one of ours
        return
    read = {n: then for n, then in run.files.items() if n == file.name or n.startswith("copy-")}
    if what := seals.changed(file.parent, read):
        raise BadInput(
            f"{file.parent}: damaged, {what}. To change the settings of a run, copy the file to "
            "another folder and change the copy."
        )


def name_of(file: str | Path) -> str:
    """The name of the experiment in a TOML file; the settings of a run keep the run's name."""
    file = Path(file)
    own = _safe(Path(file.name).with_suffix("").parts)
    if file.name != "settings.toml":
        return own
    try:
        run = msgspec.json.decode(file.with_name("run.json").read_bytes(), type=_Run)
    except (OSError, ValueError):  # no run.json, or not one of ours
        return own
    return _safe(Path(run.name).parts) or own


def _safe(parts: Sequence[str]) -> str:
    """A path as the name of a folder, without characters that need quoting."""
    return "/".join(re.sub(r"[^A-Za-z0-9._-]|^\.+", "-", part) for part in parts)


def published(name: str, settings: Document) -> Document | None:
    """The paper's row of a preset, if these completed settings are those of the preset."""
    preset = _preset(name)
    return preset.get("paper") if preset and _deciding(preset) == _deciding(settings) else None


@cache
def _preset(name: str) -> Document | None:
    return completed(read(name)) if name in presets() else None


def _deciding(settings: Document) -> Document:
    """The settings that make a row of the paper what it is."""
    for path in (*FREE, "paper", "readings"):
        settings = without(settings, path.split("."))
    return settings
