"""Secrets with a cluster's CAs: made once, used where somebody else made them, never made in the place of others."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Unpack

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from harness.kube import certificates
from harness.kube.api import RequestOptions
from harness.kube.certificates import pem_of
from harness.kube.client import ApiFailure
from harness.kube.objects import owner_reference, secret_content
from harness.kube.resources import CERTIFICATE_REQUEST, EVENT, SECRET
from harness.operator.api.resources import AUTHORITY_OF, CLUSTER, CLUSTER_DEPLOYMENT
from harness.operator.context import OperatorContext
from harness.operator.controllers.authority import (
    AGAIN_SECONDS,
    ISSUER_SECONDS,
    REFUSED_SECONDS,
    AuthorityController,
)
from harness.operator.decide.authority import AUTHORITIES, YEARS, made
from tests.unit.fake_cluster import FakeCluster
from tests.unit.operator.api.objects import KUBEVIRT, wanted_set
from tests.unit.operator.controllers.looks import UID, declared
from tests.unit.operator.decide.wishes import NOW

Json = dict[str, Any]
KEY = ("default", "guest")
NAMED = {"authority": {"caSecretRef": {"name": "corporate"}}}
NAMES = ["guest-ca", "guest-etcd", "guest-proxy", "guest-sa"]


class World:
    """A cluster of one ClusterDeployment, and the controller."""

    def __init__(self, status: Json | None = None, api: FakeCluster | None = None, **spec: Any) -> None:
        self.api = api or FakeCluster()
        self.context = OperatorContext.of(self.api, Path("none"))
        self.controller = AuthorityController(self.context)
        self.deployment = declared(**spec)
        owner = owner_reference(self.deployment, CLUSTER_DEPLOYMENT)
        meta = {"name": "guest", "namespace": "default", "ownerReferences": [owner]}
        cluster = self.api.put(CLUSTER, {"metadata": meta, "status": status or {}})
        for kind, body in ((CLUSTER_DEPLOYMENT, self.deployment), (CLUSTER, cluster)):
            self.context.informers.of(kind)._store("ADDED", body)

    def look(self) -> float | None:
        return self.controller.reconcile(KEY)

    def state(self) -> Json:
        found: Json = self.api.all(CLUSTER)[0]["status"].get("authority") or {}
        return found

    def declare(self, **spec: Any) -> None:
        """Have the object's spec be this."""
        self.deployment = declared(**spec)
        self.context.informers.of(CLUSTER_DEPLOYMENT)._store("MODIFIED", self.deployment)

    def begin(self) -> None:
        """Have an operation begun."""
        cluster = self.api.all(CLUSTER)[0]
        self.api.put(CLUSTER, {**cluster, "status": {**cluster["status"], "sequence": 1}})
        self.context.informers.of(CLUSTER)._store("MODIFIED", self.api.all(CLUSTER)[0])

    def secret(self, name: str, data: Mapping[str, bytes], owner: Json | None = None) -> None:
        owners = [owner] if owner else []
        content = {key: base64.b64encode(value).decode() for key, value in data.items()}
        meta = {"name": name, "namespace": "default", "ownerReferences": owners}
        self.api.put(SECRET, {"metadata": meta, "data": content})

    def names(self) -> list[str]:
        return [one["metadata"]["name"] for one in self.api.all(SECRET)]


def test_all_are_made_once_with_the_names_of_cluster_api_and_go_with_the_object() -> None:
    world = World()
    assert world.look() == AGAIN_SECONDS
    assert world.names() == NAMES
    before = world.api.all(SECRET)
    for one in before:
        assert one["type"] == "cluster.x-k8s.io/secret"
        assert sorted(one["data"]) == ["tls.crt", "tls.key"]
        assert one["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == "guest"
        assert [owner["uid"] for owner in one["metadata"]["ownerReferences"]] == [UID]
    state = world.state()
    assert (state["usable"], state["reason"]) == (True, "Valid")
    assert [part["secret"] for part in state["parts"]] == NAMES
    assert world.look() == AGAIN_SECONDS
    assert world.api.all(SECRET) == before
    assert world.api.all(EVENT) == []


def test_a_manager_that_was_killed_goes_on_with_what_it_made() -> None:
    world = World()
    ca = made(AUTHORITIES[0], NOW, YEARS)
    owner = owner_reference(world.deployment, CLUSTER_DEPLOYMENT)
    world.secret("guest-ca", ca, owner)
    world.look()
    assert world.names() == NAMES
    assert base64.b64decode(world.api.all(SECRET)[0]["data"]["tls.crt"]) == ca["tls.crt"]


@pytest.mark.parametrize(("name", "spec"), [("corporate", NAMED), ("guest-ca", {})])
def test_a_ca_of_ones_own_is_used_and_left_alone(name: str, spec: Json) -> None:
    world = World(**spec)
    world.secret(name, made(AUTHORITIES[0], NOW, YEARS))
    (before,) = world.api.all(SECRET)
    assert world.look() == AGAIN_SECONDS
    assert before in world.api.all(SECRET)
    assert world.state()["parts"][0]["secret"] == name
    assert world.names() == sorted([name, *NAMES[1:]])


def test_what_is_named_and_missing_is_never_made() -> None:
    world = World(None, None, **NAMED)
    assert world.look() == REFUSED_SECONDS
    assert "corporate" not in world.names()
    assert (world.state()["usable"], world.state()["reason"]) == (False, "SecretMissing")
    assert "there is no Secret corporate in namespace default" in world.state()["message"]
    assert [event["reason"] for event in world.api.all(EVENT)] == ["SecretMissing"]
    world.secret("corporate", made(AUTHORITIES[0], NOW, YEARS))
    assert world.look() == AGAIN_SECONDS
    assert world.state()["reason"] == "Valid"


def test_a_secret_that_is_gone_is_never_made_anew_once_machines_have_it() -> None:
    world = World()
    world.look()
    world.begin()
    known = world.state()["parts"]
    world.api.delete(SECRET, "guest-ca", "default")
    assert world.look() == REFUSED_SECONDS
    assert world.names() == NAMES[1:]
    assert (world.state()["reason"], world.state()["parts"]) == ("SecretMissing", known)
    world.secret("guest-ca", made(AUTHORITIES[0], NOW, YEARS))
    world.look()
    assert world.state()["reason"] == "Changed"


def test_a_secret_of_another_object_is_not_touched() -> None:
    world = World()
    other = {"kind": "ClusterDeployment", "name": "guest", "uid": "earlier", "controller": True}
    world.secret("guest-sa", made(AUTHORITIES[3], NOW, YEARS), other)
    assert world.look() == REFUSED_SECONDS
    assert world.state()["reason"] == "SecretInUse"


OUTSIDE = {"authority": {"keysOnMachines": False}}
LEFT: Json = {
    **OUTSIDE,
    "deletion": {"machines": "Leave"},
    "machineSets": [wanted_set("cp", "control-plane", names=["m-0"])],
}


@pytest.mark.parametrize(
    ("spec", "stay"),
    [
        ({}, False),
        (OUTSIDE, False),
        ({"deletion": {"machines": "Leave"}}, False),
        (LEFT, True),
        (LEFT | {"machineSets": [wanted_set("cp", "control-plane", kubevirt=KUBEVIRT)]}, False),
    ],
    ids=["reset", "keys here, reset", "keys on machines that stay", "keys here, machines stay", "machines go"],
)
def test_secrets_stay_only_where_machines_stay_that_lack_the_keys(spec: Json, stay: bool) -> None:
    world = World()
    world.look()
    assert ownerless(world) == []
    world.declare(**spec)
    world.look()
    assert ownerless(world) == (NAMES if stay else [])
    world.declare()
    assert world.look() == AGAIN_SECONDS
    assert ownerless(world) == []
    made_so = World(**spec)
    assert made_so.look() == AGAIN_SECONDS
    assert ownerless(made_so) == (NAMES if stay else [])


def ownerless(world: World) -> list[str]:
    """Return the Secrets that outlive their object, which their annotation says."""
    metas = [one["metadata"] for one in world.api.all(SECRET)]
    kept = [meta["name"] for meta in metas if not meta.get("ownerReferences")]
    assert kept == [meta["name"] for meta in metas if AUTHORITY_OF in (meta.get("annotations") or {})]
    return kept


def test_a_new_cluster_does_not_begin_with_a_ca_that_machines_were_left_with() -> None:
    world = World(**LEFT)
    world.look()
    secrets = world.api.all(SECRET)
    other = World(**LEFT)
    for secret in secrets:
        secret["metadata"]["annotations"] = {AUTHORITY_OF: "earlier"}
        other.api.put(SECRET, secret)
    assert other.look() == REFUSED_SECONDS
    assert other.state()["reason"] == "SecretInUse"
    assert f"remove its annotation {AUTHORITY_OF} to begin" in other.state()["message"]
    assert other.api.all(SECRET) == secrets
    for secret in secrets:
        other.api.put(SECRET, secret | {"metadata": secret["metadata"] | {"annotations": {}}})
    assert other.look() == AGAIN_SECONDS
    assert [part["secret"] for part in other.state()["parts"]] == NAMES


@pytest.mark.parametrize(
    ("status", "spec"),
    [
        ({"sequence": 3}, {}),
        ({}, {"playbooks": {"product": {"configMap": "other"}}}),
        ({}, {"adopt": True, "machineSets": [wanted_set("cp", "control-plane", names=["m-0"])]}),
    ],
    ids=["deployed before", "other playbooks", "adopted"],
)
def test_nothing_is_made_for_clusters_whose_machines_have_their_own(status: Json, spec: Json) -> None:
    world = World(status, **spec)
    assert world.look() is None
    assert (world.names(), world.state()) == ([], {})


BY_ISSUER = {"authority": {"issuerRef": {"name": "org", "kind": "ClusterIssuer"}}}
GROUP = "cert-manager.io"
ASKED = ["guest-ca", "guest-etcd", "guest-proxy"]


class WithCertManager(FakeCluster):
    """An API that serves CertificateRequests of cert-manager, or nothing of that group."""

    def __init__(self, *, installed: bool = True) -> None:
        super().__init__()
        self.installed = installed
        self.root = certificates.authority("root", datetime.now(UTC), YEARS, kubeadm=True)

    def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Any:
        if path in (f"/apis/{GROUP}", f"/apis/{GROUP}/v1"):
            if not self.installed:
                raise ApiFailure(
                    404, "NotFound", "the server could not find the requested resource", [], request=method
                )
            if path.endswith(GROUP):
                return {"kind": "APIGroup", "preferredVersion": {"groupVersion": f"{GROUP}/v1"}, "versions": []}
            resource = {"name": "certificaterequests", "kind": "CertificateRequest", "namespaced": True}
            return {"kind": "APIResourceList", "resources": [resource]}
        return super().request(method, path, **options)

    def sign(self) -> None:
        """Sign whatever is asked for, as a CA issuer of cert-manager does."""
        for request in self.all(CERTIFICATE_REQUEST):
            csr = x509.load_pem_x509_csr(base64.b64decode(request["spec"]["request"]))
            made = (
                x509.CertificateBuilder()
                .subject_name(csr.subject)
                .issuer_name(self.root[0].subject)
                .public_key(csr.public_key())
                .serial_number(x509.random_serial_number())
                .not_valid_before(datetime.now(UTC) - timedelta(hours=1))
                .not_valid_after(datetime.now(UTC) + YEARS)
                .add_extension(x509.BasicConstraints(ca=request["spec"]["isCA"], path_length=None), critical=True)
                .sign(self.root[1], hashes.SHA256())
            )
            chain = pem_of(made) + pem_of(self.root[0])
            self.answer(request, "True", "Issued", "", certificate=base64.b64encode(chain).decode())

    def answer(self, request: Json, status: str, reason: str, message: str, **more: str) -> None:
        ready = {"type": "Ready", "status": status, "reason": reason, "message": message}
        self.put(CERTIFICATE_REQUEST, {**request, "status": {"conditions": [ready], **more}})

    def asked_for(self) -> list[str]:
        return [one["metadata"]["name"] for one in self.all(CERTIFICATE_REQUEST)]


def content(api: FakeCluster, name: str) -> Mapping[str, bytes]:
    return secret_content(next(one for one in api.all(SECRET) if one["metadata"]["name"] == name))


def test_an_issuer_is_asked_once_for_each_ca_and_nothing_begins_before_it_has_signed() -> None:
    api = WithCertManager()
    world = World(api=api, **BY_ISSUER)
    assert world.look() == ISSUER_SECONDS
    assert api.asked_for() == ASKED
    assert (world.state()["usable"], world.state()["reason"]) == (False, "WaitingForIssuer")
    assert "ClusterIssuer org has not signed CertificateRequest guest-ca" in world.state()["message"]
    assert api.all(EVENT) == [], "to wait is not a fault"
    keys = {name: content(api, name)["tls.key"] for name in NAMES}
    assert sorted(content(api, "guest-ca")) == ["tls.key"]
    for one in api.all(CERTIFICATE_REQUEST):
        assert [owner["uid"] for owner in one["metadata"]["ownerReferences"]] == [UID]

    api.sign()
    assert world.look() == AGAIN_SECONDS
    assert (world.state()["usable"], world.state()["reason"]) == (True, "Valid")
    assert {name: content(api, name)["tls.key"] for name in NAMES} == keys
    for name in ASKED:
        (certificate,) = x509.load_pem_x509_certificates(content(api, name)["tls.crt"])
        assert certificate.issuer.rfc4514_string() == "CN=root"
    before = len(api.asked)
    world.look()
    assert not [line for line in api.asked[before:] if "POST" in line or "PATCH" in line]


def test_what_another_issuer_was_asked_for_is_asked_of_the_new_one_with_the_same_key() -> None:
    api = WithCertManager()
    world = World(api=api, **BY_ISSUER)
    world.look()
    key = content(api, "guest-ca")["tls.key"]
    world.declare(authority={"issuerRef": {"name": "other"}})
    world.look()
    assert [one["spec"]["issuerRef"]["name"] for one in api.all(CERTIFICATE_REQUEST)] == ["other"] * 3
    api.sign()
    world.look()
    assert world.state()["usable"]
    assert content(api, "guest-ca")["tls.key"] == key


def test_an_issuer_that_is_taken_back_leads_back_to_cas_that_sign_themselves() -> None:
    api = WithCertManager(installed=False)
    world = World(api=api, **BY_ISSUER)
    assert world.look() == REFUSED_SECONDS
    assert world.state()["reason"] == "NoCertManager"
    assert "install cert-manager, or remove authority.issuerRef" in world.state()["message"]
    world.declare()
    assert world.look() == AGAIN_SECONDS
    assert world.state()["usable"]


def test_cert_manager_may_be_installed_later() -> None:
    api = WithCertManager(installed=False)
    world = World(api=api, **BY_ISSUER)
    world.look()
    api.installed = True
    assert world.look() == ISSUER_SECONDS
    assert api.asked_for() == ASKED


def test_a_refusal_is_told_and_a_request_that_is_deleted_is_made_again() -> None:
    api = WithCertManager()
    world = World(api=api, **BY_ISSUER)
    world.look()
    api.sign()
    api.answer(api.all(CERTIFICATE_REQUEST)[0], "False", "Failed", "permission denied")
    assert world.look() == REFUSED_SECONDS
    assert world.state()["reason"] == "IssuerRefused"
    assert [event["reason"] for event in api.all(EVENT)] == ["IssuerRefused"]
    api.delete(CERTIFICATE_REQUEST, "guest-ca", "default")
    world.look()
    assert api.asked_for() == ASKED
    api.sign()
    world.look()
    assert world.state()["usable"]


@pytest.mark.parametrize("code", [403, 422])
def test_an_api_that_refuses_the_request_is_told(code: int) -> None:
    api = WithCertManager()
    api.refusals["POST certificaterequests"] = ApiFailure(code, "Refused", "no such right", [], request="POST")
    world = World(api=api, **BY_ISSUER)
    assert world.look() == REFUSED_SECONDS
    assert world.state()["reason"] == "IssuerRefused"
    assert "no such right" in world.state()["message"]


def test_a_request_of_another_object_is_left_alone() -> None:
    api = WithCertManager()
    api.put(CERTIFICATE_REQUEST, {"metadata": {"name": "guest-ca", "namespace": "default"}, "spec": {}})
    world = World(api=api, **BY_ISSUER)
    world.look()
    assert world.state()["reason"] == "RequestInUse"
    assert api.all(CERTIFICATE_REQUEST)[0]["spec"] == {}


def test_a_secret_that_is_named_is_used_beside_an_issuer() -> None:
    api = WithCertManager()
    world = World(api=api, authority={**BY_ISSUER["authority"], **NAMED["authority"]})
    world.secret("corporate", made(AUTHORITIES[0], datetime.now(UTC), YEARS))
    world.look()
    assert api.asked_for() == ["guest-etcd", "guest-proxy"]


def test_half_a_secret_of_ones_own_is_not_completed() -> None:
    api = WithCertManager()
    world = World(api=api, **BY_ISSUER)
    world.secret("guest-ca", {"tls.key": made(AUTHORITIES[0], datetime.now(UTC), YEARS)["tls.key"]})
    world.look()
    assert world.state()["reason"] == "KeyMissing"
    assert "guest-ca" not in api.asked_for()


@pytest.mark.parametrize("spec", [{}, BY_ISSUER])
def test_a_secret_that_lost_its_certificate_keeps_the_key_that_machines_have(spec: Json) -> None:
    api = WithCertManager()
    world = World(None, api, **spec)
    world.look()
    api.sign()
    world.look()
    world.begin()
    before = next(one for one in api.all(SECRET) if one["metadata"]["name"] == "guest-ca")
    api.put(SECRET, {**before, "data": {"tls.key": before["data"]["tls.key"]}})
    assert world.look() == REFUSED_SECONDS
    assert world.state()["reason"] == "KeyMissing"
    assert content(api, "guest-ca") == {"tls.key": base64.b64decode(before["data"]["tls.key"])}


def test_keys_without_a_certificate_are_asked_of_nobody() -> None:
    api = WithCertManager()
    world = World(None, api, **BY_ISSUER)
    world.look()
    tokens = next(one for one in api.all(SECRET) if one["metadata"]["name"] == "guest-sa")
    api.put(SECRET, {**tokens, "data": {"tls.key": tokens["data"]["tls.key"]}})
    api.sign()
    world.look()
    assert api.asked_for() == ASKED
    assert world.state()["usable"]
