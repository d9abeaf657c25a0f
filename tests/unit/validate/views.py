"""The objects of the recorded guest, with changes, and what every judgement of them must do."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import ClusterView
from harness.validate.findings import Mismatch
from harness.validate.variables import ADD_ONS
from tests.unit.validate import guests
from tests.unit.validate.guests import Change, Json

Judge = Callable[[ClusterView, ExpectedGuest], list[Mismatch]]


def recorded() -> Json:
    """Return the recorded objects by kind."""
    read: Json = json.loads((guests.RECORDED / "view.json").read_text(encoding="utf-8"))
    return read


def view(change: Change = lambda _: None) -> ClusterView:
    """Return the recorded guest, changed."""
    raw = recorded()
    change(raw)
    kinds = (tuple(raw[kind]) for kind in ("nodes", "pods", "daemon_sets", "deployments"))
    return ClusterView(*kinds, namespaces=guests.expected().namespaces)


def named(objects: list[Json], start: str) -> Json:
    """Return the object whose name starts so."""
    return next(obj for obj in objects if obj["metadata"]["name"].startswith(start))


def condition(obj: Json, kind: str, status: str) -> None:
    """Set an object's condition."""
    next(c for c in obj["status"]["conditions"] if c["type"] == kind)["status"] = status


def without(kind: str, start: str) -> Change:
    """Return the removal of an object."""
    return lambda raw: raw[kind].remove(named(raw[kind], start))


def pod(start: str, change: Change) -> Change:
    """Return a change of a pod."""
    return lambda raw: change(named(raw["pods"], start))


def image(text: str) -> Change:
    """Return a change of an object's image."""
    return lambda obj: obj["spec"]["containers"][0].update(image=text)


def passes_a_well_guest_only(judge: Judge) -> bool:
    """Tell whether a judgement passes the recorded guest, and fails an empty one."""
    return judge(view(), guests.expected()) == [] and judge(ClusterView((), (), (), ()), guests.expected()) != []


def finds(judge: Judge, fault: Change) -> bool:
    """Tell whether a judgement finds a fault and tells where, what was expected and what was seen."""
    found = judge(view(fault), guests.expected())
    return bool(found) and all(one.where and one.expected and one.seen for one in found)


VERSIONS = {add_on.variable: "1.2.3" for add_on in ADD_ONS.values()}


def with_add_ons(raw: Json) -> None:
    """Let the recorded guest have all add-ons, each on its own."""
    for add_on in ADD_ONS.values():
        namespace, name = add_on.deployment or add_on.daemon_set or ("", "")
        for kind, start in (("deployments", "coredns"), ("pods", "coredns")):
            if kind == "deployments" and add_on.deployment is None:
                continue
            made = copy.deepcopy(named(raw[kind], start))
            made["metadata"].update(namespace=namespace, name=name)
            if kind == "pods":
                made["spec"]["containers"][0]["image"] = f"10.222.0.1:5000/{add_on.image}:v1.2.3"
            raw[kind].append(made)
        if add_on.daemon_set is not None:
            made = copy.deepcopy(named(raw["daemon_sets"], "kube-proxy"))
            made["metadata"].update(namespace=add_on.daemon_set[0], name=add_on.daemon_set[1])
            raw["daemon_sets"].append(made)
