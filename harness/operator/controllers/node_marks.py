"""Labels and taints of a guest's Node: which ones its set wants, and what has to be written so that it has them; pure.

Labels are applied server-side by a manager of their own: what it does not apply any more goes, what others set stays.
The list of taints is one field to an API server, whoever wrote it. So an annotation says which of them are ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.kube.client import Json
from harness.kube.informer import labels_of
from harness.kube.objects import dig
from harness.operator.api.resources import GROUP

MANAGER = "vmatrix-nodes"
MACHINE_LABEL = f"{GROUP}/machine"
TAINTS = f"{GROUP}/taints"  # annotation of a Node: the taints that were set here, as KEY=VALUE:EFFECT
LABEL_LENGTH = 63


@dataclass(frozen=True)
class NodeMarks:
    """What a Node has because its Machine is in a set."""

    labels: Mapping[str, str]
    taints: tuple[Json, ...] = ()

    @staticmethod
    def of(machine: Json, machine_set: Json | None) -> NodeMarks | None:
        """Return what the Node of a Machine is to have; None where its set is not known, and nothing is changed."""
        if machine_set is None:
            return None
        name = machine["metadata"]["name"]
        own = {MACHINE_LABEL: name} if len(name) <= LABEL_LENGTH else {}
        labels = {**(dig(machine_set, "spec", "labels") or {}), **own}
        return NodeMarks(labels, tuple(_plain(taint) for taint in dig(machine_set, "spec", "taints") or ()))


def labels_to_apply(node: Json, marks: NodeMarks) -> Json | None:
    """Return what to apply so that a Node has its labels, None where it has them and none too many of ours.

    It names the Node's UID: applied to a Node that is gone, it makes no new one.
    """
    found = labels_of(node)
    if all(found.get(key) == value for key, value in marks.labels.items()) and _ours(node) == set(marks.labels):
        return None
    meta = {name: node["metadata"][name] for name in ("name", "uid")}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {**meta, "labels": dict(marks.labels)}}


def taints_to_merge(node: Json, marks: NodeMarks) -> Json | None:
    """Return the patch after which a Node has its taints, None where it has them and none too many of ours."""
    found = [dict(taint) for taint in dig(node, "spec", "taints") or ()]
    annotation = (node["metadata"].get("annotations") or {}).get(TAINTS)
    before, wanted = set((annotation or "").split(",")) - {""}, {_text(taint) for taint in marks.taints}
    mine = {_place(taint) for taint in marks.taints}
    others = [taint for taint in found if _text(taint) not in before and _place(taint) not in mine]
    left = [taint for taint in found if _text(taint) in wanted]
    missing = [taint for taint in marks.taints if _text(taint) not in {_text(one) for one in left}]
    said = ",".join(sorted(wanted)) or None
    kept = [taint for taint in found if taint in others or taint in left]
    if kept == found and not missing and annotation == said:
        return None
    meta = {"resourceVersion": node["metadata"]["resourceVersion"], "annotations": {TAINTS: said}}
    return {"metadata": meta, "spec": {"taints": [*kept, *missing]}}


def _ours(node: Json) -> set[str]:
    """Return the labels of a Node that were applied here."""
    entries: Iterable[Json] = node["metadata"].get("managedFields") or ()
    mine = (entry for entry in entries if (entry.get("manager"), entry.get("operation")) == (MANAGER, "Apply"))
    return {key.removeprefix("f:") for one in mine for key in dig(one, "fieldsV1", "f:metadata", "f:labels") or {}}


def _plain(taint: Json) -> Json:
    return {name: taint[name] for name in ("key", "value", "effect") if taint.get(name)}


def _place(taint: Json) -> tuple[str, str]:
    """Return what tells taints of one Node apart."""
    return taint["key"], taint["effect"]


def _text(taint: Json) -> str:
    return f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
