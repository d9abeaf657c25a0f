"""A program is run on every machine, and its output read; what no machine would print is the infra's fault."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import testinfra

from harness.errors import InfraError
from harness.model import Cell, Environment, Machine, PlannedMachine
from harness.validate.facts.node import facts_of
from harness.validate.hosts import is_no_login, no_login, open_hosts, remote_command, run_on_each
from tests.unit.shipped_timeouts import TIMEOUTS

SECONDS = 60
PLANNED = PlannedMachine("w-0", ("node",), 1, 1024, 10, "debian")
CELL = Cell("cell", {}, "life", (), (PLANNED,), {})


class Here:
    """A host whose commands run on this machine."""

    def run(self, command: str) -> Any:
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=SECONDS, check=False)
        return SimpleNamespace(rc=done.returncode, stdout=done.stdout, stderr=done.stderr)


def program(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "program.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_program_has_the_librarys_functions_and_its_argument(tmp_path: Path) -> None:
    text = "import sys\nfrom harness.validate.machine.library import flag\nprint(flag(sys.argv[1:], 'it'))\n"
    command = remote_command(program(tmp_path, text), "--it=a b", timeouts=TIMEOUTS)
    assert Here().run(command).stdout == "a b\n"


def test_each_machine_gets_its_own_argument(tmp_path: Path) -> None:
    echo = program(tmp_path, "import sys\nprint(sys.argv[1])\n")
    hosts, given = {"a": Here(), "b": Here()}, {"a": {"number": 1}, "b": {"number": 2}}
    assert run_on_each(hosts, echo, lambda read: read["number"], TIMEOUTS, given=given) == {"a": 1, "b": 2}


MACHINES = {
    "address": (Machine(PLANNED, "192.0.2.1", 2222, "root"), "root", "192.0.2.1", 2222),
    "ipv6": (Machine(PLANNED, "2001:db8::1", 22, "admin"), "admin", "2001:db8::1", 22),
    "zone": (Machine(PLANNED, "fe80::1%eb0", 22, "root"), "root", "fe80::1%eb0", 22),
    "name": (Machine(PLANNED, "192.0.2.1", 22, "lab@realm", ssh_host="cp"), "lab@realm", "cp", 22),
    "colon": (Machine(PLANNED, "192.0.2.1", 22, "lab:er", ssh_host="cp"), "lab:er", "cp", 22),
    "options": (Machine(PLANNED, "192.0.2.1", 22, "root", ssh_options=("-J", "a b")), "root", "192.0.2.1", 22),
}


@pytest.mark.parametrize("name", MACHINES)
def test_ssh_is_asked_for_each_machine_with_its_options(name: str, tmp_path: Path) -> None:
    machine, user, host, port = MACHINES[name]
    environment = Environment("run", CELL, 1, "", (machine,), tmp_path, tmp_path / "key")
    backend = open_hosts(environment, ["-o", "BatchMode=yes"])["w-0"].backend
    assert (backend.host.user, backend.host.name, int(backend.host.port)) == (user, host, port)
    assert backend.host.password is None
    assert shlex.split(backend.ssh_extra_args) == ["-o", "BatchMode=yes", *machine.ssh_options]
    assert backend.sudo == (user != "root")


def test_a_program_that_fails_is_named_with_its_machine(tmp_path: Path) -> None:
    with pytest.raises(InfraError, match=r"cannot read the facts of w-0 \(exit status 3\)"):
        run_on_each({"w-0": Here()}, program(tmp_path, "raise SystemExit(3)"), dict, TIMEOUTS)


@pytest.mark.parametrize("text", ["", "not json", "[]", "{}", '{"time": 1}'])
def test_what_no_machine_would_print_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InfraError, match="printed malformed output on w-0"):
        run_on_each({"w-0": Here()}, program(tmp_path, f"print({text!r})"), facts_of, TIMEOUTS)


def test_a_machine_that_nobody_can_log_in_to_is_the_infras_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = tmp_path / "ssh"  # as ssh(1) ends when it cannot connect
    ssh.write_text("#!/bin/sh\nexit 255\n", encoding="utf-8")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(RuntimeError) as raised:
        testinfra.get_host("ssh://somebody@192.0.2.1").run("true")
    assert is_no_login(raised.value)
    assert no_login(raised.value, "w-0").summary.startswith("cannot log in to w-0: ")
    assert not is_no_login(RuntimeError("of the check's own"))
    assert not is_no_login(RuntimeError())
    assert not is_no_login(None)
