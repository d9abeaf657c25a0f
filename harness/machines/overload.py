"""Overload: whether this host, or machines, were too busy for a cluster to be in time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.errors import VmatrixError
from harness.machines.reach.ssh import run_on
from harness.model import Machine
from harness.pressure import READ, Pressure, of_text, this_host

LOOK_SECONDS = 20.0  # for a machine's answer; one that has none is left out


def of_machines(machines: Sequence[Machine], private_key: Path) -> list[Pressure]:
    """Return the pressure of every machine that answers."""

    def ask(machine: Machine) -> Pressure | None:
        try:
            done = run_on(machine, READ, private_key=private_key, timeout=LOOK_SECONDS)
        except VmatrixError:  # what cannot be asked explains nothing
            return None
        return of_text(machine.name, done.stdout) if done.returncode == 0 else None

    if not machines:
        return []
    with ThreadPoolExecutor(len(machines)) as pool:
        return [one for one in pool.map(ask, machines) if one is not None]


def overload(machines: Sequence[Machine], private_key: Path) -> str:
    """Say where a cluster could not be in time, "" where it could; this host is asked first."""
    own = this_host()
    if own.too_high:
        return str(own)
    return "; ".join(str(one) for one in of_machines(machines, private_key) if one.too_high)
