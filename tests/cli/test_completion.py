import shutil
import subprocess

import pytest

from stragglers.cli import completion
from stragglers.cli.main import main
from stragglers.config import catalog


def printed(capsys, shell):
    with pytest.raises(SystemExit) as ended:
        main(["--completion", shell])
    assert not ended.value.code
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_the_script_has_commands_options_and_presets(capsys, shell):
    text = printed(capsys, shell)
    assert "--sweep" in text and "--trials" in text
    assert all(name in text for name in catalog.presets())


@pytest.mark.parametrize(
    "typed, completed",
    [
        (["stragglers", "pl"], "plan"),
        (["stragglers", "plan", "--swe"], "--sweep"),
        (["stragglers", "plan", "emnist/per-domain/feast-b"], "emnist/per-domain/feast-balanced"),
        (["stragglers", "run", "glyphs/hours/fare"], "glyphs/hours/fare-dust"),
    ],
)
def test_bash_completes(capsys, tmp_path, typed, completed):
    bash = shutil.which("bash")
    if not bash:
        pytest.skip("needs bash")
    file = tmp_path / "completion"
    file.write_text(printed(capsys, "bash"))
    words = " ".join(typed)
    asked = (
        f"source {file}; COMP_WORDS=({words}); COMP_CWORD={len(typed) - 1}; COMP_LINE='{words}'; "
        f"$(complete -p stragglers | sed 's/.*-F \\([^ ]*\\).*/\\1/') stragglers {typed[-1]!r} "
        '""; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run([bash, "-c", asked], capture_output=True, text=True, check=False)
    assert done.stdout.split() == [completed], done.stderr


def test_an_unknown_shell_is_refused(capsys):
    assert main(["--completion", "fish"]) == 2
    assert "invalid choice: 'fish'" in capsys.readouterr().err
