"""The environment variables of a program of a product, and the folders that it has for itself."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.cell.product.command_files import joining
from harness.cell.product.protocol import PhaseRun
from harness.machines.access import control_directory
from harness.machines.inventory import GROUPS
from harness.model import Machine
from harness.spec import phase_environment as names
from harness.spec.product_sources import VARIABLE as SOURCES

LONGEST = 131072  # bytes of an environment variable with its name, MAX_ARG_STRLEN of linux/binfmts.h


@dataclass(frozen=True)
class Folders:
    """A program's own folders on this host, gone with the cell: one for its whole life, one for the phase alone."""

    state: Path
    temporary: Path


def folders_of(wanted: PhaseRun) -> Folders:
    """Return the folders of a phase's program: where `vmatrix reap` finds them, and not in the run's directory."""
    own = control_directory(wanted.environment.run, wanted.environment.cell.id) / "command"
    return Folders(own / "state", own / f"tmp-{wanted.stage}")


def environment_of(wanted: PhaseRun) -> dict[str, str]:
    """Return the environment variables of a phase's program."""
    environment, phase, files = wanted.environment, wanted.phase, wanted.environment.files
    folders, reached = folders_of(wanted), [m for m in environment.machines if m.name not in phase.lost]
    paths = {
        names.INVENTORY: files.machines,
        names.SSH_CONFIG: files.ssh_config,
        names.ANSIBLE_INVENTORY: files.hosts,
        names.VARIABLES: files.variables_json,
        names.GUEST_KUBECONFIG: files.kubeconfig,
        names.RESULT: files.result(wanted.stage),
        names.STATE: folders.state,
        names.TEMPORARY: folders.temporary,
        "TMPDIR": folders.temporary,
        "KUBECACHEDIR": folders.temporary / "kube",  # kubectl keeps by address what a guest serves
    }
    return {
        names.CELL: environment.cell.id,
        names.PHASE: phase.name,
        names.PHASE_SECONDS: f"{wanted.timeout:.0f}",
        names.MACHINES: " ".join(m.name for m in reached),
        names.JOINING: " ".join(joining(environment.cell, wanted.stage)),
        names.LEAVING: " ".join(phase.removed),
        names.LOST: " ".join(phase.lost),
        **{name: str(path.absolute()) for name, path in paths.items()},
        names.MIRROR_URL: str(wanted.variables.get("cluster_mirror_url", "")),
        names.IMAGE_REGISTRY: str(wanted.variables.get("cluster_image_registry", "")),
        **{f"{names.GROUP}{g.upper()}": _listed(m for m in reached if g in m.groups) for g in GROUPS},
        **{f"{names.ADDRESS}{_word(m.name)}": m.address for m in environment.machines},
        **_each(wanted.variables),
        **({SOURCES: str(sources)} if (sources := wanted.variables.get("product_sources")) else {}),
    }


def _each(variables: Mapping[str, Any]) -> dict[str, str]:
    """Return an environment variable for each variable that Linux takes: longer ones are in the file of all."""
    found = {f"{names.VARIABLE}{name}": text(value) for name, value in variables.items()}
    return {name: value for name, value in found.items() if len(f"{name}={value}".encode()) < LONGEST}


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
