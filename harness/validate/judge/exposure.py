"""What of a guest's machines can be reached from outside, and what their next start sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.files import MachineFiles
from harness.validate.findings import Mismatch, differs, on_every, unjudged
from harness.validate.judge.kernel import kernel_settings
from harness.validate.variables import ADD_ONS

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
