"""Whether what runs has the patches that a cell gives to kubeadm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import ClusterView, Json, by_name
from harness.validate.findings import Mismatch, on_every, unjudged
from harness.validate.judge.inclusion import lacking, unapplied
from harness.validate.layout import static_by_view
from harness.validate.variables import DNS_TARGET, KUBELET_TARGET, Patch, patches_of

DNS_SELECTOR = ("k8s-app", "kube-dns")


def unpatched_pods(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return static pods that run without a patch of the cell's."""
    found: list[Mismatch] = []
    pods, judged = by_name(view.system_pods), False
    for program, static in static_by_view(view, expected).items():
        patches = patches_of(program, expected.variables)
        for node in expected.control_plane if static and patches else ():
            judged, name = True, f"{program}-{node}"
            there = pods.get(name)
            found += _lacks(f"pod {name}", patches, there) if there else [Mismatch(f"pod {name}", "to exist", "none")]
    if not judged:
        return [unjudged("patches of static pods", "the cell has none for a program that is one", whole=True)]
    return found


def unpatched_kubelets(
    settings: Mapping[str, Mapping[str, Any]], silent: Mapping[str, str], expected: ExpectedGuest
) -> list[Mismatch]:
    """Return kubelets that run without a patch of the cell's.

    Args:
        settings: the configuration that each kubelet reports, by node.  silent: why others do not.
    """
    patches = patches_of(KUBELET_TARGET, expected.variables)
    if not patches:
        return [unjudged("patches of kubelets", "the cell has none", whole=True)]

    def judge(name: str, seen: Mapping[str, Any]) -> Iterator[Mismatch]:
        yield from _lacks(f"{name} kubelet", patches, seen)

    said = [Mismatch(f"{name} kubelet", "its configuration", why) for name, why in silent.items()]
    asked = tuple(name for name in expected.nodes if name not in silent)
    return said + (on_every(asked, settings, judge) if asked else [])


def unpatched_dns(view: ClusterView, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where CoreDNS' Deployment, or a pod of it, lacks a patch of the cell's."""
    patches = patches_of(DNS_TARGET, expected.variables)
    if not patches:
        return [unjudged("patches of CoreDNS", "the cell has none", whole=True)]
    namespace, _, name = (expected.leaves.dns.deployment or "kube-system/coredns").partition("/")
    deployment = view.find(view.deployments, namespace, name)
    if deployment is None:
        return [Mismatch(f"Deployment {namespace}/{name}", "to exist", "none")]
    found = list(_lacks(f"Deployment {namespace}/{name}", patches, deployment))
    label, value = DNS_SELECTOR
    pods = [pod for pod in view.system_pods if pod["metadata"].get("labels", {}).get(label) == value]
    if not pods:
        found.append(Mismatch(f"Deployment {namespace}/{name}", "pods", "none"))
    # a merge patch replaces whole lists, to which the API adds its defaults
    templates = [p.content.get("spec", {}).get("template", {}) for p in patches if p.kind == "strategic"]
    for pod in pods:
        for template in filter(None, templates):
            found += _mismatches(f"pod {pod['metadata']['name']}", lacking(template, pod))
    return found


def _lacks(where: str, patches: list[Patch], there: Json | Mapping[str, Any]) -> Iterator[Mismatch]:
    for patch in patches:
        lacks = unapplied(patch.content, there) if patch.kind == "json" else lacking(patch.content, there)
        for one in _mismatches(where, lacks):
            yield Mismatch(one.where, f"{one.expected}, as of the patch {patch.name}", one.seen)


def _mismatches(where: str, lacks: Iterator[tuple[str, Any, Any]]) -> Iterator[Mismatch]:
    for path, asked, there in lacks:
        yield Mismatch(where, f"{path} {asked!r}", repr(there))
