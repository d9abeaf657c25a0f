"""Which versions must be installed on every machine of a guest, and run there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.validate.facts.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.judge.mismatch import Mismatch, differs, of_each

Facts = Mapping[str, NodeFacts]
CNI_PLUGINS = ("bridge", "host-local", "loopback", "portmap")
DELETED = " (deleted)"


@of_each("nodes")
def wrong_binaries(name: str, seen: NodeFacts, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Return the installed programs that are missing or have another version than expected."""
    wanted = {
        **dict.fromkeys(("kubelet", "kubeadm", "kubectl"), expected.kubernetes),
        expected.runtime: expected.runtime_version,
        "runc": expected.runc,
    }
    for program, version in wanted.items():
        yield from differs(f"{name} {program}", "version", version, seen.versions.get(program, ""))
    for plugin in CNI_PLUGINS:
        version = seen.cni_plugins.get(plugin, "")
        yield from differs(f"{name} CNI plugin {plugin}", "version", expected.cni_plugins, version)


@of_each("nodes")
def replaced_binaries(name: str, seen: NodeFacts, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Return the services that still run an old version of their file, which was replaced."""
    for program in ("kubelet", expected.runtime):
        running = seen.running(program)
        yield from differs(f"{name} {program}", "running processes", 1, len(running))
        for process in running:
            if process.executable.endswith(DELETED):
                yield Mismatch(f"{name} {program}", "a process that runs the installed file", process.executable)
