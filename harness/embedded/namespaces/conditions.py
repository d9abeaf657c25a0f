"""What a namespace's status says of its end. Types, reasons and texts as the controller manager's.

https://github.com/kubernetes/kubernetes/blob/master/pkg/controller/namespace/deletion/status_condition_utils.go
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from harness.embedded.namespaces.content import Metas
from harness.embedded.namespaces.kinds import ContentKind
from harness.kube.client import Json
from harness.kube.objects import now, with_condition

DISCOVERY, CONTENT = "NamespaceDeletionDiscoveryFailure", "NamespaceDeletionContentFailure"
REMAINING, FINALIZERS = "NamespaceContentRemaining", "NamespaceFinalizersRemaining"
PARSING = "NamespaceDeletionGroupVersionParsingFailure"  # of versions' names, which discovery gives apart here
DONE = {
    DISCOVERY: ("ResourcesDiscovered", "All resources successfully discovered"),
    PARSING: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    CONTENT: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    REMAINING: ("ContentRemoved", "All content successfully removed"),
    FINALIZERS: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
FAILED = {
    DISCOVERY: "DiscoveryFailed",
    CONTENT: "ContentDeletionFailed",
    REMAINING: "SomeResourcesRemain",
    FINALIZERS: "SomeFinalizersRemain",
}


def troubles(left: Mapping[ContentKind, Metas], stale: Collection[str], refused: str) -> dict[str, str]:
    """Return the conditions that hold a namespace, and their messages.

    Args:
        left: what it still has.
        stale: versions of groups of which the API cannot say what they have.
        refused: what the API said when something was to be deleted.
    """
    found: dict[str, str] = {}
    if stale:
        listed = ", ".join(f"{version}: stale GroupVersion discovery: {version}" for version in sorted(stale))
        lead = f"Discovery failed for some groups, {len(stale)} failing: unable to retrieve the complete list"
        found[DISCOVERY] = f"{lead} of server APIs: {listed}"
    if refused:
        found[CONTENT] = f"Failed to delete all resource types, 1 remaining: {refused}"
    if left:
        counts = {_said(kind): len(metas) for kind, metas in left.items()}
        parts = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(counts.items()))
        found[REMAINING] = f"Some resources are remaining: {parts}"
    holds = Counter(hold for metas in left.values() for meta in metas for hold in meta.get("finalizers") or ())
    if holds:
        parts = ", ".join(f"{hold} in {count} resource instances" for hold, count in sorted(holds.items()))
        found[FINALIZERS] = f"Some content in the namespace has finalizers remaining: {parts}"
    return found


def conditions(before: Iterable[Json], held: Mapping[str, str]) -> list[Json]:
    """Return the conditions of a namespace that troubles hold; those that did not change keep their time."""
    found = list(before)
    for kind, (reason, message) in DONE.items():
        new = {"type": kind, "status": "False", "reason": reason, "message": message, "lastTransitionTime": now()}
        if kind in held:
            new |= {"status": "True", "reason": FAILED[kind], "message": held[kind]}
        found = with_condition(found, new)
    return found


def _said(kind: ContentKind) -> str:
    resource = kind.resource
    return f"{resource.plural}.{resource.group}"  # "pods." for the group without a name, as upstream
