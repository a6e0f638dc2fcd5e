"""The reference of the command line, read off its parsers."""

import argparse

from stragglers.cli.main import _parser

INTRODUCTION = """# Commands

Every command prints a table for people, or with `--json` one JSON object for programs. Bad input is
one line on standard error and exit code 2; nothing is half-written. This page is generated from the
parsers behind `--help`.

## Shell completion

`stragglers --completion SHELL` prints a script that completes commands, options and presets in bash
or zsh. In `~/.bashrc`:

```sh
eval "$(stragglers --completion bash)"
```

In zsh, save the script as `_stragglers` in a folder of `$fpath`. Print it again after an update.
"""


def page() -> str:
    return "\n".join([INTRODUCTION, *(_command(*each) for each in commands())])


def commands() -> list[tuple[str, argparse.ArgumentParser]]:
    (choices,) = [a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return list(choices.choices.items())


def options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [a for a in parser._actions if not isinstance(a, argparse._HelpAction)]


def _command(name: str, parser: argparse.ArgumentParser) -> str:
    positional = [_metavar(action) for action in options(parser) if not action.option_strings]
    usage = " ".join(["stragglers", name, *positional, "[options]"])
    summary = parser.description or ""
    lines = [f"## stragglers {name}", "", f"{summary[:1].upper()}{summary[1:]}.", ""]
    lines += ["```text", usage, "```", "", f"```{{program}} stragglers {name}", "```", ""]
    for action in options(parser):
        given = ", ".join(action.option_strings) or action.dest
        value = f" {_metavar(action)}" if action.option_strings and action.nargs != 0 else ""
        text = " ".join((action.help or "").replace("%%", "%").split())
        if action.choices:
            text += f" One of {', '.join(f'`{choice}`' for choice in action.choices)}."
        lines += [f"```{{option}} {given}{value}", text[:1].upper() + text[1:], "```", ""]
    return "\n".join(lines)


def _metavar(action: argparse.Action) -> str:
    word = action.metavar if isinstance(action.metavar, str) else action.dest
    if action.choices and not action.metavar:
        word = "{" + ",".join(map(str, action.choices)) + "}"
    word = word if action.option_strings and action.metavar else word.upper()
    if action.option_strings:
        return word
    return {"*": f"[{word} ...]", "+": f"{word} [...]", "?": f"[{word}]"}.get(
        str(action.nargs), word
    )
