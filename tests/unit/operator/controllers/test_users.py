"""Users of clusters: a certificate that the guest signs, a kubeconfig, bindings, a renewal, and their end."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID

from harness.errors import InfraError
from harness.kube import certificates
from harness.kube.api import RequestOptions
from harness.kube.certificates import pem_of
from harness.kube.client import Cluster
from harness.kube.objects import condition
from harness.kube.resources import CLUSTER_ROLE_BINDING, CSR, EVENT, ROLE_BINDING, SECRET
from harness.operator.api.resources import CLUSTER, CLUSTER_USER, USER_FINALIZER
from harness.operator.api.users import ClusterUser
from harness.operator.context import OperatorContext
from harness.operator.controllers.guest import GuestAccess
from harness.operator.controllers.users import AGAIN_SECONDS, TROUBLE_SECONDS, Users
from harness.operator.decide.authority import AUTHORITIES, judged, state_of
from harness.operator.decide.users import Credentials, renewal_of
from tests.unit.fake_cluster import FakeCluster

Json = dict[str, Any]
KEY = ("team", "alice")
HOUR = timedelta(hours=1)
STRANGER = certificates.authority("kubernetes", datetime.now(UTC), HOUR)


class Guest(FakeCluster):
    """An API that signs what is approved, for as long as is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.issuer = certificates.authority("kubernetes", datetime.now(UTC), 1000 * HOUR)
        self.signs = True
        self.asked_for: list[x509.CertificateSigningRequest] = []

    def _answer(self, method: str, kind: Any, key: Any, sub: str, options: RequestOptions) -> Json:
        made = super()._answer(method, kind, key, sub, options)
        if sub != "approval":
            return made
        (said,) = (options.get("body") or {})["status"]["conditions"]
        assert said["type"] == "Approved"
        request = x509.load_pem_x509_csr(base64.b64decode(made["spec"]["request"]))
        self.asked_for.append(request)
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(request.subject)
            .issuer_name(self.issuer[0].subject)
            .public_key(request.public_key())
            .serial_number(len(self.asked_for))
            .not_valid_before(now)
            .not_valid_after(now + timedelta(seconds=made["spec"]["expirationSeconds"]))
        )
        signed = builder.sign(self.issuer[1], hashes.SHA256())
        refused = {"conditions": [{"type": "Failed", "status": "True", "message": "not by this signer"}]}
        pem = base64.b64encode(pem_of(signed)).decode()
        decided: Json = {**made, "status": {"certificate": pem} if self.signs else refused}
        kind[key] = decided
        return decided


class World:
    """A ClusterUser, its Cluster, the guest, and the controller."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, applied: bool = True, **spec: Any) -> None:
        self.api, self.guest = FakeCluster(), Guest()
        self.context = OperatorContext.of(self.api, Path("none"))
        self.silent = False
        monkeypatch.setattr(GuestAccess, "open", lambda _, key: self._open(key))
        self.controller = Users(self.context)
        meta = {"name": "guest", "namespace": "team"}
        self.see(
            CLUSTER, self.api.put(CLUSTER, {"metadata": meta, "status": {"applied": {}} if not applied else APPLIED})
        )
        self.api.put(SECRET, {"metadata": {**meta, "name": "guest-kubeconfig"}, "data": {"value": self.admin()}})
        body = {"metadata": {"name": "alice", "namespace": "team", "uid": "uid-alice", "generation": 1}}
        self.see(CLUSTER_USER, self.api.put(CLUSTER_USER, {**body, "spec": {"cluster": "guest", **spec}}))

    @contextmanager
    def _open(self, key: tuple[str, str]) -> Iterator[Cluster]:
        assert key == ("team", "guest")
        if self.silent:
            raise InfraError("the guest does not answer", hint="wait")
        yield self.guest

    def admin(self) -> str:
        """Return the administrator's kubeconfig."""
        ca = base64.b64encode(pem_of(self.guest.issuer[0])).decode()
        made = {
            "clusters": [{"name": "k", "cluster": {"server": "https://192.0.2.9", "certificate-authority-data": ca}}],
            "contexts": [{"name": "admin@k", "context": {"cluster": "k", "user": "admin"}}],
            "current-context": "admin@k",
        }
        return base64.b64encode(yaml.safe_dump(made).encode()).decode()

    def see(self, kind: Any, body: Json) -> None:
        self.context.informers.of(kind)._store("MODIFIED", body)

    def change(self, **fields: Any) -> None:
        """Change the user, as somebody else does."""
        found = self.user()
        fields = {name: {**(found.get(name) or {}), **value} for name, value in fields.items()}
        self.see(CLUSTER_USER, self.api.put(CLUSTER_USER, {**found, **fields}))

    def look(self) -> float | None:
        self.see(CLUSTER_USER, self.user())
        return self.controller.reconcile(KEY)

    def user(self) -> Json:
        return self.api.all(CLUSTER_USER)[0]

    def ready(self) -> tuple[str, str]:
        found = condition(self.user(), "Ready") or {}
        return found["status"], found["reason"]

    def kubeconfig(self) -> Json:
        secret = next(one for one in self.api.all(SECRET) if one["metadata"]["name"] == "guest-user-alice")
        made: Json = yaml.safe_load(base64.b64decode(secret["data"]["value"]))
        return made

    def certificate(self) -> x509.Certificate:
        shown = self.kubeconfig()["users"][0]["user"]["client-certificate-data"]
        return x509.load_pem_x509_certificate(base64.b64decode(shown))

    def bound(self) -> list[tuple[str, str]]:
        bodies = [*self.guest.all(CLUSTER_ROLE_BINDING), *self.guest.all(ROLE_BINDING)]
        return [(one["metadata"].get("namespace", ""), one["roleRef"]["name"]) for one in bodies]


APPLIED = {"applied": {"version": "1.36.3"}}
VIEW = {"name": "view"}
EDIT = {"name": "edit", "namespaces": ["shop"]}


def test_a_user_gets_a_certificate_bindings_and_a_kubeconfig(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, groups=["dev", "ops"], bindings=[VIEW, EDIT], validitySeconds=3600)
    assert world.look() == AGAIN_SECONDS
    (request,) = world.guest.asked_for
    assert request.subject.rfc4514_string() == "CN=alice,O=ops,O=dev"
    assert world.guest.all(CSR) == []
    made = world.kubeconfig()
    assert made["clusters"][0]["cluster"]["server"] == "https://192.0.2.9"
    assert (made["contexts"][0]["context"], made["current-context"]) == ({"cluster": "guest", "user": "alice"}, "guest")
    assert world.bound() == [("", "view"), ("shop", "edit")]
    (binding,) = world.guest.all(CLUSTER_ROLE_BINDING)
    assert binding["subjects"] == [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]
    status = world.user()["status"]
    assert (world.ready(), status["user"], status["secret"]) == (("True", "Ready"), "alice", "guest-user-alice")
    assert world.user()["metadata"]["finalizers"] == [USER_FINALIZER]
    assert [event["reason"] for event in world.api.all(EVENT)] == ["Signed"]
    before = world.certificate()
    assert world.look() == AGAIN_SECONDS
    assert world.certificate() == before


def test_a_certificate_is_renewed_at_two_thirds(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, validitySeconds=3600)
    world.look()
    first = world.certificate()
    user = ClusterUser.model_validate(world.user())
    secret = next(one for one in world.api.all(SECRET) if one["metadata"]["name"] == "guest-user-alice")
    known = Credentials(*(base64.b64decode(secret["data"][key]) for key in ("tls.crt", "tls.key")))
    begin, ca = first.not_valid_before_utc, pem_of(world.guest.issuer[0])
    turns = begin + timedelta(seconds=2400)
    assert renewal_of(user, known, ca, begin + timedelta(seconds=2399)) == turns
    assert renewal_of(user, known, ca, turns) is None
    other = pem_of(certificates.authority("kubernetes", begin, HOUR)[0])
    assert renewal_of(user, known, other, begin) is None, "another CA"
    assert renewal_of(user, Credentials(known.certificate, pem_of(certificates.new_key())), ca, begin) is None
    assert renewal_of(user, Credentials(b"x", known.key), ca, begin) is None


@pytest.mark.parametrize("spec", [{"groups": ["dev"]}, {"user": "bob"}])
def test_another_name_or_group_needs_another_certificate(spec: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.look()
    first = world.certificate()
    world.change(spec=spec)
    world.look()
    assert world.certificate() != first


def test_bindings_that_are_not_wished_any_more_go_and_those_of_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, bindings=[VIEW, EDIT])
    other = {"metadata": {"name": "theirs"}, "roleRef": {"name": "theirs"}}
    world.guest.put(CLUSTER_ROLE_BINDING, other)
    world.look()
    world.change(spec={"bindings": [EDIT]})
    world.look()
    assert world.bound() == [("", "theirs"), ("shop", "edit")]
    world.guest.delete(ROLE_BINDING, world.guest.all(ROLE_BINDING)[0]["metadata"]["name"], "shop")
    world.look()
    assert world.bound() == [("", "theirs"), ("shop", "edit")], "put back"


def test_a_deletion_takes_bindings_away_and_says_until_when_the_certificate_opens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, bindings=[VIEW])
    world.look()
    world.change(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    world.silent = True
    assert world.look() == TROUBLE_SECONDS
    assert world.ready() == ("False", "NotReached")
    world.silent = False
    expires = world.user()["status"]["expires"]
    assert world.look() is None
    assert world.bound() == []
    assert world.api.all(CLUSTER_USER) == []
    (text,) = (event["message"] for event in world.api.all(EVENT) if event["reason"] == "Unbound")
    assert text == f"the bindings of alice are gone; its certificate opens the API until {expires}"


def test_a_deletion_waits_for_no_cluster_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.look()
    world.change(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    world.silent = True
    world.context.informers.of(CLUSTER)._store("DELETED", world.api.all(CLUSTER)[0])
    assert world.look() is None
    assert world.api.all(CLUSTER_USER) == []


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"groups": ["system:masters"]}, "nobody could take system:masters back: bind the ClusterRole cluster-admin"),
        ({"groups": ["system:nodes"]}, "are Kubernetes' own"),
        ({"user": "system:admin"}, "are Kubernetes' own"),
        ({"bindings": [{"kind": "Role", "name": "a"}]}, "a Role belongs to a namespace"),
        ({"validitySeconds": 60}, "600"),
    ],
)
def test_what_no_user_may_be_is_refused_before_anything_is_made(
    spec: Json, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(monkeypatch, **spec)
    assert world.look() is None
    assert world.ready() == ("False", "InvalidSpec")
    assert words in (condition(world.user(), "Ready") or {})["message"]
    assert world.guest.asked == []


def test_a_user_waits_for_its_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, applied=False)
    assert world.look() is None
    assert world.ready() == ("False", "NotDeployed")
    world.see(CLUSTER, world.api.put(CLUSTER, {**world.api.all(CLUSTER)[0], "status": APPLIED}))
    assert world.controller.controller.queue.pending() > 0
    assert world.look() == AGAIN_SECONDS


def test_a_secret_of_somebody_else_is_neither_used_nor_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of a cluster and a user together may be those of another two: a-user-b and c, a and b-user-c."""
    world = World(monkeypatch)
    meta = {"name": "guest-user-alice", "namespace": "team", "ownerReferences": [{"uid": "other", "controller": True}]}
    theirs = world.api.put(SECRET, {"metadata": meta, "data": {"value": "dGhlaXJz"}})
    assert world.look() == TROUBLE_SECONDS
    assert world.ready() == ("False", "SecretInUse")
    assert "Secret guest-user-alice is another object's" in (condition(world.user(), "Ready") or {})["message"]
    assert [one for one in world.api.all(SECRET) if one["metadata"]["name"] == "guest-user-alice"] == [theirs]
    assert world.bound() == []


def test_a_guest_that_does_not_sign_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.guest.signs = False
    assert world.look() == TROUBLE_SECONDS
    assert world.ready() == ("False", "NotSigned")
    assert "not by this signer" in (condition(world.user(), "Ready") or {})["message"]
    assert world.guest.all(CSR) == []


def test_a_kubeconfig_names_the_endpoint_once_certificates_do(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.look()
    (cluster,) = world.api.all(CLUSTER)
    for url, server in (("https://api.example.com:443", "https://api.example.com:443"), (None, "https://192.0.2.9")):
        status = {**cluster["status"], "endpoint": {"type": "Ingress", "url": url}}
        world.see(CLUSTER, world.api.put(CLUSTER, {**cluster, "status": status}))
        world.look()
        assert world.kubeconfig()["clusters"][0]["cluster"]["server"] == server
    assert len(world.guest.asked_for) == 1, "the certificate stays"


def outside(world: World, data: dict[str, bytes] | None = None) -> None:
    """Have the cluster's CA in a Secret, and its key nowhere else."""
    pair = {"tls.crt": pem_of(world.guest.issuer[0]), "tls.key": pem_of(world.guest.issuer[1])}
    part = judged(AUTHORITIES[0], "guest-ca", pair, datetime.now(UTC))
    state = state_of([part], None, None, datetime.now(UTC)).model_dump(mode="json", by_alias=True)
    applied = {"version": "1.36.3", "variables": {"cluster_external_ca": True}}
    found = {**world.api.all(CLUSTER)[0], "status": {"applied": applied, "authority": state}}
    world.see(CLUSTER, world.api.put(CLUSTER, found))
    encoded = {key: base64.b64encode(value).decode() for key, value in (data if data is not None else pair).items()}
    meta = {"name": "guest-ca", "namespace": "team"}
    world.api.put(SECRET, {"metadata": meta, "data": encoded})


def test_a_certificate_is_signed_here_where_the_cluster_has_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, groups=["dev", "ops"], bindings=[VIEW], validitySeconds=3600)
    outside(world)
    assert world.look() == AGAIN_SECONDS
    assert (world.ready(), world.guest.asked_for) == (("True", "Ready"), [])
    made = world.certificate()
    made.verify_directly_issued_by(world.guest.issuer[0])
    assert made.subject.rfc4514_string() == "CN=alice,O=ops,O=dev"
    assert made.not_valid_after_utc - made.not_valid_before_utc == timedelta(seconds=3600 + 300)
    usages = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert world.look() == AGAIN_SECONDS
    assert world.certificate() == made


def test_no_certificate_outlives_the_ca_that_signs_it_here(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, validitySeconds=86400)
    world.guest.issuer = certificates.authority("kubernetes", datetime.now(UTC), HOUR)
    world.api.put(SECRET, {**world.api.all(SECRET)[0], "data": {"value": world.admin()}})
    outside(world)
    world.look()
    assert world.certificate().not_valid_after_utc == world.guest.issuer[0].not_valid_after_utc


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "Secret guest-ca lacks tls.crt"),
        (
            {"tls.crt": pem_of(STRANGER[0]), "tls.key": pem_of(STRANGER[1])},
            "Secret guest-ca has another key",
        ),
    ],
    ids=["lost", "another"],
)
def test_nothing_is_signed_with_another_key(data: Json, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    outside(world, data)
    assert world.look() == TROUBLE_SECONDS
    assert world.ready() == ("False", "NotSigned")
    assert words in (condition(world.user(), "Ready") or {})["message"]
