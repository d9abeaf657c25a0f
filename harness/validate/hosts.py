"""Hosts: the guest's machines in testinfra, and how a program of `machine/` is sent to them and run."""

from __future__ import annotations

import base64
import json
import shlex
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import testinfra
from testinfra.backend.base import CommandResult

from harness.errors import InfraError
from harness.model import Environment, Machine
from harness.spec.models import Timeouts
from harness.urls import joined

T = TypeVar("T")
SSH_FAILED = 255  # ssh(1), EXIT STATUS: an error of ssh itself
MACHINE = Path(__file__).with_name("machine")  # the programs that are sent to machines
LIBRARY = MACHINE / "library.py"


def open_hosts(environment: Environment, ssh_options: Sequence[str]) -> dict[str, Any]:
    """Return a testinfra host per machine, by name. Nothing is connected yet.

    Args:
        ssh_options: how the harness connects: key, host key policy, ControlPath (so that connections are shared).
            Of options that a machine has besides, ssh takes the first of a kind: the harness's.
    """
    return {
        machine.name: testinfra.get_host(
            f"ssh://{quote(machine.user, safe='')}@{_host(machine)}",
            ssh_extra_args=shlex.join((*ssh_options, *machine.ssh_options)),
            sudo=machine.user != "root",
        )
        for machine in environment.machines
    }


def _host(machine: Machine) -> str:
    return joined(quote(machine.ssh_host or machine.address, safe=":"), machine.port)


def run_on_each(
    hosts: Mapping[str, Any],
    program: Path,
    read: Callable[[Any], T],
    timeouts: Timeouts,
    *,
    given: Mapping[str, Any] | None = None,
    seconds: float | None = None,
) -> dict[str, T]:
    """Run a program on every machine in parallel, and read the JSON that each prints.

    Args:
        read: turns the decoded JSON into the result.
        given: the program's argument as an object, by machine; None for a program that takes none.
        seconds: how long each may take; None for `machine_program` of the timeouts.

    Raises:
        InfraError: a machine does not answer, or its output is malformed.
    """

    def run(name: str) -> T:
        arguments = () if given is None else (json.dumps(given[name]),)
        output = _output(name, hosts[name], remote_command(program, *arguments, timeouts=timeouts, seconds=seconds))
        try:
            return read(json.loads(output))
        except (ValueError, KeyError, TypeError) as error:
            summary = f"{program.name} printed malformed output on {name}: {type(error).__name__}: {error}"
            raise InfraError(summary, detail=output[:500]) from error

    with ThreadPoolExecutor(max_workers=max(1, len(hosts))) as pool:
        return dict(zip(hosts, pool.map(run, hosts), strict=True))


def remote_command(program: Path, *arguments: str, timeouts: Timeouts, seconds: float | None = None) -> str:
    """Return the shell command that runs one of the programs of `machine/` on a machine.

    The command carries the program's text, that of machine/library.py, which the program imports under its full name,
    and the seconds that the functions of the library wait.

    Args:
        seconds: after which the machine kills it; None for `machine_program` of the timeouts.
    """
    waits = {
        "COMMAND_SECONDS": timeouts.machine_command,
        "HTTP_SECONDS": timeouts.machine_request,
        "DNS_SECONDS": timeouts.machine_dns,
    }
    carried = json.dumps([LIBRARY.read_text(encoding="utf-8"), waits, program.read_text(encoding="utf-8")])
    packed = base64.b64encode(zlib.compress(carried.encode(), 9)).decode()
    limit = timeouts.machine_program if seconds is None else seconds
    start = (
        "import base64,json,sys,types,zlib;"
        f'library,waits,text=json.loads(zlib.decompress(base64.b64decode("{packed}")));'
        'name="harness.validate.machine.library";sys.modules[name]=types.ModuleType(name);'
        'given=sys.modules[name].__dict__;exec(compile(library,name,"exec"),given);given.update(waits);'
        'exec(compile(text,"machine","exec"))'
    )
    return f"timeout {limit:.0f} python3 -c {shlex.join([start, *arguments])}"


def no_login(error: RuntimeError, name: str = "a machine") -> InfraError:
    """Return what it means that testinfra raised a RuntimeError: ssh ended with exit status 255."""
    return InfraError(
        f"cannot log in to {name}: {str(error)[:300]}", hint="is the machine still running? `vmatrix status`"
    )


def is_no_login(error: BaseException | None) -> bool:
    """Tell whether testinfra raised an error because ssh ended with 255, as it does when it cannot log in."""
    outcome = error.args[0] if isinstance(error, RuntimeError) and error.args else None
    return isinstance(outcome, CommandResult) and outcome.rc == SSH_FAILED


def _output(name: str, host: Any, command: str) -> str:
    try:
        done = host.run(command)
    except RuntimeError as error:
        raise no_login(error, name) from error
    if done.rc != 0:
        raise InfraError(
            f"cannot read the facts of {name} (exit status {done.rc}): {done.stderr.strip()[-500:]}",
            hint=f"log in to {name} and run `python3 --version; systemctl --failed`",
        )
    return str(done.stdout)
