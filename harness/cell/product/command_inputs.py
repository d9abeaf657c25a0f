"""Inputs of a product's program: environment variables, folders, inventory, variables as JSON, SSH configuration."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.cell.product.protocol import PhaseRun
from harness.files import write_atomically
from harness.machines.inventory import GROUPS
from harness.machines.reach.ssh import control_directory, ssh_options
from harness.model import Cell, Environment, Machine
from harness.spec import phase_environment as names
from harness.spec.models import Product
from harness.spec.product_files import VARIABLE as SOURCES


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
        key, _, setting = value.partition("=") if flag == "-o" else ("IdentityFile", "", value)
        yield f"  {key} {setting if key == 'ProxyCommand' else _quoted(setting)}"


def _quoted(value: str) -> str:
    """Return a value as ssh_config(5) wants it where it has spaces."""
    return f'"{value}"' if " " in value else value


def joining(cell: Cell, stage: str) -> tuple[str, ...]:
    """Return the machines of a phase that are not part of a cluster before it: in the first deployment all of them."""
    index = next(n for n in range(len(cell.phases)) if cell.stage(n) == stage)
    there: set[str] = set()
    if index and cell.phases[index - 1].cluster:
        before = cell.phases[index - 1]
        there = set(before.machines) - {*before.removed, *before.lost}
    phase = cell.phases[index]
    return tuple(name for name in phase.machines if name not in {*there, *phase.lost})


def write_files(phase_run: PhaseRun, product: Product) -> None:
    """Write the inventory in forms that any program reads, and the variables as JSON, beside Ansible's."""
    environment, files = phase_run.environment, phase_run.environment.files
    control = control_directory(environment.run, environment.cell.id)
    control.mkdir(mode=0o700, exist_ok=True)
    write_atomically(files.ssh_config, ssh_config(environment, control))
    write_atomically(files.machines, _json(inventory_of(phase_run, product)))
    write_atomically(files.variables_json, _json(phase_run.variables))


def inventory_of(phase_run: PhaseRun, product: Product) -> dict[str, Any]:
    """Return the machines of a phase: how each is reached, its groups by our names and the product's, what it does."""
    phase, new = phase_run.phase, joining(phase_run.environment.cell, phase_run.stage)

    def one(machine: Machine) -> dict[str, Any]:
        groups = [name for group in GROUPS if group in machine.groups for name in (group, *product.group_names(group))]
        return {
            "name": machine.name,
            "address": machine.address,
            **({"ipv6_address": machine.ipv6_address} if machine.ipv6_address else {}),
            "port": machine.port,
            "user": machine.user,
            "private_key": str(phase_run.environment.private_key),
            "groups": list(dict.fromkeys(groups)),
            "joins": machine.name in new,
            "leaves": machine.name in phase.removed,
            "lost": machine.name in phase.lost,
        }

    return {
        "cell": phase_run.environment.cell.id,
        "phase": phase.name,
        "machines": [one(machine) for machine in phase_run.environment.machines],
    }


def _json(content: Any) -> str:
    return json.dumps(content, indent=2) + "\n"


LONGEST = 131072  # bytes of an environment variable with its name, MAX_ARG_STRLEN of linux/binfmts.h


@dataclass(frozen=True)
class Folders:
    """A program's own folders on this host, gone with the cell: one for its whole life, one for the phase alone."""

    state: Path
    temporary: Path


def folders_of(phase_run: PhaseRun) -> Folders:
    """Return the folders of a phase's program: where `vmatrix reap` finds them, and not in the run's directory."""
    own = control_directory(phase_run.environment.run, phase_run.environment.cell.id) / "command"
    return Folders(own / "state", own / f"tmp-{phase_run.stage}")


def environment_of(phase_run: PhaseRun) -> dict[str, str]:
    """Return the environment variables of a phase's program."""
    environment, phase, files = phase_run.environment, phase_run.phase, phase_run.environment.files
    folders, reached = folders_of(phase_run), [m for m in environment.machines if m.name not in phase.lost]
    paths = {
        names.INVENTORY: files.machines,
        names.SSH_CONFIG: files.ssh_config,
        names.ANSIBLE_INVENTORY: files.hosts,
        names.VARIABLES: files.variables_json,
        names.GUEST_KUBECONFIG: files.kubeconfig,
        names.RESULT: files.result(phase_run.stage),
        names.STATE: folders.state,
        names.TEMPORARY: folders.temporary,
        "TMPDIR": folders.temporary,
        "KUBECACHEDIR": folders.temporary / "kube",  # kubectl keeps by address what a guest serves
    }
    return {
        names.CELL: environment.cell.id,
        names.PHASE: phase.name,
        names.PHASE_SECONDS: f"{phase_run.timeout:.0f}",
        names.MACHINES: " ".join(m.name for m in reached),
        names.JOINING: " ".join(joining(environment.cell, phase_run.stage)),
        names.LEAVING: " ".join(phase.removed),
        names.LOST: " ".join(phase.lost),
        **{name: str(path.absolute()) for name, path in paths.items()},
        names.MIRROR_URL: str(phase_run.variables.get("cluster_mirror_url", "")),
        names.IMAGE_REGISTRY: str(phase_run.variables.get("cluster_image_registry", "")),
        **{f"{names.GROUP}{g.upper()}": _listed(m for m in reached if g in m.groups) for g in GROUPS},
        **{f"{names.ADDRESS}{_word(m.name)}": m.address for m in environment.machines},
        **_each(phase_run.variables),
        **({SOURCES: str(sources)} if (sources := phase_run.variables.get("product_sources")) else {}),
    }


def _each(variables: Mapping[str, Any]) -> dict[str, str]:
    """Return an environment variable for each variable that Linux takes: longer ones are in the file of all."""
    environment = {f"{names.VARIABLE}{name}": text(value) for name, value in variables.items()}
    return {name: value for name, value in environment.items() if len(f"{name}={value}".encode()) < LONGEST}


def text(value: Any) -> str:
    """Return a variable's value as a shell wants it: a string as it is, everything else as JSON, nothing as ""."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def sourced(variables: Mapping[str, str]) -> str:
    """Return a file for `.` of a shell with which a person runs the program by hand."""
    made = [variables[name] for name in (names.STATE, names.TEMPORARY)]
    exports = [f"export {name}={shlex.quote(value)}" for name, value in sorted(variables.items())]
    return "\n".join([f"mkdir -p -m 0700 {shlex.join(made)}", *exports]) + "\n"


def _listed(machines: Iterable[Machine]) -> str:
    return " ".join(machine.name for machine in machines)


def _word(name: str) -> str:
    return re.sub(r"\W", "_", name, flags=re.ASCII)
