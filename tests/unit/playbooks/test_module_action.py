"""Modules that the playbooks feed to an interpreter do and say what they do and say when Ansible packs them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from harness import proc
from tests.unit.playbooks.playbook_files import PLAYBOOKS

ANSIBLE = Path(sys.executable).parent / "ansible"
SECRET = "not for your eyes"


def ran(
    place: Path,
    arguments: dict[str, Any],
    *options: str,
    fed: bool,
    module: str = "host_configuration",
    debug: bool = False,
) -> str:
    """Run a module on this host; return what Ansible says of it and of everything else.

    Args:
        fed: whether the connection feeds it to the interpreter; otherwise Ansible packs it.
        debug: whether Ansible tells each thing that it does.
    """
    ledger = {"ledger": str(place / "ledger")} if module == "host_configuration" else {}
    done = proc.run(
        [ANSIBLE, "all", "-i", "here,", "-c", "local", "-m", module, "-a", json.dumps(ledger | arguments), *options],
        timeout=120,
        env={
            "ANSIBLE_HOME": str(place / "ansible"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PIPELINING": str(fed),
            "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",
            "PATH": "/usr/bin:/bin",
            "ANSIBLE_DEBUG": str(debug),
            "ANSIBLE_ACTION_PLUGINS": str(PLAYBOOKS / "action_plugins"),
            "ANSIBLE_LIBRARY": str(PLAYBOOKS / "library"),
        },
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        ({"files": [{"path": "PLACE/it", "content": "é\n"}], "script": "echo done"}, ("--diff",), "+é"),
        ({"files": [{"path": "PLACE/it", "content": "x\n"}], "script": "echo done"}, ("--check",), "CHANGED"),
        ({"script": "cat", "stdin": SECRET}, (), "CHANGED"),
        ({"script": "cat >&2; exit 3", "stdin": SECRET}, (), "status 3"),
        (
            {"files": [{"path": "PLACE/it", "content": SECRET, "private": True}], "script": "cat PLACE/it; exit 3"},
            ("--diff",),
            "status 3",
        ),
        ({"files": [{"path": "PLACE/it"}]}, (), "missing required arguments: content found in files"),
        ({"script": "true", "state": "gone"}, (), "value of state must be one of: present, absent, got: gone"),
        ({"script": "true", "creates": "/"}, (), "SUCCESS"),
    ],
)
def test_a_module_that_is_fed_does_and_says_the_same(
    arguments: dict[str, Any], options: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    seen = []
    for fed in (True, False):
        place = tmp_path / str(fed)
        place.mkdir()
        given = json.loads(json.dumps(arguments).replace("PLACE", str(place)))
        text = ran(place, given, *options, fed=fed).replace(str(place), "PLACE")
        files = {path.name: path.read_text(encoding="utf-8") for path in place.glob("it")}
        seen.append((text, files))
    (text, files), (packed, same) = seen
    assert (text.partition("here | ")[2], files) == (packed.partition("here | ")[2], same)
    assert said in text
    assert SECRET not in text


def test_a_module_is_fed_only_where_the_connection_can(tmp_path: Path) -> None:
    who = {"script": "tr '\\0' ' ' </proc/$PPID/cmdline; echo"}
    fed, packed = (ran(tmp_path, who, fed=fed) for fed in (True, False))
    assert "CHANGED" in fed
    assert "CHANGED" in packed
    assert ("python3 - " in fed, "python3 - " in packed) == (True, False)


@pytest.mark.parametrize(
    "arguments",
    [
        {"script": "cat", "stdin": SECRET},
        {"script": "echo before; cat >&2; exit 3", "stdin": SECRET},
        {"files": [{"path": "PLACE/it", "content": SECRET, "private": True}], "script": "cat PLACE/it; exit 3"},
    ],
)
def test_no_secret_leaves_the_machine(arguments: dict[str, Any], tmp_path: Path) -> None:
    given = json.loads(json.dumps(arguments).replace("PLACE", str(tmp_path)))
    said = ran(tmp_path, given, fed=True, debug=True)
    answers = [line for line in said.splitlines() if "_low_level_execute_command() done" in line]
    assert len(answers) == 1
    assert SECRET not in answers[0]
    assert "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER" in answers[0] or "********" in answers[0]


def test_nothing_is_imported_from_where_a_login_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('not this one')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert "CHANGED" in ran(tmp_path, {"script": "echo x"}, fed=True)


@pytest.mark.parametrize("given", [{"creates": "~/nothing"}, {"creates": "$HOME/nothing"}])
def test_a_path_that_the_machine_has_to_expand_is_left_to_ansible(given: dict[str, Any], tmp_path: Path) -> None:
    who = {"script": "tr '\\0' ' ' </proc/$PPID/cmdline; echo", **given}
    said = ran(tmp_path, who, fed=True)
    assert "CHANGED" in said
    assert "python3 - " not in said


def test_an_interpreter_that_is_not_there_is_said(tmp_path: Path) -> None:
    text = ran(tmp_path, {"script": "true"}, "-e", "ansible_python_interpreter=/nowhere/python3", fed=True)
    assert "MODULE FAILURE: it ended with status 127 and without a result" in text
    assert "/nowhere/python3" in text


def test_an_interpreter_that_ansible_is_to_find_is_found(tmp_path: Path) -> None:
    assert "CHANGED" in ran(tmp_path, {"script": "echo x"}, "-e", "ansible_python_interpreter=auto_silent", fed=True)


def test_other_modules_of_the_playbooks_are_fed_as_well(tmp_path: Path) -> None:
    folder = str(tmp_path / "bin")
    given = {"state": "absent", "store": str(tmp_path / "store"), "folders": [folder]}
    seen = [ran(tmp_path, given, fed=fed, module="versioned_binaries") for fed in (True, False)]
    assert seen[0] == seen[1]
    assert "SUCCESS" in seen[0]
