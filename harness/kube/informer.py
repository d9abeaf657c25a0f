"""A local copy of all objects of one kind, kept up to date by list and watch.

The Kubernetes client brings an informer too, but it wants the typed list functions; these objects are dictionaries.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Hashable, Mapping

from harness.kube.client import Cluster
from harness.kube.failures import Answer, ApiFailure, Json, Unreachable, failure_of
from harness.kube.objects import deleting, dig
from harness.kube.resources import Resource
from harness.until import Deadline, NotYet, grown, until

Key = tuple[str, str]
By = Callable[[Json], Hashable | None]


class Index:
    """Keys of objects by a value of theirs; not thread-safe."""

    def __init__(self, by: By) -> None:
        self._by = by
        self._keys: dict[Hashable, dict[Key, None]] = {}  # in the order in which they came, as in the copy itself
        self._values: dict[Key, Hashable] = {}

    def put(self, key: Key, obj: Json | None) -> None:
        """Take in an object as it is now; None: it is gone."""
        value, before = (self._by(obj) if obj is not None else None), self._values.get(key)
        if before is not None and before != value:
            del self._values[key], self._keys[before][key]
            if not self._keys[before]:
                del self._keys[before]
        if value is not None:
            self._values[key] = value
            self._keys.setdefault(value, {})[key] = None

    def keys(self, value: Hashable) -> Collection[Key]:
        """Return the keys of the objects that have a value."""
        return self._keys.get(value, ())


log = logging.getLogger(__name__)
Listener = Callable[[str, Json], None]
FIRST_RETRY_SECONDS = 0.3  # pacing, doubled with each failure
LAST_RETRY_SECONDS = 10.0  # the longest pause: an API server that is back is noticed within it


def key_of(obj: Json) -> Key:
    """Return (namespace, name) of an object; the namespace is "" for cluster-scoped kinds."""
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


class Informer:
    """Mirrors one kind; calls its listeners with ("ADDED" | "MODIFIED" | "DELETED", object) after each change.

    Objects handed out are shared: treat them as read-only, deepcopy before changing one.
    """

    def __init__(self, cluster: Cluster, resource: Resource, *, namespace: str | None = None, labels: str = "") -> None:
        """Mirror a kind: of one namespace or of all, and only what a label selector chooses."""
        self.resource = resource
        self._namespace = namespace
        self._labels = labels
        self.synced = threading.Event()
        self._cluster = cluster
        self._objects: dict[Key, Json] = {}
        self._indexes: dict[By, Index] = {}
        self._listeners: list[Listener] = []
        self._version = ""  # to watch from; "" to list anew
        self._failures = 0  # in a row
        self._failing: tuple[float, str] | None = None  # to list: since when, and what was said last
        self._seen = 0  # the newest version that list or watch brought
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def subscribe(self, listener: Listener) -> None:
        """Add a listener; do so before `start`. Listeners run on the watching thread and must be quick."""
        self._listeners.append(listener)

    def get(self, namespace: str, name: str) -> Json | None:
        """Return an object from the local copy."""
        with self._lock:
            return self._objects.get((namespace, name))

    def by(self, what: By, value: Hashable) -> list[Json]:
        """Return the objects of the local copy of which a function has a value, without looking at all of them.

        Args:
            what: pure, and one function for the life of the process; None for objects that nobody looks for.
        """
        with self._lock:
            index = self._indexes.get(what)
            if index is None:
                index = self._indexes[what] = Index(what)
                for key, obj in self._objects.items():
                    index.put(key, obj)
            return [self._objects[key] for key in index.keys(value)]

    def list(self, namespace: str | None = None) -> list[Json]:
        """Return all objects of the local copy (of one namespace, or of all)."""
        with self._lock:
            return [o for (ns, _), o in self._objects.items() if namespace is None or ns == namespace]

    def _put(self, key: Key, obj: Json | None) -> None:
        """Replace an object of the local copy, or take it away (None); hold the lock."""
        if obj is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = obj
        for index in self._indexes.values():
            index.put(key, obj)

    def observe(self, obj: Json) -> None:
        """Take in an object that the API just answered a write with, so that the next look does not see it older.

        Listeners are not told: the watch will bring the same change. An answer that is older than what the watch
        already brought is dropped, and so is one of an object that the watch saw go.
        """
        key, version = key_of(obj), revision_of(obj)
        with self._lock:
            known = self._objects.get(key)
            if revision_of(known) < version and (known is not None or version > self._seen):
                self._put(key, obj)

    def merge(self, obj: Json, patch: Json, *, subresource: str | None = None) -> Json:
        """Merge a patch into an object as it was seen, and take in the answer.

        Raises:
            ApiFailure: above all a conflict: somebody has changed the object since.
        """
        meta = {"resourceVersion": obj["metadata"]["resourceVersion"], **patch.get("metadata", {})}
        namespace, name = key_of(obj)
        body = {**patch, "metadata": meta}
        written = self._cluster.merge(self.resource, name, body, namespace, subresource=subresource)
        if not deleting(written) or written["metadata"].get("finalizers"):  # else it is the last word of what is gone
            self.observe(written)
        return written

    def merge_status(self, obj: Json, status: Json) -> Json:
        """Give keys of an object's status other values, where they have others; return the object. Raises: as merge."""
        patch = {name: value for name, value in status.items() if dig(obj, "status", name) != value}
        return self.merge(obj, {"status": patch}, subresource="status") if patch else obj

    def replace_status(self, obj: Json, status: Json) -> None:
        """Give an object as it was seen another status as a whole. Raises: as merge."""
        self.observe(self._cluster.replace(self.resource, {**obj, "status": status}, subresource="status"))

    def start(self) -> None:
        """Start watching on a daemon thread; `synced` is set after the first list."""
        self._thread = threading.Thread(target=self._run, name=f"informer-{self.resource.plural}", daemon=True)
        self._thread.start()

    @property
    def deaf(self) -> bool:
        """Tell whether it was started and sees no change any more: a bug ended its thread."""
        return self._thread is not None and not self._thread.is_alive() and not self._stopping.is_set()

    def trouble(self, seconds: float) -> str:
        """Return why the kind could not be listed for longer than so many seconds, "" where that is not so."""
        failing = self._failing
        return failing[1] if failing is not None and time.monotonic() - failing[0] > seconds else ""

    def stop(self) -> None:
        """Stop watching at the next event or time-out."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if not self._version:
                    self._version = self._relist()
                    self._failing = None
                self._follow()
                self._failures = 0
            except (ApiFailure, Unreachable) as failure:
                log.debug("watch of %s broke: %s", self.resource.plural, failure)
                if not failure.passing:  # 410 above all: the version is too old to go on from
                    self._version = ""
                if not self._version:
                    self._failing = self._failing[0] if self._failing else time.monotonic(), str(failure)
                self._failures += 1
                self._stopping.wait(grown(FIRST_RETRY_SECONDS, self._failures, LAST_RETRY_SECONDS))

    def _relist(self) -> str:
        listing = self._cluster.list(self.resource, self._namespace, labels=self._labels)
        fresh = {key_of(o): o for o in listing.items}
        with self._lock:
            old, self._objects = self._objects, dict(fresh)
            self._indexes.clear()
            self._seen = max(self._seen, _number(listing.resource_version))
        for key, gone in old.items():
            if key not in fresh:
                self._tell("DELETED", gone)
        for key, obj in fresh.items():
            before = old.get(key)
            if before is None:
                self._tell("ADDED", obj)
            elif before["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
                self._tell("MODIFIED", obj)
        self.synced.set()
        return listing.resource_version

    def _follow(self) -> None:
        """Apply one watch's events; each moves the version from which the next watch goes on.

        Raises:
            ApiFailure: the server ended the watch with an error.  Unreachable: it was cut.
        """
        events = self._cluster.watch(
            self.resource, self._namespace, resource_version=self._version, labels=self._labels
        )
        for kind, obj in events:
            if kind == "ERROR":
                code = int(obj.get("code") or 410)
                raise failure_of(Answer(code, obj, ()), f"WATCH {self.resource.path()}")
            self._version = obj["metadata"]["resourceVersion"]
            self._failures = 0
            if kind != "BOOKMARK":
                self._store(kind, obj)
            if self._stopping.is_set():
                break

    def _store(self, kind: str, obj: Json) -> None:
        key, version = key_of(obj), revision_of(obj)
        with self._lock:
            self._seen = max(self._seen, version)
            if revision_of(self._objects.get(key)) > version:
                pass  # a later write's answer is already here
            else:
                self._put(key, None if kind == "DELETED" else obj)
        self._tell(kind, obj)

    def _tell(self, kind: str, obj: Json) -> None:
        for listener in self._listeners:
            listener(kind, obj)


def revision_of(obj: Json | None) -> int:
    """Return an object's resourceVersion as a number (they are comparable within one kind), -1 for no object."""
    return -1 if obj is None else _number(obj["metadata"].get("resourceVersion", ""))


def _number(version: str) -> int:
    return int(version) if version.isdigit() else 0


def labels_of(obj: Json) -> Mapping[str, str]:
    """Return an object's labels, empty when it has none."""
    labels: Mapping[str, str] = obj["metadata"].get("labels") or {}
    return labels


SYNC_SECONDS = 30.0  # first lists of an API server on this host; times the factor


class Informers:
    """One informer per kind, shared by all parts."""

    def __init__(self, cluster: Cluster, namespace: str | None = None) -> None:
        """Mirror one cluster: of namespaced kinds what is in one namespace, or all."""
        self._cluster = cluster
        self._namespace = namespace
        self._of: dict[tuple[Resource, str], Informer] = {}
        self._started = False

    def of(self, resource: Resource, *, labels: str = "") -> Informer:
        """Return the informer of a kind, or of a selector's part of it; all must be asked for before `start`."""
        key = (resource, labels)
        if key not in self._of:
            if self._started:
                raise RuntimeError(f"informer of {resource.plural} asked for after the start")
            namespace = self._namespace if resource.namespaced else None
            self._of[key] = Informer(self._cluster, resource, namespace=namespace, labels=labels)
        return self._of[key]

    def known(self, resource: Resource) -> list[Json]:
        """Return what the local copy has of a kind; nothing of one that nobody asked for."""
        informer = self._of.get((resource, ""))
        return informer.list() if informer is not None else []

    def start(self) -> None:
        """Start watching all kinds that were asked for."""
        self._started = True
        for informer in self._of.values():
            informer.start()

    def wait(self, stretch: float = 1.0) -> None:
        """Return when every kind had its first list.

        Raises:
            TimedOut: one did not come within SYNC_SECONDS, times the factor.
        """
        until(
            self._missing, deadline=Deadline.after(SYNC_SECONDS * stretch), what="all informers to sync", interval=0.02
        )

    def _missing(self) -> bool | NotYet:
        late = [r.plural for (r, _), informer in self._of.items() if not informer.synced.is_set()]
        return NotYet(f"no list yet of {', '.join(late)}") if late else True

    def deaf(self) -> list[str]:
        """Return the kinds of whose changes nothing is seen any more, though they were to be watched."""
        return [resource.plural for (resource, _), informer in self._of.items() if informer.deaf]

    def stop(self) -> None:
        """Stop watching."""
        for informer in self._of.values():
            informer.stop()
