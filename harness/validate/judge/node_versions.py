"""Which versions must be installed on every machine of a guest, and run there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from harness.spec.models.leaves import Tool
from harness.validate.facts.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.judge.finding import together, unjudged
from harness.validate.judge.layout import absent, runtime_of
from harness.validate.judge.mismatch import Mismatch, differs, differs_upstream, on_every

Facts = Mapping[str, NodeFacts]
CNI_PLUGINS = ("bridge", "host-local", "loopback", "portmap")
DELETED = " (deleted)"


def wrong_binaries(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the installed programs that are missing or have another version than expected."""
    leaves, runtime = expected.leaves, runtime_of(facts, expected)
    every = Tool()
    wanted = {
        "kubelet": (expected.kubernetes, every if leaves.kubelet.unit is not None else None),
        "kubeadm": (expected.kubernetes, leaves.kubeadm),
        "kubectl": (expected.kubernetes, leaves.kubectl),
        runtime or "container runtime": (expected.runtime_version, every if leaves.runtime_unit is not None else None),
        "runc": (expected.runc, every if leaves.runtime_unit is not None else None),
    }
    parts = [_program(facts, expected, name, version, tool) for name, (version, tool) in wanted.items()]
    return together(*parts, _cni_plugins(facts, expected))


def _program(facts: Facts, expected: ExpectedGuest, program: str, version: str, tool: Tool | None) -> list[Mismatch]:
    """Judge one program where it has to be, or wherever it is when the product does not say."""
    installed = tuple(name for name in expected.nodes if name in facts and facts[name].versions.get(program))
    if not version:
        return [unjudged(f"the version of {program}", expected.why_unknown(program))]
    if tool is None and facts and not installed:
        return [unjudged(f"the version of {program}", "it is not in the usual folders of any machine")]
    names = expected.nodes if tool is None or tool.group == "node" else expected.control_plane
    agents = ("kubelet", "runc", runtime_of(facts, expected))  # of the rest, each machine may have it or not
    names = names if tool is not None or program in agents else installed

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        yield from differs_upstream(f"{name} {program}", "version", version, seen.versions.get(program, ""))

    return on_every(names or expected.nodes, facts, judge)


def _cni_plugins(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    if not expected.cni_plugins:
        return [unjudged("the version of the CNI plugins", expected.why_unknown("cni_plugins"))]
    if expected.leaves.cni_plugins is None and facts and not any(seen.cni_plugins for seen in facts.values()):
        return [unjudged("the version of the CNI plugins", "there are none in /opt/cni/bin")]

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        for plugin in CNI_PLUGINS:
            version = seen.cni_plugins.get(plugin, "")
            yield from differs(f"{name} CNI plugin {plugin}", "version", expected.cni_plugins, version)

    return on_every(expected.nodes, facts, judge)


def replaced_binaries(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the services that still run an old version of their file, which was replaced."""
    said = {"kubelet": expected.leaves.kubelet.unit, runtime_of(facts, expected): expected.leaves.runtime_unit}

    def judge(program: str, name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        running = seen.running(program)
        yield from differs(f"{name} {program}", "running processes", 1, len(running))
        for process in running:
            if process.executable.endswith(DELETED):
                yield Mismatch(f"{name} {program}", "a process that runs the installed file", process.executable)

    parts = [
        [unjudged(f"the file of {program or 'the container runtime'}", "no process of a known name runs")]
        if not program or (unit is None and absent(facts, program))
        else on_every(expected.nodes, facts, partial(judge, program))
        for program, unit in said.items()
    ]
    return together(*parts)
