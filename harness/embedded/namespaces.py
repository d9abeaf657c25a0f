"""The end of namespaces, in the place of the controller manager: their content goes first.

https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery

All of them are looked at together, so that a thousand cost little more lists than one. A namespace is over when the
API has shown no object of any kind in it, after everything that was found before is gone.

Those of cells are looked at at once, others after as long as Kubernetes waits: `kubectl delete -k` deletes a
namespace and then what is in it, and fails if that is gone.

Conditions have the types, reasons and texts of the controller manager's:
https://github.com/kubernetes/kubernetes/blob/master/pkg/controller/namespace/deletion/status_condition_utils.go
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import product

from harness.embedded.context import Context
from harness.kube.client import ApiFailure, Cluster, Json, Unreachable
from harness.kube.informer import Key
from harness.kube.objects import deleting, dig, now, with_condition
from harness.kube.reconcile import Controller
from harness.kube.resources import NAMESPACE, POD, Resource
from harness.model import LABEL_CELL

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
NEEDED = frozenset({"list", "delete"})
COLLECTION = "deletecollection"
STALE = "Stale"
EVENTS_AGAIN = "events.k8s.io"  # the same objects as v1's events
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json"
FEW = 2  # namespaces: for more, one list of all namespaces' objects costs less than one for each
SIDE_BY_SIDE = 8  # requests
BACKGROUND: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
Metas = list[Json]  # `metadata` of objects


@dataclass(frozen=True)
class ContentKind:
    """One kind. `collection`: all of its objects in a namespace can be deleted by one request."""

    resource: Resource
    collection: bool


@dataclass(frozen=True)
class Served:
    """What an API serves in namespaces, and the versions of groups of which it cannot say what they have."""

    kinds: tuple[ContentKind, ...]
    stale: tuple[str, ...]


def served(cluster: Cluster) -> Served:
    """Ask an API what its namespaces may have: each kind once, in the version that its group prefers."""
    groups: list[Json] = []
    for path in ("/api", "/apis"):
        groups += cluster.object("GET", path, accept=AGGREGATED).get("items") or []
    kinds: dict[tuple[str, str], ContentKind] = {}
    stale: list[str] = []
    for group in groups:
        name = group.get("metadata", {}).get("name", "")
        for version in group.get("versions") or []:
            if version.get("freshness") == STALE:
                stale.append(f"{name}/{version['version']}")
            if name != EVENTS_AGAIN:
                for kind in _kinds(name, version):
                    kinds.setdefault((name, kind.resource.plural), kind)
    return Served(tuple(kinds.values()), tuple(stale))


def _kinds(group: str, version: Json) -> Iterator[ContentKind]:
    for entry in version.get("resources") or []:
        verbs = frozenset(entry.get("verbs") or ())
        if entry.get("scope") == "Namespaced" and verbs >= NEEDED:
            kind = (entry.get("responseKind") or {}).get("kind", "")
            yield ContentKind(Resource(group, version["version"], entry["resource"], kind), COLLECTION in verbs)


Unlisted = dict[str, dict[ContentKind, str]]  # why a kind could not be listed, by namespace
Failed = tuple[ContentKind, str | None, str]
Content = dict[str, dict[ContentKind, Metas]]  # by namespace; what has no object of a kind lacks it


class Contents:
    """Looks at what namespaces have, and deletes it; many requests side by side."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="namespaces")

    def look(self, kinds: Iterable[ContentKind], namespaces: Collection[str]) -> tuple[Content, Unlisted]:
        """Return the objects of some kinds that namespaces have, and what the API said where it could not list them.

        What fails for all namespaces, because of one object somewhere, is asked of each.

        Raises:
            Unreachable: nobody answers.
        """
        content: Content = defaultdict(dict)
        each = tuple(namespaces) if len(namespaces) <= FEW else (None,)
        failed = self._listed(product(kinds, each), content)
        if each == (None,):
            failed = self._listed(product(dict.fromkeys(kind for kind, _, _ in failed), namespaces), content)
        unlisted: Unlisted = defaultdict(dict)
        for kind, namespace, reason in failed:
            unlisted[str(namespace)][kind] = reason
        return {name: content[name] for name in namespaces if name in content}, unlisted

    def _listed(self, pairs: Iterable[tuple[ContentKind, str | None]], content: Content) -> list[Failed]:
        """Add what lists show of kinds in namespaces (None: in all), and return what could not be listed, and why."""
        failed: list[Failed] = []
        for kind, namespace, metas, reason in self._pool.map(lambda pair: self._list(*pair), pairs):
            if reason:
                failed.append((kind, namespace, reason))
            for meta in metas:
                content[meta["namespace"]].setdefault(kind, []).append(meta)
        return failed

    def _list(self, kind: ContentKind, namespace: str | None) -> tuple[ContentKind, str | None, Metas, str]:
        try:
            answer = self._cluster.object("GET", kind.resource.path(namespace), accept=METADATA)
        except ApiFailure as failure:
            # not served any more, since a definition was deleted meanwhile, or without lists
            gone = failure.not_found or failure.code == HTTPStatus.METHOD_NOT_ALLOWED
            return kind, namespace, [], "" if gone else f"{kind.resource.plural}: {failure.message}"
        return kind, namespace, [item["metadata"] for item in answer.get("items") or []], ""

    def delete(self, content: Mapping[str, Mapping[ContentKind, Metas]]) -> dict[str, str]:
        """Ask for the deletion of what is not being deleted yet; return what the API said of refusals, by namespace."""
        asked = [
            (namespace, kind, [meta["name"] for meta in metas if "deletionTimestamp" not in meta])
            for namespace, kinds in content.items()
            for kind, metas in kinds.items()
        ]
        requests = [request for request in asked if request[2]]
        answers = zip(requests, self._pool.map(lambda request: self._delete(*request), requests), strict=True)
        return {namespace: reason for (namespace, _, _), reason in answers if reason}

    def _delete(self, namespace: str, kind: ContentKind, names: Collection[str]) -> str:
        if kind.collection and len(names) > 1:
            reason = self._asked(kind, kind.resource.path(namespace))
            if reason is not None:
                return reason
        answers = [self._asked(kind, kind.resource.path(namespace, name)) for name in names]
        return next(filter(None, answers), "")

    def _asked(self, kind: ContentKind, path: str) -> str | None:
        """Ask for a deletion; return why it was refused, "" when it was not, None when it is not a way to delete."""
        try:
            self._cluster.request("DELETE", path, body=BACKGROUND)
        except ApiFailure as failure:
            if failure.code == HTTPStatus.METHOD_NOT_ALLOWED:
                return None
            return "" if failure.not_found else f"{kind.resource.plural}: {failure.message}"
        except Unreachable as slow:  # a webhook that takes longer than an answer may: others go on
            return f"{kind.resource.plural}: {slow.summary}"
        return ""

    def stop(self) -> None:
        """Begin no further request."""
        self._pool.shutdown(wait=False, cancel_futures=True)


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
log = logging.getLogger(__name__)
ALL: Key = ("", "all")
FINALIZER = "kubernetes"  # of a namespace's spec: whoever empties it takes it off
PAUSE_SECONDS = 5.0  # pkg/controller/namespace, namespaceDeletionGracePeriod
GATHER_SECONDS = 0.05  # until those that are deleted together are known
FIRST_PAUSE, LAST_PAUSE = 0.1, 2.0  # between looks at what is slow to go
TOLD_SECONDS = 1.0  # after which the status says what a namespace waits for
PODS = ContentKind(POD, collection=True)


@dataclass
class Ending:
    """One namespace that is to end.

    due: when to look at it.  left: the kinds that it had at the last look; None for all kinds.  pods: it may still have
    pods, which go first.
    """

    uid: str
    due: float
    pods: bool = True
    left: frozenset[ContentKind] | None = None
    began: float = field(default_factory=time.monotonic)
    pause: float = FIRST_PAUSE

    def wait(self) -> None:
        """Look again soon, and less and less soon."""
        self.due = time.monotonic() + self.pause
        self.pause = min(LAST_PAUSE, self.pause * 1.5)


class Namespaces:
    """Empties and ends namespaces."""

    def __init__(self, context: Context, cluster: Cluster) -> None:
        """Act as the user of a client, whom webhooks and roles know; see what the context sees."""
        self._cluster = cluster
        self._contents = Contents(cluster)
        self._namespaces = context.informers.of(NAMESPACE)
        self._endings: dict[str, Ending] = {}
        self._ended: set[str] = set()
        self.controller = Controller("namespaces", self.reconcile, workers=1)
        self._namespaces.subscribe(self._changed)
        context.on_stop(self._contents.stop)

    def _changed(self, _: str, namespace: Json) -> None:
        if deleting(namespace):
            self.controller.queue.add(ALL, delay=GATHER_SECONDS)

    def reconcile(self, _: Key) -> float | None:
        """Look at all namespaces that are due; return seconds until the next one is."""
        self._take_note()
        due = {name: ending for name, ending in self._endings.items() if ending.due <= time.monotonic()}
        if due:
            self._work(due)
        if not self._endings:
            return None
        return max(0.0, min(ending.due for ending in self._endings.values()) - time.monotonic())

    def _take_note(self) -> None:
        """Know of the namespaces that are being deleted, and forget those that are gone."""
        uids = {namespace["metadata"]["uid"]: namespace for namespace in self._namespaces.list()}
        self._ended &= uids.keys()
        going = {
            namespace["metadata"]["name"]: namespace
            for uid, namespace in uids.items()
            if deleting(namespace) and FINALIZER in _finalizers(namespace) and uid not in self._ended
        }
        self._endings = {
            name: known
            if (known := self._endings.get(name)) and known.uid == namespace["metadata"]["uid"]
            else _beginning(namespace)
            for name, namespace in going.items()
        }

    def _work(self, due: Mapping[str, Ending]) -> None:
        self._look([PODS], {name: ending for name, ending in due.items() if ending.pods}, self._without_pods)
        rest = {name: ending for name, ending in due.items() if not ending.pods}
        partly = {name: ending for name, ending in rest.items() if ending.left is not None}
        kinds = frozenset[ContentKind]().union(*(ending.left or () for ending in partly.values()))
        self._look(kinds, partly, self._without_known)
        whole = {name: ending for name, ending in rest.items() if ending.left is None}
        if whole:
            kinds_served = served(self._cluster)
            self._look(kinds_served.kinds, whole, self._without_anything, kinds_served.stale)

    def _look(
        self,
        kinds: Iterable[ContentKind],
        endings: Mapping[str, Ending],
        empty: Callable[[str, Ending], None],
        stale: tuple[str, ...] = (),
    ) -> None:
        """Look at some kinds in namespaces, delete what is there, and do with each that has nothing what is said."""
        if not endings:
            return
        content, unlisted = self._contents.look(kinds, endings.keys())
        refused = self._contents.delete(content)
        for name, ending in endings.items():
            left, unknown = content.get(name, {}), unlisted.get(name, {})
            reason = refused.get(name) or next(iter(unknown.values()), "")
            if not (left or stale or unknown):
                empty(name, ending)
                continue
            if not ending.pods:
                ending.left = frozenset((*left, *unknown)) or None
            ending.wait()
            self._tell(name, ending, left, troubles(left, stale, reason))

    def _without_pods(self, _: str, ending: Ending) -> None:
        ending.pods = False

    def _without_known(self, _: str, ending: Ending) -> None:
        ending.left = None

    def _without_anything(self, name: str, ending: Ending) -> None:
        namespace = self._current(name, ending)
        if namespace is None:
            return
        kept = [finalizer for finalizer in _finalizers(namespace) if finalizer != FINALIZER]
        body = {**namespace, "spec": {**namespace["spec"], "finalizers": kept}}
        if self._write("finalize", name, body):
            self._ended.add(ending.uid)
            del self._endings[name]
        else:
            ending.wait()

    def _tell(self, name: str, ending: Ending, left: Mapping[ContentKind, Metas], held: Mapping[str, str]) -> None:
        """Write into a namespace's status what holds it, unless it may be over in a moment."""
        namespace = self._current(name, ending)
        if namespace is None or time.monotonic() - ending.began < TOLD_SECONDS:
            return
        before = dig(namespace, "status", "conditions") or []
        after = conditions(before, held)
        if after != before:
            self._write("status", name, {**namespace, "status": {**namespace["status"], "conditions": after}})

    def _current(self, name: str, ending: Ending) -> Json | None:
        namespace = self._namespaces.get("", name)
        return namespace if namespace is not None and namespace["metadata"]["uid"] == ending.uid else None

    def _write(self, subresource: str, name: str, body: Json) -> bool:
        """Replace a part of a namespace; False when somebody else changed it meanwhile, or it is refused."""
        try:
            self._cluster.object("PUT", NAMESPACE.path(None, name, subresource), body=body)
        except ApiFailure as failure:
            if failure.not_found:
                return True
            if not failure.conflict:
                log.warning("namespace %s: %s", name, failure)
            return False
        return True


def _beginning(namespace: Json) -> Ending:
    """Return what is to be done with a namespace: at once with a cell's, which nobody else empties."""
    labels = namespace["metadata"].get("labels") or {}
    pause = 0.0 if LABEL_CELL in labels else PAUSE_SECONDS
    return Ending(namespace["metadata"]["uid"], time.monotonic() + pause)


def _finalizers(namespace: Json) -> list[str]:
    return list(dig(namespace, "spec", "finalizers") or ())


def troubles(left: Mapping[ContentKind, Metas], stale: Collection[str], refused: str) -> dict[str, str]:
    """Return the conditions that hold a namespace, and their messages.

    Args:
        left: what it still has.
        stale: versions of groups of which the API cannot say what they have.
        refused: what the API said when something was to be deleted.
    """
    reasons: dict[str, str] = {}
    if stale:
        listed = ", ".join(f"{version}: stale GroupVersion discovery: {version}" for version in sorted(stale))
        lead = f"Discovery failed for some groups, {len(stale)} failing: unable to retrieve the complete list"
        reasons[DISCOVERY] = f"{lead} of server APIs: {listed}"
    if refused:
        reasons[CONTENT] = f"Failed to delete all resource types, 1 remaining: {refused}"
    if left:
        counts = {_said(kind): len(metas) for kind, metas in left.items()}
        parts = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(counts.items()))
        reasons[REMAINING] = f"Some resources are remaining: {parts}"
    holds = Counter(hold for metas in left.values() for meta in metas for hold in meta.get("finalizers") or ())
    if holds:
        parts = ", ".join(f"{hold} in {count} resource instances" for hold, count in sorted(holds.items()))
        reasons[FINALIZERS] = f"Some content in the namespace has finalizers remaining: {parts}"
    return reasons


def conditions(before: Iterable[Json], held: Mapping[str, str]) -> list[Json]:
    """Return the conditions of a namespace that troubles hold; those that did not change keep their time."""
    merged = list(before)
    for kind, (reason, message) in DONE.items():
        new = {"type": kind, "status": "False", "reason": reason, "message": message, "lastTransitionTime": now()}
        if kind in held:
            new |= {"status": "True", "reason": FAILED[kind], "message": held[kind]}
        merged = with_condition(merged, new)
    return merged


def _said(kind: ContentKind) -> str:
    resource = kind.resource
    return f"{resource.plural}.{resource.group}"  # "pods." for the group without a name, as upstream
