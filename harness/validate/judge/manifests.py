"""Part of node_services.py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.node import NodeFacts
from harness.validate.findings import Mismatch, on_every, same_set, unjudged
from harness.validate.layout import static_by_facts

Facts = Mapping[str, NodeFacts]


def wrong_manifests(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where the static pods' manifests are not exactly those of the machine's role."""
    static = static_by_facts(facts, expected)
    others = expected.leaves.control_plane.other_static_pods
    if expected.leaves.control_plane.runs_as is None and facts and not any(seen.manifests for seen in facts.values()):
        return [unjudged("the static pods", "no machine has any, and product.yml does not say so", whole=True)]

    def judge(name: str, seen: NodeFacts) -> list[Mismatch]:
        role = {program for program, wanted in static.items() if wanted} if name in expected.control_plane else set()
        there = {PurePath(manifest).stem for manifest in seen.manifests}
        allowed = there - set(static) if others is None else set(others)
        folder = expected.leaves.control_plane.manifests or seen.kubelet.get("manifests", "manifests")
        return same_set(f"{name} {folder}", "static pods", role, there - (allowed - role))

    return on_every(expected.nodes, facts, judge)
