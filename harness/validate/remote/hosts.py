"""The machines of a guest as testinfra hosts, opened when the machines exist, never while tests are collected."""

from __future__ import annotations

import base64
import json
import shlex
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import testinfra

from harness.errors import InfraError
from harness.model import Environment
from harness.validate.facts.network_plugins import plugins
from harness.validate.facts.node import NodeFacts, parse
from harness.validate.facts.programs import RunningPrograms
from harness.validate.facts.programs import parse as parse_programs

T = TypeVar("T")
ON_NODE = Path(__file__).with_name("on_node.py")
ON_NODE_PROGRAMS = Path(__file__).with_name("on_node_programs.py")
ON_NODE_STATE = Path(__file__).with_name("on_node_state.py")
GATHER_SECONDS = 60  # the slowest part asks four binaries for their version on a machine that is busy


def open_hosts(environment: Environment, ssh_options: Sequence[str]) -> dict[str, Any]:
    """Return a testinfra host per machine, by name.

    Args:
        ssh_options: how the harness connects: key, host key policy, ControlPath (so that connections are shared).
    """
    return {
        machine.name: testinfra.get_host(
            f"ssh://{machine.user}@{machine.address}:{machine.port}",
            ssh_extra_args=shlex.join(ssh_options),
            sudo=machine.user != "root",
        )
        for machine in environment.machines
    }


def gather(hosts: Mapping[str, Any]) -> dict[str, NodeFacts]:
    """Ask every machine for its facts, all at once, one command each; every network plugin's unit is looked for.

    Raises:
        InfraError: a machine did not answer or answered nonsense.
    """
    units = sorted(plugin.unit for plugin in plugins().values())
    return ask_each(hosts, dict.fromkeys(hosts, (ON_NODE, *units)), parse)


def gather_running(hosts: Mapping[str, Any], questions: Mapping[str, Mapping[str, Any]]) -> dict[str, RunningPrograms]:
    """Ask every machine what it runs, all at once.

    Args:
        questions: what on_node_programs.py takes, by machine.

    Raises:
        InfraError: a machine did not answer or answered nonsense.
    """
    programs = {name: (ON_NODE_PROGRAMS, json.dumps(questions[name])) for name in hosts}
    return ask_each(hosts, programs, parse_programs)


def ask_each(
    hosts: Mapping[str, Any],
    programs: Mapping[str, tuple[Path | str, ...]],
    read: Callable[[str], T],
    *,
    seconds: float = GATHER_SECONDS,
) -> dict[str, T]:
    """Run a program with its arguments on every machine, all at once, and read what each prints.

    Args:
        seconds: how long each may take.

    Raises:
        InfraError: a machine did not answer or answered nonsense.
    """

    def ask(name: str) -> T:
        program, *arguments = programs[name]
        return read(_said(name, hosts[name], remote_command(Path(program), *map(str, arguments), seconds=seconds)))

    with ThreadPoolExecutor(max_workers=max(1, len(hosts))) as pool:
        return dict(zip(hosts, pool.map(ask, hosts), strict=True))


def remote_command(program: Path, *arguments: str, seconds: float = GATHER_SECONDS) -> str:
    """Return the shell command that runs one of the on_node programs on a machine.

    The text of the programs goes along; on_node is there to be imported by the others under its own name.

    Args:
        seconds: after which the machine ends it.
    """
    texts = json.dumps([ON_NODE.read_text(encoding="utf-8"), program.read_text(encoding="utf-8")])
    packed = base64.b64encode(zlib.compress(texts.encode(), 9)).decode()
    start = (
        "import base64,json,sys,types,zlib;"
        f'library,text=json.loads(zlib.decompress(base64.b64decode("{packed}")));'
        'name="harness.validate.remote.on_node";sys.modules[name]=types.ModuleType(name);'
        'exec(compile(library,name,"exec"),sys.modules[name].__dict__);exec(compile(text,"on_node","exec"))'
    )
    return f"timeout {seconds:.0f} python3 -c {shlex.join([start, *arguments])}"


def _said(name: str, host: Any, command: str) -> str:
    try:
        done = host.run(command)
    except RuntimeError as error:  # testinfra's word for ssh's exit status 255
        raise InfraError(
            f"{name} cannot be logged in to: {str(error)[:300]}", hint="is the machine still running? `vmatrix status`"
        ) from error
    if done.rc != 0:
        raise InfraError(
            f"{name} could not tell its facts (status {done.rc}): {done.stderr.strip()[-500:]}",
            hint=f"log in to {name} and run `python3 --version; systemctl --failed`",
        )
    return str(done.stdout)
