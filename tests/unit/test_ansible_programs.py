"""Ansible that is loaded already and runs tasks in its own process says what Ansible says that is started for real."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from harness import proc
from harness.until import Deadline, NotYet, until
from tests.unit import ansible_programs
from tests.unit.processes import wait_for_end

BIN = Path(sys.executable).parent
PROJECT = Path(__file__).resolve().parents[2]
SECONDS = 120.0
SETTINGS = {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_PIPELINING": "1"}
MACHINES = {"a": {"number": 1}, "b": {"number": 2}, "c": {"number": 3}}
SHOW = {"ansible.builtin.debug": {"msg": "{{ inventory_hostname }} {{ known }} {{ group_names }}"}}
# What a task leaves behind for later ones of its own machine, of others and of the play: each is the process's here.
TASKS: list[dict[str, Any]] = [
    {"ansible.builtin.set_fact": {"known": "{{ number * 10 }}"}},
    {"ansible.builtin.command": "echo {{ item }} {{ number }}", "loop": ["x", "y"], "register": "said"},
    {"ansible.builtin.group_by": {"key": "{{ 'odd' if number % 2 else 'even' }}"}},
    {"ansible.builtin.set_fact": {"known": "{{ known }} {{ said.results | map(attribute='stdout') | join(',') }}"}},
    {"ansible.builtin.set_fact": {"known": "{{ known }} of one"}, "run_once": True},
    {"ansible.builtin.set_fact": {"known": "of b"}, "delegate_to": "b", "delegate_facts": True, "when": "number == 3"},
    {"ansible.builtin.command": "echo {{ number }}", "environment": {"LANG": "C"}, "changed_when": "number == 2"},
    SHOW,
    {
        "block": [{"ansible.builtin.assert": {"that": "number != 2", "fail_msg": "two is refused"}}],
        "rescue": [{"ansible.builtin.debug": {"msg": "{{ ansible_failed_result.msg }}"}}],
    },
    {"ansible.builtin.include_tasks": "{{ place }}/more.yml", "when": "number > 1"},
    {"ansible.builtin.command": "exit", "failed_when": "number == 1", "vars": {"ansible_shell_executable": "/bin/sh"}},
    {"ansible.builtin.debug": {"msg": "{{ nothing }}"}, "when": "number == 2"},
    SHOW,
]


@pytest.fixture
def argv(tmp_path: Path) -> list[str | Path]:
    """Return a call of a play on this host as three machines."""
    own = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "place": str(tmp_path)}
    hosts = {name: {**own, **variables} for name, variables in MACHINES.items()}
    more = [{"ansible.builtin.set_fact": {"known": "{{ known }} included"}}, SHOW]
    play = {"hosts": "all", "gather_facts": False, "tasks": TASKS}
    for name, content in {"hosts.yml": {"all": {"hosts": hosts}}, "more.yml": more, "play.yml": [play]}.items():
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    return [BIN / "ansible-playbook", "-i", tmp_path / "hosts.yml", tmp_path / "play.yml"]


def lines(text: str) -> list[str]:
    """Return what was said, in an order that does not hang on which machine was first; without times.

    Ansible names the machines of an inclusion ("included: FILE for c, b") as they answer.
    """
    timeless = re.sub(r'"(start|end|delta)": "[^"]*"', "", text)
    ordered = re.sub(
        r"(?<= for )\w(, \w)+$", lambda names: ", ".join(sorted(names[0].split(", "))), timeless, flags=re.M
    )
    tasks = re.split(r"^(?=[A-Z ]+\[|PLAY RECAP)", ordered, flags=re.M)
    return [line for task in tasks for line in sorted(task.splitlines())]


def test_a_play_says_the_same_and_ends_alike(argv: list[str | Path], tmp_path: Path) -> None:
    env = {**SETTINGS, "ANSIBLE_HOME": str(tmp_path / "home")}
    real = proc.run(argv, timeout=SECONDS, check=False, env=env)
    loaded = ansible_programs.run(argv, timeout=SECONDS, check=False, env=env)
    assert (loaded.returncode, lines(loaded.stdout)) == (real.returncode, lines(real.stdout))
    assert real.returncode == 2
    assert "two is refused" in real.stdout
    assert "10 x 1,y 1 of one included" in real.stdout


def test_a_log_has_what_is_said_after_what_it_had(argv: list[str | Path], tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n", encoding="utf-8")
    done = ansible_programs.run([*argv, "--list-hosts"], timeout=SECONDS, env=SETTINGS, log=log)
    assert log.read_text(encoding="utf-8") == f"before\n{done.stdout}"
    assert "hosts (3):" in done.stdout


def test_another_program_with_settings_of_the_environment_is_started_for_real(
    argv: list[str | Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ansible_programs, "server", lambda _: pytest.fail("it was not started"))
    monkeypatch.setenv("ANSIBLE_INVENTORY", str(argv[2]))
    done = ansible_programs.run([BIN / "ansible-inventory", "--list"], timeout=SECONDS, env=SETTINGS)
    assert json.loads(done.stdout)["_meta"]["hostvars"].keys() == MACHINES.keys()


def test_what_does_not_end_is_killed_and_the_next_one_runs(argv: list[str | Path], tmp_path: Path) -> None:
    play = [{"hosts": "a", "gather_facts": False, "tasks": [{"ansible.builtin.command": "sleep 60"}]}]
    (tmp_path / "long.yml").write_text(json.dumps(play), encoding="utf-8")
    with pytest.raises(proc.CommandTimedOut, match="was killed"):
        ansible_programs.run([*argv[:3], tmp_path / "long.yml"], timeout=0.1, env=SETTINGS)
    with pytest.raises(proc.CommandFailed, match="status 1"):
        ansible_programs.run([*argv[:3], tmp_path / "none.yml"], timeout=SECONDS, env=SETTINGS)
    assert "hosts (3):" in ansible_programs.run([*argv, "--list-hosts"], timeout=SECONDS, env=SETTINGS).stdout


@pytest.fixture
def sleeping(argv: list[str | Path], tmp_path: Path) -> list[str | Path]:
    """Return a call of a play that writes a process id into the file `pid`, and goes on for a minute."""
    command = f"echo $$ > {tmp_path}/written && mv {tmp_path}/written {tmp_path}/pid && exec sleep 60"
    play = [{"hosts": "a", "gather_facts": False, "tasks": [{"ansible.builtin.raw": command}]}]
    (tmp_path / "sleep.yml").write_text(json.dumps(play), encoding="utf-8")
    return [*argv[:3], tmp_path / "sleep.yml"]


def begun(folder: Path) -> int:
    """Return the process id that the play has written, once it has."""
    return until(
        lambda: int((folder / "pid").read_text()) if (folder / "pid").exists() else NotYet("it has not begun"),
        deadline=Deadline.after(SECONDS),
        what="the play to begin",
    )


def test_nothing_stays_behind_a_test_process_that_is_killed(sleeping: list[str | Path], tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    program = f"from tests.unit.ansible_programs import run; run({[*map(str, sleeping)]}, timeout=60, env={SETTINGS})"
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen([sys.executable, "-c", program], cwd=PROJECT, env=environment) as tests:
        process = begun(tmp_path)
        assert [*temporary.iterdir()] != []
        tests.kill()
    wait_for_end(process)
    until(
        lambda: not (left := [*temporary.iterdir()]) or NotYet(f"{left} are there"),
        deadline=Deadline.after(SECONDS),
        what="the server to end",
    )


def test_what_is_interrupted_is_killed_and_the_next_one_has_its_own_answer(
    sleeping: list[str | Path], argv: list[str | Path], tmp_path: Path
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def interrupt_once_begun() -> None:
        begun(tmp_path)
        os.kill(os.getpid(), signal.SIGUSR1)

    waiting = threading.Thread(target=interrupt_once_begun)
    handler = signal.signal(signal.SIGUSR1, interrupt)
    waiting.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            ansible_programs.run(sleeping, timeout=SECONDS, env=SETTINGS)
    finally:
        waiting.join()
        signal.signal(signal.SIGUSR1, handler)
    wait_for_end(begun(tmp_path))
    assert "hosts (3):" in ansible_programs.run([*argv, "--list-hosts"], timeout=SECONDS, env=SETTINGS).stdout
