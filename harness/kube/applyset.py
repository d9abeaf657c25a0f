"""A set of objects that one tool applies, keeps as they are, and deletes again: server-side, under one label.

Nothing is written where nothing differs: an object whose content is what it was after the last look is not even asked
about. What is applied for the first time takes no field from anybody; what is in the set already takes its fields back.
A Namespace that somebody else made is used and never deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from harness.kube.applyset_member import ApplySetLook, Ident, Known, MemberWriter, title
from harness.kube.applyset_parent import PART_OF, ApplySetParent, GroupKind, kinds_of, namespaces_of
from harness.kube.client import Cluster, Json
from harness.kube.discovery import ServedKinds
from harness.kube.manifests import FIRST, rank
from harness.kube.objects import deleting, dig
from harness.kube.resources import CONFIG_MAP, CRD, NAMESPACE, Resource

Members = Mapping[Ident, tuple[Resource, Json]]


class ApplySet:
    """A set in one cluster. known: what the last look has found, which the next one brings up to date."""

    def __init__(self, cluster: Cluster, parent: ApplySetParent, manager: str, known: Known) -> None:
        self._cluster, self._parent, self._manager, self._known = cluster, parent, manager, known
        self._served = ServedKinds(cluster)
        self._writer = MemberWriter(cluster, parent, manager, known)
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
        wanted = dict(self._resolved(objects))
        kinds, spaces = {key[:2] for key in wanted}, {key[2] for key in wanted}
        # The parent names all kinds before there is an object of one: whatever happens, it can be found again.
        self._tell(parent, kinds | kinds_of(parent), spaces | namespaces_of(parent), labels)
        members = dict(self._members(kinds | kinds_of(parent), wanted))
        if not self._apply(wanted, members) or len(wanted) < len(objects):
            return self.look
        self._prune({key: one for key, one in members.items() if key not in wanted}, kept)
        for key in self._known.keys() - wanted.keys():
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
                said = self.look.waits if (group, obj["kind"]) in defined else self.look.failures
                said.append(f"{title(obj)}: the cluster does not serve {obj['apiVersion']} {obj['kind']}")
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

    def _members(self, kinds: Collection[GroupKind], wanted: Members) -> Iterator[tuple[Ident, tuple[Resource, Json]]]:
        """Yield what has the label of the set, in the versions in which it is wanted."""
        served = {key[:2]: resource for key, (resource, _) in wanted.items()}
        for group, kind in sorted(kinds):
            resource = served.get((group, kind)) or self._served.preferred(group, kind)
            if resource is None:  # its definition is gone, and all objects of it with that
                continue
            for obj in self._cluster.list(resource, labels=f"{PART_OF}={self._parent.id}").items:
                yield (group, kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]), (resource, obj)

    def _prune(self, extra: Members, kept: Callable[[str], bool]) -> None:
        for resource, obj in sorted(extra.values(), key=lambda one: -rank(one[1])):
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
