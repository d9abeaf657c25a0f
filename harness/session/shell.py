"""A shell beside a cell that has failed, as long as a person wants one; the cell goes on to its end afterwards."""

from __future__ import annotations

import os
import shlex

from rich.console import Console

from harness import proc
from harness.cell.life import Life

SHELL = "/bin/sh"


def open_shell(console: Console, life: Life) -> None:
    """Open a shell in the cell's folder that knows the guest cluster, the inventory and the machines' key."""
    files = life.attempt.files
    console.print(f"{life.cell.id} failed. This shell is in its folder; leave it to go on: exit", markup=False)
    there = life.environment
    for machine in life.cell.machines if there is not None else ():
        options = there.options if there is not None else ()
        console.print(f"  {shlex.join(['vmatrix', 'login', *options, life.cell.id, machine.name])}", markup=False)
    for name, value in variables(life).items():
        console.print(f"  {name}={value}", markup=False)
    folder = life.attempt.directory if life.attempt.directory.is_dir() else files.path.parent
    proc.attend([os.environ.get("SHELL") or SHELL], env=variables(life), cwd=folder)


def variables(life: Life) -> dict[str, str]:
    """Return the variables of the shell: of what is there."""
    files = life.attempt.files
    guest = life.guests[-1].kubeconfig if life.guests else files.kubeconfig
    known = {"KUBECONFIG": guest, "ANSIBLE_INVENTORY": files.hosts, "MACHINES_KEY": files.key}
    return {name: str(path) for name, path in known.items() if path.is_file()}
