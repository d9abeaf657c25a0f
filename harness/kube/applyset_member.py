"""One object of a set: applied where it is missing or differs, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.kube.applyset_parent import PART_OF, ApplySetParent
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.informer import labels_of
from harness.kube.manifests import digest_of
from harness.kube.objects import deleting
from harness.kube.resources import NAMESPACE, Resource
from harness.kube.rollout import waits_for

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


class MemberWriter:
    """Applies objects of one set."""

    def __init__(self, cluster: Cluster, parent: ApplySetParent, manager: str, known: Known) -> None:
        self._cluster, self._manager, self._known = cluster, manager, known
        self._labels = {PART_OF: parent.id}

    def bring(self, key: Ident, resource: Resource, obj: Json, found: Json | None, look: ApplySetLook) -> None:
        """Have an object be as it is wanted; `found`: as it is in the set."""
        name, body = title(obj), obj
        if resource == NAMESPACE and found is None:
            found = self._cluster.get(NAMESPACE, key[3])
        if resource != NAMESPACE or found is None or self._in_set(found):
            meta = obj["metadata"]
            body = {**obj, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), **self._labels}}}
        wanted = digest_of([body])
        if found is None or not (deleting(found) or self._known.get(key) == remembered(wanted, found)):
            try:
                found = self._applied(key, resource, body, found, look)
            except ApiFailure as failure:
                look.failures.append(f"{name}: {failure.message}")
                return
        self._known[key] = remembered(wanted, found)
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
            said = (f"{cause.get('field')}: {cause.get('message')}" for cause in failure.causes)
            by = f" ({', '.join(said) or failure.message})"
            made = self._cluster.apply(resource, body, manager=self._manager)
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
