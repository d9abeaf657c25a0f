"""The machines of a guest as testinfra hosts, opened when the machines exist, never while tests are collected."""

from __future__ import annotations

import base64
import shlex
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import testinfra

from harness.errors import InfraError
from harness.model import Environment
from harness.validate.facts import NodeFacts, parse

ON_NODE = Path(__file__).with_name("on_node.py")
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
    """Ask every machine for its facts, all at once, one command each.

    Raises:
        InfraError: a machine did not answer or answered nonsense.
    """
    with ThreadPoolExecutor(max_workers=max(1, len(hosts))) as pool:
        asked = {name: pool.submit(_ask, name, host) for name, host in hosts.items()}
    return {name: answer.result() for name, answer in asked.items()}


def gather_command() -> str:
    """Return the shell command that prints a machine's facts."""
    packed = base64.b64encode(zlib.compress(ON_NODE.read_bytes(), 9)).decode()
    program = f'import base64,zlib;exec(zlib.decompress(base64.b64decode("{packed}")))'
    return f"timeout {GATHER_SECONDS} python3 -c {shlex.quote(program)}"


def _ask(name: str, host: Any) -> NodeFacts:
    try:
        done = host.run(gather_command())
    except RuntimeError as error:  # testinfra's word for ssh's exit status 255
        raise InfraError(
            f"{name} cannot be logged in to: {str(error)[:300]}", hint="is the machine still running? `vmatrix status`"
        ) from error
    if done.rc != 0:
        raise InfraError(
            f"{name} could not tell its facts (status {done.rc}): {done.stderr.strip()[-500:]}",
            hint=f"log in to {name} and run `python3 --version; systemctl --failed`",
        )
    return parse(done.stdout)
