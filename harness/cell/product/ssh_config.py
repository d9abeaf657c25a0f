"""A cell's machines as an SSH configuration file, for any program that calls ssh, scp, sftp or rsync."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.machines.access import ssh_options
from harness.model import Environment, Machine


def ssh_config(environment: Environment, control: Path) -> str:
    """Return the configuration: each machine by its name and by its address, with shared connections.

    Args:
        control: the folder of shared connections' sockets.
    """
    hosts = ("\n".join(_host(environment, machine, control)) for machine in environment.machines)
    return (
        "# Use it with `ssh -F FILE MACHINE`, `scp -F FILE` or `rsync -e 'ssh -F FILE'`.\n\n"
        + "\n\n".join(hosts)
        + "\n"
    )


def _host(environment: Environment, machine: Machine, control: Path) -> Iterator[str]:
    yield f"Host {machine.name} {machine.address}"
    yield f"  HostName {machine.address}"
    yield f"  Port {machine.port}"
    yield f"  User {machine.user}"
    seconds = machine.connect_seconds
    options = ssh_options(environment.private_key, control, machine.tunnels, connect_seconds=seconds)
    for flag, value in zip(options[::2], options[1::2], strict=True):
        key, _, said = value.partition("=") if flag == "-o" else ("IdentityFile", "", value)
        yield f"  {key} {said if key == 'ProxyCommand' else _quoted(said)}"


def _quoted(value: str) -> str:
    """Return a value as ssh_config(5) wants it where it has spaces."""
    return f'"{value}"' if " " in value else value
