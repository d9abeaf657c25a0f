"""Part of surroundings.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.model import ip_version
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.programs import MachineSetup, RunningPrograms
from harness.validate.findings import Mismatch, differs, on_every, same_set, unjudged

Setups = Mapping[str, MachineSetup]
Running = Mapping[str, RunningPrograms]

LOOPBACK = "127."


GROUPS = ("ff", "fe00:")  # how addresses begin that systems have names for (ip6-allnodes, ip6-localnet)


def wrong_names(running: Running, setups: Setups, expected: ExpectedGuest) -> list[Mismatch]:
    """Return machines that name others wrongly in their file of names, or ask other name servers than the first one."""
    file, first = expected.leaves.host_names, setups[expected.machines[0]].resolvers if setups else ()

    def judge(name: str, seen: RunningPrograms) -> Iterator[Mismatch]:
        said: dict[str, set[str]] = {}
        for address, names in seen.hosts.items():
            own = address.startswith(LOOPBACK) or address == "::1"
            for one in names if own or _of_machines(address, expected) else ():
                if not own or (one in expected.machines and one != name):
                    said.setdefault(one, set()).add(address)
        for machine in expected.machines:
            wanted, there = expected.addresses[machine], said.pop(machine, set())
            yield from differs(f"{name} {file}", f"{machine} at", [wanted], sorted(there))
        yield from same_set(f"{name} {file}", "machines", expected.machines, {*said, *expected.machines})

    def asks(name: str, seen: MachineSetup) -> Iterator[Mismatch]:
        where = f"{name} /etc/resolv.conf"
        yield from differs(where, f"name servers as on {expected.machines[0]},", list(first), list(seen.resolvers))
        there = setups[expected.machines[0]].search if expected.machines[0] in setups else ()
        yield from differs(where, f"domains and options as on {expected.machines[0]},", list(there), list(seen.search))
        for machine in (one for one in expected.machines if one != name):
            found, wanted = seen.resolved.get(machine, ()), expected.addresses[machine]
            if wanted not in found:
                yield Mismatch(f"{name} getent", f"{machine} at {wanted}", ", ".join(found) or "no address")

    if file is None:
        return [unjudged("names of machines", "product.yml names no file (host_names)", whole=True)]
    return [*on_every(expected.machines, running, judge), *on_every(expected.machines, setups, asks)]


def _of_machines(address: str, expected: ExpectedGuest) -> bool:
    """Tell whether an address may be a machine's: of the cell's IP family, and none that names a group."""
    return ip_version(address) == expected.version and not address.startswith(GROUPS)
