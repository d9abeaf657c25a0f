"""A declared phase says what controllers had to do when it is run again, and reads what its template is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cell.product import declared
from harness.cell.product.declared import _DeclaredPhase, new_traces, read_values
from harness.errors import HarnessBug, ProductError
from harness.kube.client import Cluster
from harness.model import Phase
from harness.spec.models.product_declared import DeletedObject, InObject
from harness.until import Deadline, NotYet

TAKEN = InObject(kind="EtcdBackup", name="before", path="{.status.taken}")


def test_another_generation_and_a_new_job_are_changes() -> None:
    before = {"generation of ClusterDeployment guest": "3", "Job guest-1": "uid-1"}
    assert new_traces(before, before) == ()
    after = {"generation of ClusterDeployment guest": "4", "Job guest-2": "uid-2"}
    assert new_traces(before, after) == ("generation of ClusterDeployment guest: 3, then 4", "Job guest-2 is new")


def test_a_template_is_given_values_of_objects_that_are_there() -> None:
    there: Any = SimpleNamespace(value=lambda where: f"{where.name} at {where.path}")
    assert read_values(cast("Any", there), {"taken": TAKEN}) == {"taken": "before at {.status.taken}"}


def test_a_value_that_is_not_there_is_named() -> None:
    options = SimpleNamespace(object=SimpleNamespace(kind="ClusterDeployment", name="guest"))
    nothing: Any = SimpleNamespace(value=lambda _: None, options=options)
    with pytest.raises(ProductError, match=r"there is no \{\.status\.taken\} of EtcdBackup before"):
        read_values(cast("Any", nothing), {"taken": TAKEN})


class Answers:
    """An infra cluster whose objects are made anew by their controllers once they are deleted, a look later."""

    def __init__(self, *names: str) -> None:
        self.uids = dict.fromkeys(names, 1)
        self.deleted: list[str] = []
        self.looks = 0

    def get(self, _kind: object, name: str, _namespace: str) -> dict[str, Any] | None:
        """Return an object; right after its deletion it is there, then it is not, then another one is."""
        if name not in self.uids:
            return None
        self.looks += name in self.deleted
        if name in self.deleted and self.looks == 2:
            return None
        return {"metadata": {"uid": f"{name}-{2 if name in self.deleted and self.looks > 2 else 1}"}}

    def delete(self, _kind: object, name: str, _namespace: str) -> None:
        """Take note of it."""
        self.deleted.append(name)
        self.looks = 0


@dataclass
class Patient:
    """Waits by looking a few times. reasons: what it waited for."""

    namespace: str = "cell"
    reasons: list[str] = field(default_factory=list)

    def resource_at(self, _where: object) -> str:
        """Return any kind."""
        return "kind"

    def wait(self, look: Any, _what: str, _deadline: Deadline) -> None:
        """Look until it is there."""
        while isinstance(found := look(), NotYet):
            self.reasons.append(found.reason)


def deleting(cluster: Answers, tmp_path: Path) -> tuple[Any, Patient]:
    """Return a phase in which objects are deleted, and who waits."""
    wanted = SimpleNamespace(log=tmp_path / "log", phase=Phase("put-back"), guest=None)
    outer = SimpleNamespace(cluster=cluster)
    return _DeclaredPhase(cast("Any", wanted), cast("Any", outer), cast("Any", None), tmp_path), Patient()


SHOP = [
    DeletedObject(apiVersion="v1", kind="Service", name="shop"),
    DeletedObject(apiVersion="apps/v1", kind="Deployment", name="shop"),
]


def test_a_deleted_object_is_waited_for_until_another_one_is_there(tmp_path: Path) -> None:
    cluster = Answers("shop", "front")
    objects = [SHOP[0].model_copy(update={"name": "front"}), SHOP[1]]
    phase, watched = deleting(cluster, tmp_path)
    phase._take_away(objects, cast("Any", watched), Deadline.after(60.0))
    assert cluster.deleted == ["front", "shop"]
    assert watched.reasons == ["it is being deleted", "it is not there"] * 2
    assert (tmp_path / "log").read_text(encoding="utf-8") == "deleted Service front\ndeleted Deployment shop\n"


def test_an_object_that_is_not_there_cannot_be_deleted(tmp_path: Path) -> None:
    phase, watched = deleting(Answers(), tmp_path)
    with pytest.raises(ProductError, match="there is no Service shop to delete"):
        phase._take_away(SHOP, cast("Any", watched), Deadline.after(60.0))


def test_what_was_delivered_into_a_guest_is_deleted_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guest, beside = Answers("shop"), Answers("shop")
    phase, watched = deleting(beside, tmp_path)
    phase.wanted.phase = Phase("put-back", delivery="comes-back", delivery_into="guest")
    monkeypatch.setattr(declared, "served", lambda *_: "kind")
    with pytest.raises(HarnessBug, match="no way to the guest cluster"):
        phase._take_away(SHOP[:1], cast("Any", watched), Deadline.after(60.0))
    phase.wanted.guest = tmp_path / "kubeconfig"
    monkeypatch.setattr(Cluster, "from_kubeconfig", lambda _: guest)
    phase._take_away(SHOP[:1], cast("Any", watched), Deadline.after(60.0))
    assert (guest.deleted, beside.deleted) == (["shop"], [])
