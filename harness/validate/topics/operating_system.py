"""Operating system: kernel settings, swap, hostname, clock, /etc/hosts, name servers and open ports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from harness.model import ip_version
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.files import MachineFiles
from harness.validate.facts.node import NodeFacts
from harness.validate.facts.programs import MachineSetup, RunningPrograms
from harness.validate.findings import Mismatch, differs, on_every, same_set, unjudged
from harness.validate.kernel import KERNEL, NODE_PORTS, PORTS, RESERVED, applies
from harness.validate.variables import ADD_ONS

Facts = Mapping[str, NodeFacts]
BRIDGED = "net.bridge."  # settings that are there only where a bridge is used


def wrong_kernel_settings(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return kernel settings that are not as needed, and swap that is on."""
    mismatches = on_every(expected.nodes, facts, lambda name, node: _kernel_settings(name, node, expected))
    why = "product.yml does not say what machines boot with (boot_modules)"
    strict = [] if expected.leaves.boot_modules is not None else [unjudged("strict filtering of paths and ARP", why)]
    return [*mismatches, *strict]


def _kernel_settings(name: str, node: NodeFacts, expected: ExpectedGuest) -> Iterator[Mismatch]:
    for rule in (rule for rule in KERNEL if applies(rule, expected)):
        there = {key: value for key, value in node.sysctls.items() if fnmatchcase(key, rule.setting)}
        if rule.needed and not any(there.values()):
            if expected.plugin is None and rule.setting.startswith(BRIDGED):
                yield unjudged(rule.setting, f"nobody describes the network plugin {expected.network_plugin!r}")
                continue
            there = {rule.setting: ""}
        for key, value in there.items():
            if rule.kind == PORTS and _reserved(node.sysctls.get(RESERVED, "")):
                continue
            if requirement := rule.wrong(value):
                yield Mismatch(name, f"{key} {requirement} ({rule.why})", repr(value))
    yield from differs(name, "swap", (), node.swaps)


def _reserved(text: str) -> bool:
    """Tell whether a list of ports and ranges has all NodePorts."""
    ranges = [part.partition("-")[::2] for part in text.split(",") if part]
    return any(int(first) <= NODE_PORTS[0] and int(last or first) >= NODE_PORTS[1] for first, last in ranges)


def confused_identities(facts: Facts, expected: ExpectedGuest, clock_margin: float) -> list[Mismatch]:
    """Return machines with another's hostname, a shared machine-id (a clone that was not reset) or a wrong clock.

    Args:
        clock_margin: seconds that a clock may differ from the harness's, beyond what a late answer explains.
    """
    ids = Counter(node.machine_id for node in facts.values())

    def judge(name: str, node: NodeFacts) -> Iterator[Mismatch]:
        yield from differs(name, "hostname", name, node.hostname)
        if not node.machine_id or ids[node.machine_id] > 1:
            yield Mismatch(name, "a unique machine-id", repr(node.machine_id))
        clock = f"a clock within {clock_margin:.0f} s of this host's"
        if node.clock.least > clock_margin:
            yield Mismatch(name, clock, f"at least {node.clock.least:.0f} s ahead")
        if node.clock.most < -clock_margin:
            yield Mismatch(name, clock, f"at least {-node.clock.most:.0f} s behind")

    return on_every(expected.machines, facts, judge)


Setups = Mapping[str, MachineSetup]
Running = Mapping[str, RunningPrograms]

LOOPBACK = "127."
GROUPS = ("ff", "fe00:")  # how addresses begin that systems have names for (ip6-allnodes, ip6-localnet)


def wrong_names(running: Running, setups: Setups, expected: ExpectedGuest) -> list[Mismatch]:
    """Return machines that name others wrongly in their file of names, or ask other name servers than the first one."""
    file, first = expected.leaves.host_names, setups[expected.machines[0]].resolvers if setups else ()

    def judge(name: str, programs: RunningPrograms) -> Iterator[Mismatch]:
        addresses_of: dict[str, set[str]] = {}
        for address, names in programs.hosts.items():
            own = address.startswith(LOOPBACK) or address == "::1"
            for host in names if own or _of_machines(address, expected) else ():
                if not own or (host in expected.machines and host != name):
                    addresses_of.setdefault(host, set()).add(address)
        for machine in expected.machines:
            there = addresses_of.pop(machine, set())
            yield from differs(f"{name} {file}", f"{machine} at", [expected.addresses[machine]], sorted(there))
        yield from same_set(f"{name} {file}", "machines", expected.machines, {*addresses_of, *expected.machines})

    def asks(name: str, setup: MachineSetup) -> Iterator[Mismatch]:
        where = f"{name} /etc/resolv.conf"
        yield from differs(where, f"name servers as on {expected.machines[0]},", list(first), list(setup.resolvers))
        there = setups[expected.machines[0]].search if expected.machines[0] in setups else ()
        yield from differs(where, f"domains and options as on {expected.machines[0]},", list(there), list(setup.search))
        for machine in (host for host in expected.machines if host != name):
            resolved, address = setup.resolved.get(machine, ()), expected.addresses[machine]
            if address not in resolved:
                yield Mismatch(f"{name} getent", f"{machine} at {address}", ", ".join(resolved) or "no address")

    if file is None:
        return [unjudged("names of machines", "product.yml names no file (host_names)", whole=True)]
    return [*on_every(expected.machines, running, judge), *on_every(expected.machines, setups, asks)]


def _of_machines(address: str, expected: ExpectedGuest) -> bool:
    """Tell whether an address may be a machine's: of the cell's IP family, and none that names a group."""
    return ip_version(address) == expected.version and not address.startswith(GROUPS)


Files = Mapping[str, MachineFiles]


def open_ports(files: Files, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the ports that the cluster's programs open to others although their machine's groups do not have them."""
    ports_of = expected.leaves.open_ports
    if ports_of is None:
        return [unjudged("which ports are open", "product.yml does not say which may be (open_ports)", whole=True)]

    def judge(name: str, machine: MachineFiles) -> Iterator[Mismatch]:
        groups = {"node": expected.nodes, "control_plane": expected.control_plane, "etcd": expected.etcd}
        allowed = {port for group, ports in ports_of.items() if name in groups[group] for port in ports}
        if not machine.listening:
            yield Mismatch(name, "programs of the cluster that listen", "none")
        if name in expected.nodes:
            allowed |= {port for add_on in expected.addons for port in ADD_ONS[add_on].ports}
        for listener in machine.listening:
            if not listener.local and listener.port not in allowed:
                ports = ", ".join(map(str, sorted(allowed)))
                yield Mismatch(
                    f"{name} {listener.program}",
                    f"only ports {ports} open to others",
                    f"{listener.address}:{listener.port}",
                )

    return on_every(expected.machines, files, judge)
