"""Second run: what it changed by its own account, on machines, and of the cluster's containers (idempotence)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.model import Cell
from harness.validate.facts.cluster import view_of
from harness.validate.findings import Mismatch, on_every
from harness.validate.inspection import Inspection, MachineState, gather_states
from harness.validate.phases.restarts import container_restarts, lasting

# Whose files deployments write. A cluster that runs writes to the others all the time.
TREES = re.compile(r"^/(boot|etc|home|opt|root|srv|usr)/")
PASSING_FILE = re.compile(r"/\.(kube/(cache|kuberc)|cache|lesshst|bash_history|sudo_as_admin_successful)(/|$)")
ON_DEMAND = re.compile(r"^(systemd-|polkit|dbus|packagekit|ssh@|user@)")  # services that begin when they are asked for
LISTED = 20  # changes of one machine that a message names
NOTHING = "no change"


@dataclass(frozen=True)
class LastingView:
    """What lasts of a guest while nobody changes it.

    machines: by name, and in it by kind.  containers: how often each was started again, by "NAMESPACE/POD CONTAINER".
    """

    machines: Mapping[str, MachineState]
    containers: Mapping[str, int]


def is_idempotent(cell: Cell, index: int) -> bool:
    """Tell whether the product says of a phase that a second run changes nothing."""
    return cell.phases[index].idempotent


def look(inspection: Inspection) -> LastingView:
    """Return what lasts, as it is now.

    Raises:
        InfraError: a machine does not answer.  ApiFailure, Unreachable: the guest's API does not.
    """
    states = gather_states(inspection.hosts, inspection.timeouts, with_starts=True)
    pods = view_of(inspection.api, inspection.expected.namespaces).system_pods
    return LastingView({name: kept(state) for name, state in states.items()}, container_restarts(pods))


def kept(state: MachineState) -> dict[str, dict[str, str]]:
    """Return the part of a machine's state that nothing but a deployment changes, by kind."""
    files, starts, units = state.get("file", {}), state.get("start", {}), lasting(state)["unit"]
    return {
        **lasting(state),
        "unit": {name: value for name, value in units.items() if name.startswith("file ")},
        "file": {name: value for name, value in files.items() if TREES.match(name) and not PASSING_FILE.search(name)},
        "start": {name: value for name, value in starts.items() if not ON_DEMAND.match(name)},
    }


def changes(names: Sequence[str], told: Sequence[str], before: LastingView, after: LastingView) -> list[Mismatch]:
    """Return all that a second run has changed.

    Args:
        names: of the machines.  told: what it changed by its own account.
    """

    def judge(name: str, now: MachineState) -> Iterator[Mismatch]:
        was = before.machines.get(name)
        if was is None or not was.get("file") or not now.get("file"):
            yield Mismatch(name, "its files before and after the second run", "none")
            return
        differences = list(_differences(was, now))
        more = len(differences) - LISTED
        for line in [*differences[:LISTED], *([f"{more} more changes"] if more > 0 else [])]:
            yield Mismatch(name, NOTHING, line)

    return [
        *(Mismatch(change, NOTHING, "changed") for change in told),
        *on_every(names, after.machines, judge),
        *(Mismatch("a container", NOTHING, line) for line in _restarted(before.containers, after.containers)),
    ]


def _differences(was: MachineState, now: MachineState) -> Iterator[str]:
    for kind in ("file", "unit", "start", "mount", "link", "kernel setting"):
        before, after = was.get(kind, {}), now.get(kind, {})
        if kind == "start":  # a service that is gone or new is a unit's business
            yield from (f"{name} was restarted" for name in before if after.get(name, before[name]) != before[name])
            continue
        yield from (f"{kind} {name} is new" for name in sorted(after.keys() - before.keys()))
        yield from (f"{kind} {name} is gone" for name in sorted(before.keys() - after.keys()))
        yield from (
            f"{kind} {name} is another" for name in sorted(before) if after.get(name, before[name]) != before[name]
        )


def _restarted(before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[str]:
    yield from (f"{name} is new" for name in sorted(after.keys() - before.keys()))
    yield from (f"{name} is gone" for name in sorted(before.keys() - after.keys()))
    yield from (f"{name} was restarted" for name in sorted(before) if after.get(name, 0) > before[name])
