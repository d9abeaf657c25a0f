"""A set of objects that one tool applies, keeps as they are, and deletes again: server-side, under one label.

Nothing is written where nothing differs: an object whose content is what it was after the last look is not even asked
about. What is applied for the first time takes no field from anybody; what is in the set already takes its fields back.
A Namespace that somebody else made is used and never deleted.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.kube.client import Cluster, ServedKinds
from harness.kube.failures import ApiFailure, Json
from harness.kube.informer import labels_of
from harness.kube.manifests import FIRST, digest_of, rank
from harness.kube.objects import deleting, dig
from harness.kube.resources import CONFIG_MAP, CRD, NAMESPACE, Resource
from harness.kube.rollout import waits_for

DOMAIN = "applyset.kubernetes.io"
ID, PART_OF, TOOLING = f"{DOMAIN}/id", f"{DOMAIN}/part-of", f"{DOMAIN}/tooling"
KINDS, NAMESPACES = f"{DOMAIN}/contains-group-kinds", f"{DOMAIN}/additional-namespaces"
GroupKind = tuple[str, str]


@dataclass(frozen=True)
class ApplySetParent:
    """A ConfigMap that stands for a set.

    tooling: who keeps the set, as NAME/VERSION.  owner: reference to what the set goes with; None: it stays.
    """

    name: str
    namespace: str
    tooling: str
    owner: Json | None = None

    @property
    def id(self) -> str:
        """Return the value of the label of everything in the set."""
        named = f"{self.name}.{self.namespace}.{CONFIG_MAP.kind}.{CONFIG_MAP.group}"
        digest = hashlib.sha256(named.encode()).digest()
        return f"applyset-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}-v1"

    def body(self, kinds: Collection[GroupKind], namespaces: Collection[str], labels: dict[str, str]) -> Json:
        """Return the ConfigMap of a set that has such kinds, in such namespaces."""
        made = CONFIG_MAP.manifest(self.name, self.namespace, labels={**labels, ID: self.id})
        made["metadata"]["annotations"] = {
            TOOLING: self.tooling,
            KINDS: ",".join(sorted(f"{kind}.{group}" if group else kind for group, kind in kinds)),
            NAMESPACES: ",".join(sorted({*namespaces} - {self.namespace, ""})),
        }
        if self.owner is not None:
            made["metadata"]["ownerReferences"] = [self.owner]
        return made


def kinds_of(parent: Json | None) -> set[GroupKind]:
    """Return the kinds that a set has or may have."""
    annotation = dig(parent, "metadata", "annotations", KINDS) or ""
    words = (word.partition(".") for word in annotation.split(",") if word)
    return {(group, kind) for kind, _, group in words}


def namespaces_of(parent: Json | None) -> set[str]:
    """Return the namespaces that a set has or may have objects in, besides its parent's."""
    return {word for word in (dig(parent, "metadata", "annotations", NAMESPACES) or "").split(",") if word}


Ident = tuple[str, str, str, str]  # group, kind, namespace ("" for none), name
# Of each object: the digests of what was wanted and of what was there then, and its uid.
Known = dict[Ident, tuple[str, str, str]]
CHANGING = ("resourceVersion", "managedFields")  # of metadata, whatever is written


@dataclass
class ApplySetLook:
    """What one look at a set has found and done.

    failures: what could not be applied, in the API's words.  waits: what is not there yet, or does not work yet.
    changed: what was made, or changed, and by whom it had been changed.  left: what is still to go.
    """

    failures: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


Leave = Callable[[Json, Json], Json]


def leave_nothing(wanted: Json, _: Json) -> Json:
    """Take all fields back."""
    return wanted


class MemberWriter:
    """Applies objects of one set. leave: takes out of what is wanted what is left to whoever changed it there."""

    def __init__(
        self, cluster: Cluster, parent: ApplySetParent, manager: str, known: Known, leave: Leave = leave_nothing
    ) -> None:
        self._cluster, self._manager, self._known, self._leave = cluster, manager, known, leave
        self._labels = {PART_OF: parent.id}

    def bring(self, key: Ident, resource: Resource, obj: Json, found: Json | None, look: ApplySetLook) -> None:
        """Have an object be as it is wanted; `found`: as it is in the set."""
        name, body = title(obj), obj
        if resource == NAMESPACE and found is None:
            found = self._cluster.get(NAMESPACE, key[3])
        if resource != NAMESPACE or found is None or self._in_set(found):
            meta = obj["metadata"]
            body = {**obj, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), **self._labels}}}
        members_wanted = digest_of([body])
        if found is None or not (deleting(found) or self._known.get(key) == remembered(members_wanted, found)):
            try:
                found = self._applied(key, resource, body, found, look)
            except ApiFailure as failure:
                look.failures.append(f"{name}: {failure.message}")
                return
        self._known[key] = remembered(members_wanted, found)
        if why := waits_for(found):
            look.waits.append(f"{name}: {why}")

    def _applied(self, key: Ident, resource: Resource, body: Json, found: Json | None, look: ApplySetLook) -> Json:
        by = ""
        try:
            made = self._cluster.apply(resource, body, manager=self._manager, force=False)
        except ApiFailure as failure:
            there = self._cluster.get(resource, body["metadata"]["name"], body["metadata"].get("namespace"))
            if not failure.conflict or there is None or not self._owned(key, there):
                raise
            causes = (f"{cause.get('field')}: {cause.get('message')}" for cause in failure.causes)
            by = f" ({', '.join(causes) or failure.message})"
            made = self._cluster.apply(resource, self._leave(body, there), manager=self._manager)
        if found is None or content_of(made) != content_of(found):
            look.changed.append(f"{title(body)}{by}")
        return made

    def _in_set(self, obj: Json) -> bool:
        return self._labels.items() <= labels_of(obj).items()

    def _owned(self, key: Ident, obj: Json) -> bool:
        """Tell whether an object was applied by this set before, even if somebody took its label and all fields."""
        managers = (entry.get("manager") for entry in obj["metadata"].get("managedFields") or [])
        known = self._known.get(key, ("", "", ""))[2] == obj["metadata"]["uid"]
        return known or self._in_set(obj) or self._manager in managers


def remembered(wanted: str, obj: Json) -> tuple[str, str, str]:
    """Return what is remembered of an object."""
    return wanted, content_of(obj), str(obj["metadata"].get("uid", ""))


def content_of(obj: Json) -> str:
    """Return a digest of what people and tools give an object, without what is told of it."""
    meta = {name: value for name, value in obj["metadata"].items() if name not in CHANGING}
    return digest_of([{**obj, "metadata": meta, "status": None}])


def title(obj: Json) -> str:
    """Return what an object is called in messages."""
    meta = obj["metadata"]
    return f"{obj['kind']} {'/'.join(filter(None, (meta.get('namespace'), meta['name'])))}"


Members = Mapping[Ident, tuple[Resource, Json]]


class ApplySet:
    """A set in one cluster.

    known: what the last look has found, which the next one brings up to date.  leave: as of MemberWriter.
    """

    def __init__(
        self, cluster: Cluster, parent: ApplySetParent, manager: str, known: Known, leave: Leave = leave_nothing
    ) -> None:
        self._cluster, self._parent, self._manager, self._known = cluster, parent, manager, known
        self._served = ServedKinds(cluster)
        self._writer = MemberWriter(cluster, parent, manager, known, leave)
        self.look = ApplySetLook()

    def bring(self, objects: Sequence[Json], labels: dict[str, str], kept: Callable[[str], bool]) -> ApplySetLook:
        """Apply objects that are missing or differ, and delete what is in the set and not among them.

        Args:
            objects: in the order of `rank`; with none, the set itself goes once all of it has gone.
            labels: of the set's parent.  kept: tells whether others need a namespace; it stays for now.
        """
        parent = self._cluster.get(CONFIG_MAP, self._parent.name, self._parent.namespace)
        if parent is None and not objects:
            return self.look
        members_wanted = dict(self._resolved(objects))
        kinds, spaces = {key[:2] for key in members_wanted}, {key[2] for key in members_wanted}
        # The parent names all kinds before there is an object of one: whatever happens, it can be found again.
        known = spaces | namespaces_of(parent)
        self._tell(parent, kinds | kinds_of(parent), known, labels)
        members = dict(self._members(kinds | kinds_of(parent), members_wanted, known))
        if not self._apply(members_wanted, members) or len(members_wanted) < len(objects):
            return self.look
        self._prune({key: one for key, one in members.items() if key not in members_wanted}, kept)
        for key in self._known.keys() - members_wanted.keys():
            del self._known[key]
        if not self.look.left:
            if objects:
                self._tell(self._cluster.get(CONFIG_MAP, *self._place), kinds, spaces, labels)
            else:
                self._cluster.delete(CONFIG_MAP, *self._place)
        return self.look

    @property
    def _place(self) -> tuple[str, str]:
        return self._parent.name, self._parent.namespace

    def _resolved(self, objects: Sequence[Json]) -> Iterator[tuple[Ident, tuple[Resource, Json]]]:
        """Yield objects with how their kinds are served; say of the others that they are not."""
        defined = {(dig(obj, "spec", "group"), dig(obj, "spec", "names", "kind")) for obj in objects}
        for obj in objects:
            meta, group = obj["metadata"], str(obj["apiVersion"]).rpartition("/")[0]
            resource = self._served.of(obj["apiVersion"], obj["kind"])
            if resource is None:
                target = self.look.waits if (group, obj["kind"]) in defined else self.look.failures
                target.append(f"{title(obj)}: the cluster does not serve {obj['apiVersion']} {obj['kind']}")
                continue
            space = (meta.get("namespace") or "default") if resource.namespaced else ""
            place = {**meta, "namespace": space} if space else {n: v for n, v in meta.items() if n != "namespace"}
            yield (group, obj["kind"], space, meta["name"]), (resource, {**obj, "metadata": place})

    def _apply(self, wanted: Members, members: Members) -> bool:
        """Apply what is wanted, first what others lie in or are made of; tell whether all of it was taken."""
        for first in (True, False):
            for key, (resource, obj) in wanted.items():
                if (obj["kind"] in FIRST) == first:
                    found = members.get(key)
                    self._writer.bring(key, resource, obj, found[1] if found is not None else None, self.look)
            if first and any(word.startswith((CRD.kind, NAMESPACE.kind)) for word in self.look.waits):
                return False
        return not self.look.failures

    def _members(
        self, kinds: Collection[GroupKind], wanted: Members, spaces: Collection[str]
    ) -> Iterator[tuple[Ident, tuple[Resource, Json]]]:
        """Yield what has the label of the set, in the versions in which it is wanted.

        Only the set's own namespaces are looked at: whoever applies it may have no right to others.
        """
        places = sorted({self._parent.namespace, *spaces} - {""})
        served = {key[:2]: resource for key, (resource, _) in wanted.items()}
        for group, kind in sorted(kinds):
            resource = served.get((group, kind)) or self._served.preferred(group, kind)
            if resource is None:  # its definition is gone, and all objects of it with that
                continue
            for place in places if resource.namespaced else [None]:
                for obj in self._cluster.list(resource, place, labels=f"{PART_OF}={self._parent.id}").items:
                    yield (group, kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]), (resource, obj)

    def _prune(self, extra: Members, kept: Callable[[str], bool]) -> None:
        for resource, obj in sorted(extra.values(), key=lambda member: -rank(member[1])):
            meta = obj["metadata"]
            self.look.left.append(title(obj))
            if not deleting(obj) and not (resource == NAMESPACE and kept(meta["name"])):
                self._cluster.delete(resource, meta["name"], meta.get("namespace"))

    def _tell(
        self, parent: Json | None, kinds: Collection[GroupKind], spaces: Collection[str], labels: dict[str, str]
    ) -> None:
        """Write the parent, if it says something else."""
        body = self._parent.body(kinds, spaces, labels)
        parts = ("labels", "annotations")
        if any(body["metadata"][part] != (dig(parent, "metadata", part) or {}) for part in parts):
            self._cluster.apply(CONFIG_MAP, body, manager=self._manager)
