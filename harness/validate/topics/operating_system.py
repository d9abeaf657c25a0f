"""Operating system: kernel settings, swap, hostname, clock, /etc/hosts, name servers, open ports and the next boot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from harness.model import ip_version
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.files import MachineFiles
from harness.validate.facts.node import NodeFacts
from harness.validate.facts.programs import MachineSetup, RunningPrograms
from harness.validate.findings import Mismatch, differs, of_each, on_every, same_set, unjudged
from harness.validate.variables import ADD_ONS

Facts = Mapping[str, NodeFacts]
# What kubelet and the pod network need of the kernel (kubernetes.io, "Container runtimes": network configuration).
BRIDGED = "net.bridge."  # settings that are there only where a bridge is used
SYSCTLS = {"net.ipv4.ip_forward": "1", "net.bridge.bridge-nf-call-iptables": "1"}
OF_IPV6 = {"net.ipv6.conf.all.forwarding": "1", "net.bridge.bridge-nf-call-ip6tables": "1"}  # of a cluster that has it


def kernel_settings(expected: ExpectedGuest) -> dict[str, str]:
    """Return what kubelet and the pod networks need of the kernel."""
    return {**SYSCTLS, **(OF_IPV6 if expected.ipv6 else {})}


@of_each("nodes")
def wrong_kernel_settings(name: str, seen: NodeFacts, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Return kernel settings that are not as needed, and swap that is on."""
    for setting, value in kernel_settings(expected).items():
        if expected.plugin is None and setting.startswith(BRIDGED) and not seen.sysctls.get(setting):
            yield unjudged(setting, f"nobody describes the network plugin {expected.network_plugin!r}")
            continue
        yield from differs(name, setting, value, seen.sysctls.get(setting, ""))
    yield from differs(name, "swap", (), seen.swaps)


def confused_identities(facts: Facts, expected: ExpectedGuest, clock_margin: float) -> list[Mismatch]:
    """Return machines with another's hostname, a shared machine-id (a clone that was not reset) or a wrong clock.

    Args:
        clock_margin: seconds that a clock may differ from the harness's, beyond what a late answer explains.
    """
    ids = Counter(seen.machine_id for seen in facts.values())

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        yield from differs(name, "hostname", name, seen.hostname)
        if not seen.machine_id or ids[seen.machine_id] > 1:
            yield Mismatch(name, "a unique machine-id", repr(seen.machine_id))
        clock = f"a clock within {clock_margin:.0f} s of this host's"
        if seen.clock.least > clock_margin:
            yield Mismatch(name, clock, f"at least {seen.clock.least:.0f} s ahead")
        if seen.clock.most < -clock_margin:
            yield Mismatch(name, clock, f"at least {-seen.clock.most:.0f} s behind")

    return on_every(expected.machines, facts, judge)


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


Files = Mapping[str, MachineFiles]
# Targets that start no services, or end at once (systemd.special(7)).
NO_SERVICES = {
    *("rescue.target", "emergency.target", "sysinit.target", "basic.target"),
    *("reboot.target", "poweroff.target", "halt.target", "kexec.target", "shutdown.target"),
}


def open_ports(files: Files, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the ports that the cluster's programs open to others although their machine's groups do not have them."""
    said = expected.leaves.open_ports
    if said is None:
        return [unjudged("which ports are open", "product.yml does not say which may be (open_ports)", whole=True)]

    def judge(name: str, seen: MachineFiles) -> Iterator[Mismatch]:
        groups = {"node": expected.nodes, "control_plane": expected.control_plane, "etcd": expected.etcd}
        allowed = {port for group, ports in said.items() if name in groups[group] for port in ports}
        if not seen.listening:
            yield Mismatch(name, "programs of the cluster that listen", "none")
        if name in expected.nodes:
            allowed |= {port for add_on in expected.addons for port in ADD_ONS[add_on].ports}
        for one in seen.listening:
            if not one.local and one.port not in allowed:
                ports = ", ".join(map(str, sorted(allowed)))
                yield Mismatch(
                    f"{name} {one.program}", f"only ports {ports} open to others", f"{one.address}:{one.port}"
                )

    return on_every(expected.machines, files, judge)


def wrong_boot(files: Files, expected: ExpectedGuest) -> list[Mismatch]:
    """Return what the next start of a node would set otherwise than it is needed."""
    said = expected.leaves.boot_modules

    def judge(name: str, seen: MachineFiles) -> Iterator[Mismatch]:
        yield from differs(f"{name} /etc/fstab", "swap", (), seen.boot_swaps)
        if seen.boot_target in NO_SERVICES:
            yield Mismatch(f"{name} systemd", "a default target with services", f"default target {seen.boot_target}")
        if said is None:
            return
        if seen.boot_hostname:  # a machine without one asks its network
            yield from differs(f"{name} /etc/hostname", "the machine's name", name, seen.boot_hostname)
        for setting, value in kernel_settings(expected).items():
            yield from differs(f"{name} sysctl.d", setting, value, seen.boot_settings.get(setting, ""))
        for module in said:
            yield from differs(f"{name} modules-load.d", f"names {module}", True, module in seen.boot_modules)

    found = on_every(expected.nodes, files, judge)
    why = "product.yml does not say which modules (boot_modules)"
    return found if said is not None else [*found, unjudged("kernel settings and modules after a reboot", why)]
