"""Every command of tox.ini begins with a program, and names files that exist."""

import configparser
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def wrong_commands(text: str) -> list[str]:
    """Return the commands that cannot run, each with its environment and what is wrong with it.

    Two mistakes are looked for. A path or an option as the program is a line that lost the backslash before it: tox
    runs the rest of a wrapped command as a command of its own, after the tests have passed. The other is a path in a
    folder of ours that is not there.
    """
    tox = configparser.ConfigParser(interpolation=None)
    tox.read_string(text)
    wrong = []
    for environment in tox.sections():
        for key in ("commands_pre", "commands", "commands_post"):
            for line in re.sub(r"\\\n", " ", tox.get(environment, key, fallback="")).splitlines():
                words = shlex.split(re.sub(r"\{[^{}]*\}|^\s*[-!] ", "", line), comments=True)
                if words and ("/" in words[0] or words[0].startswith("-")):
                    wrong.append(f"{environment}: {words[0]} is not a program")
                wrong += [
                    f"{environment}: {word} does not exist"
                    for word in words[1:]
                    if re.fullmatch(r"(tests|harness|ci|playbooks|matrix)/[\w./-]+", word)
                    and not (ROOT / word).exists()
                ]
    return wrong


def test_every_command_begins_with_a_program_and_names_what_is_there() -> None:
    assert wrong_commands((ROOT / "tox.ini").read_text(encoding="utf-8")) == []


def test_every_task_at_which_a_cell_is_disturbed_is_one_of_the_playbooks() -> None:
    """One that has another name now is waited for in vain."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "tox.ini").read_text(encoding="utf-8"))
    named = [name.strip() for given in re.findall(r'"VMATRIX_CHAOS=([^"]*)"', text) for name in given.split(";")]
    assert len(named) >= 10
    files = (ROOT / "playbooks").rglob("*.yml")
    tasks = {name for file in files for name in re.findall(r"name: (.*)", file.read_text(encoding="utf-8"))}
    assert [name for name in named if name.partition("@")[2] not in tasks] == []


@pytest.mark.parametrize(
    ("commands", "wrong"),
    [
        ("commands =\n    pytest tests/unit\n        tests/contract", ["testenv: tests/contract is not a program"]),
        ("commands =\n    pytest tests/unit \\\n        tests/contract", []),
        ("commands_post =\n    vmatrix infra down\n        --name smoke", ["testenv: --name is not a program"]),
        ("commands = pytest tests/unti", ["testenv: tests/unti does not exist"]),
        ("commands = {posargs:pytest tests/unit}", []),
    ],
)
def test_a_lost_backslash_and_a_misspelt_folder_are_found(commands: str, wrong: list[str]) -> None:
    assert wrong_commands(f"[testenv]\n{commands}\n") == wrong
