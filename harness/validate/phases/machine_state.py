"""What a phase that removes a cluster has left behind on machines, lost or changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from harness.spec.models.leaves import ClusterLeaves
from harness.validate.findings import Mismatch, on_every, unjudged
from harness.validate.inspection import MachineState

KINDS = ("file", "mount", "link", "route", "unit", "process", "control group", "kernel setting")  # never empty
UNSAID = ("file", "unit", "kernel setting")  # not judged where the product does not say what a reset leaves
PROGRAMS = re.compile(r"(^|/)(kube[a-z-]*|etcd|containerd-shim\S*|conmon|coredns|flanneld|pause)( |$)")  # of a cluster
LISTED = 15  # differences of one machine that a message names


def not_as_before(
    names: Sequence[str],
    before: Mapping[str, MachineState],
    after: Mapping[str, MachineState],
    leaves: ClusterLeaves,
) -> list[Mismatch]:
    """Return how machines differ from what they were before their deployment.

    Args:
        leaves: of the product. Where it does not say what a reset leaves, only what would disturb another cluster is
            judged: no process of the cluster, mount, interface, route, rule or control group may be left.
    """
    allowed = leaves.reset_leaves

    def judge(name: str, now: MachineState) -> Iterator[Mismatch]:
        was = before.get(name)
        if was is None:
            yield Mismatch(name, "a record of the machine before its deployment", "none")
            return
        for kind in KINDS:
            if not was.get(kind) or not now.get(kind):
                yield Mismatch(f"{name}, {kind}", "something to compare", "nothing")
        found = differences(was, now, allowed)
        more = len(found) - LISTED
        for seen in [*found[:LISTED], *([f"{more} more differences"] if more > 0 else [])]:
            yield Mismatch(name, "the state before the deployment", seen)

    found = on_every(names, after, judge)
    why = "product.yml does not say what a reset leaves (reset_leaves)"
    return found if allowed is not None else [*found, *(unjudged(f"each {kind}", why) for kind in UNSAID)]


def differences(before: MachineState, after: MachineState, allowed: Sequence[str] | None = ()) -> list[str]:
    """Return what one state has that the other has not, one line each, sorted.

    Args:
        allowed: globs of `KIND NAME` that may differ; None: only what is judged of any product may not.
    """
    before, after = (_judged(state, allowed) for state in (before, after))
    found = []
    for kind in before:
        was, now = before[kind], after[kind]
        found += [f"{kind} left behind: {name} {now[name]}".rstrip() for name in now.keys() - was.keys()]
        found += [f"{kind} lost: {name} {was[name]}".rstrip() for name in was.keys() - now.keys()]
        both = was.keys() & now.keys()
        found += [f"{kind} changed: {name}: {was[name]} -> {now[name]}" for name in both if was[name] != now[name]]
    return sorted(found)


def _judged(state: MachineState, allowed: Sequence[str] | None) -> MachineState:
    """Return the part of a state that is compared."""
    if allowed is None:
        kept = {kind: names for kind, names in state.items() if kind not in UNSAID}
        commands = {name: value for name, value in state.get("process", {}).items() if PROGRAMS.search(name)}
        return {**kept, "process": commands}
    return {
        kind: {name: value for name, value in names.items() if not _matches(f"{kind} {name}", allowed)}
        for kind, names in state.items()
    }


def _matches(what: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(what, glob) for glob in globs)
