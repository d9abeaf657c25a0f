"""What a cluster has of an EtcdCluster: reserved, with a certificate that its CA signs, and given up again."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from harness.kube.certificates import request, signed
from harness.kube.objects import owner_reference
from harness.kube.resources import EVENT, SECRET
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, ETCD_CLUSTER, UID_LABEL
from harness.operator.context import OperatorContext, OperatorOptions
from harness.operator.controllers.etcdclients import AGAIN_SECONDS, REFUSED_SECONDS, EtcdClients, end_of
from harness.operator.decide.authority import AUTHORITIES, YEARS, judged, made, signer_of
from harness.operator.decide.etcdclients import user_of
from tests.unit.fake_cluster import FakeCluster
from tests.unit.operator.api.objects import defaulted, etcd_cluster
from tests.unit.operator.controllers.looks import IMAGE, UID, declared

Json = dict[str, Any]
KEY, STORE = ("default", "guest"), "uid-of-store"
ETCD = next(one for one in AUTHORITIES if one.name == "etcd")
CA = made(ETCD, datetime.now(UTC), YEARS)
PART = judged(ETCD, "store-etcd", CA, datetime.now(UTC)).model_dump(mode="json", by_alias=True)
USER, PREFIX = "guest.uid-of-g", "/guest-uid-of-g"
HOST = {"name": "m-1", "machine": "m-1", "address": "192.0.2.11", "key": {"name": "keys"}, "groups": ["etcd"]}


class World:
    """A ClusterDeployment that names an EtcdCluster, and the controller."""

    def __init__(self, *, deleted: bool = False, status: Json | None = None, **spec: Any) -> None:
        self.api = FakeCluster()
        self.context = OperatorContext.of(self.api, Path("none"), options=OperatorOptions(IMAGE))
        self.controller = EtcdClients(self.context)
        self.deployment = declared(**{"etcd": {"clusterRef": {"name": "store"}}, **spec})
        if deleted:
            self.deployment["metadata"] |= {"deletionTimestamp": "2026-11-29T12:00:00Z"}
        owner = owner_reference(self.deployment, CLUSTER_DEPLOYMENT)
        meta = {"name": "guest", "namespace": "default", "ownerReferences": [owner]}
        self.show(CLUSTER_DEPLOYMENT, self.deployment)
        self.show(CLUSTER, self.api.put(CLUSTER, {"metadata": meta, "status": status or {}}))
        self.etcd()
        self.secret("store-etcd", CA)

    def show(self, kind: Any, body: Json) -> None:
        self.context.informers.of(kind)._store("ADDED", body)

    def etcd(self, *users: Json, history: tuple[Json, ...] = (), phase: str = "Ready") -> None:
        """Have an EtcdCluster that is deployed with these users."""
        body = etcd_cluster("store")
        body["metadata"] |= {"uid": STORE, "resourceVersion": "70"}
        self.show(ETCD_CLUSTER, {**body, "status": {"phase": phase}})
        given = {"cluster_hosts": [{"name": "m-1", "address": "192.0.2.11"}], "cluster_etcd_users": list(users)}
        applied = {"version": "1.35.4", "machines": ["m-1"], "hosts": [HOST], "variables": given}
        authority = {"usable": True, "reason": "Valid", "parts": [PART]}
        status = {"applied": applied, "authority": authority, "history": list(history)}
        meta = {"name": "store", "namespace": "default", "labels": {UID_LABEL: STORE}, "resourceVersion": "71"}
        self.show(CLUSTER, {"metadata": meta, "status": status})

    def secret(self, name: str, data: Mapping[str, bytes], owner: Json | None = None) -> None:
        content = {key: base64.b64encode(value).decode() for key, value in data.items()}
        meta = {"name": name, "namespace": "default", "ownerReferences": [owner] if owner else []}
        self.api.put(SECRET, {"metadata": meta, "data": content})

    def look(self) -> float | None:
        return self.controller.reconcile(KEY)

    @property
    def state(self) -> Json:
        found: Json = self.api.all(CLUSTER)[0]["status"].get("etcdClient") or {}
        return found

    @property
    def content(self) -> dict[str, bytes]:
        found = next(one for one in self.api.all(SECRET) if one["metadata"]["name"] == "guest-etcd-client")
        return {key: base64.b64decode(value) for key, value in found["data"].items()}


MADE = {"name": USER, "prefix": PREFIX}


def test_a_prefix_is_reserved_and_a_certificate_is_signed_before_the_user_is_made() -> None:
    world = World()
    assert world.look() == REFUSED_SECONDS
    assert {name: world.state[name] for name in ("user", "prefix", "uid", "reason", "usable")} == {
        "user": USER,
        "prefix": PREFIX,
        "uid": STORE,
        "reason": "UserNotMade",
        "usable": False,
    }
    assert world.state["endpoints"] == ["https://192.0.2.11:2379"]
    certificate = x509.load_pem_x509_certificate(world.content["tls.crt"])
    assert certificate.subject.rfc4514_string() == f"CN={USER}"
    certificate.verify_directly_issued_by(signer_of("store-etcd", CA)[0])
    assert world.content["ca.crt"] == CA["tls.crt"]
    assert world.state["secret"] == "guest-etcd-client"
    (own,) = (one for one in world.api.all(SECRET) if one["metadata"]["name"] == "guest-etcd-client")
    assert [one["uid"] for one in own["metadata"]["ownerReferences"]] == [UID]


def test_it_is_used_once_the_user_is_made_and_nothing_is_signed_again() -> None:
    world = World()
    world.look()
    before = world.content
    world.etcd(MADE)
    assert world.look() == AGAIN_SECONDS
    assert (world.state["reason"], world.state["usable"], world.state["ready"]) == ("Usable", True, True)
    world.look()
    assert world.content == before
    assert world.api.all(EVENT) == []


def test_a_certificate_that_is_gone_is_signed_again() -> None:
    world = World()
    world.look()
    world.api.delete(SECRET, "guest-etcd-client", "default")
    world.look()
    assert x509.load_pem_x509_certificate(world.content["tls.crt"])


def test_a_secret_of_somebody_else_stays_as_it_is() -> None:
    world = World()
    world.secret("guest-etcd-client", {"tls.crt": b"theirs"})
    assert world.look() == REFUSED_SECONDS
    assert world.state["reason"] == "CertificateRefused"
    assert "Secret guest-etcd-client belongs to another object" in world.state["message"]
    assert world.content == {"tls.crt": b"theirs"}
    assert [event["reason"] for event in world.api.all(EVENT)] == ["CertificateRefused"]


@pytest.mark.parametrize("data", [{}, made(ETCD, datetime.now(UTC), YEARS)], ids=["empty", "another key"])
def test_a_ca_that_members_do_not_have_signs_nothing(data: Mapping[str, bytes]) -> None:
    world = World()
    world.secret("store-etcd", data)
    world.look()
    assert world.state["reason"] == "CertificateRefused"
    assert [one["metadata"]["name"] for one in world.api.all(SECRET)] == ["store-etcd"]


def certificate(
    user: str = USER, hours: float = 8760, ago: float = 0, ca: Mapping[str, bytes] = CA
) -> dict[str, bytes]:
    """Return what a Secret may hold. hours: how long it is valid.  ago: hours since it was signed."""
    asked, key = request(user, ())
    issuer, signer = signer_of("x", ca)
    at = datetime.now(UTC) - timedelta(hours=ago)
    return {
        "ca.crt": ca["tls.crt"],
        "tls.crt": signed(asked, issuer, signer, at, timedelta(hours=hours)),
        "tls.key": key,
    }


OTHER_CA = made(ETCD, datetime.now(UTC), YEARS)
# What a Secret holds, and whether another certificate is signed.
HELD: tuple[tuple[str, dict[str, bytes], bool], ...] = (
    ("as it is to be", certificate(), False),
    ("89 days before its end", certificate(ago=8760 - 89 * 24), True),
    ("91 days before its end", certificate(ago=8760 - 91 * 24), False),
    ("a short one that is new", certificate(hours=48, ago=20), False),
    ("a short one in its second half", certificate(hours=48, ago=28), True),
    ("of another user", certificate("guest.former"), True),
    ("of another CA", certificate(ca=OTHER_CA), True),
    ("with another key", {**certificate(), "tls.key": certificate()["tls.key"]}, True),
    ("without its CA", {name: value for name, value in certificate().items() if name != "ca.crt"}, True),
    ("not a certificate", {**certificate(), "tls.crt": b"none"}, True),
    ("nothing", {}, True),
)


@pytest.mark.parametrize(("data", "due"), [row[1:] for row in HELD], ids=[row[0] for row in HELD])
def test_a_certificate_is_signed_anew_in_time(data: dict[str, bytes], due: bool) -> None:
    assert (end_of(data, USER, CA["tls.crt"], datetime.now(UTC), 90) is None) is due


def test_a_cluster_whose_etcd_went_back_is_unsettled_once() -> None:
    applied = {"version": "1.36.3", "variables": {"cluster_etcd_endpoints": ["https://192.0.2.11:2379"]}}
    world = World(status={"applied": applied, "sequence": 1})
    world.etcd(MADE)
    world.look()
    assert world.state["restored"] == "none"
    past = {"sequence": 7, "operation": "restore", "outcome": "succeeded", "backup": "sunday"}
    world.etcd(MADE, history=(past,))
    world.look()
    status = world.api.all(CLUSTER)[0]["status"]
    assert status["unsettled"] == {
        "parts": ["settings", "addons"],
        "hosts": [],
        "leaving": [],
        "lost": [],
        "why": "restore 7 of EtcdCluster store",
    }
    assert world.state["restored"] == "restore 7"
    world.api.put(CLUSTER, {**world.api.all(CLUSTER)[0], "status": {**status, "unsettled": None}})
    world.show(CLUSTER, world.api.all(CLUSTER)[0])
    world.look()
    assert world.api.all(CLUSTER)[0]["status"]["unsettled"] is None


def leaving(**deletion: str) -> World:
    """Return the world with a cluster that is deleted, whose machines are reset."""
    state = {"cluster": "store", "uid": STORE, "user": USER, "prefix": PREFIX, "made": True, "usable": True}
    return World(deleted=True, deletion=deletion, status={"etcdClient": state, "sequence": 2})


def test_who_leaves_gives_its_keys_up_where_they_are_to_go() -> None:
    world = leaving(etcdKeys="Delete")
    world.etcd(MADE)
    world.look()
    assert (world.state["leaving"], world.state["deletes"], world.state["made"]) == (True, True, True)
    world.etcd()
    world.look()
    assert not world.state["made"]


def test_who_leaves_keys_behind_keeps_its_user_until_it_is_gone() -> None:
    world = leaving()
    before = world.state
    world.etcd(MADE)
    world.look()
    assert world.state == before


def test_a_cluster_with_an_etcd_of_its_own_has_nothing() -> None:
    world = World(etcd={})
    assert world.look() is None
    assert world.state == {}


def test_a_user_is_of_this_very_object() -> None:
    assert user_of(defaulted(World().deployment)) == USER
