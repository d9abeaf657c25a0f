"""CAs that an issuer of cert-manager signs, on a real API server: what is asked, what is given, what goes with it.

The issuer is played: it signs whatever it is asked for. Where VMATRIX_CERT_MANAGER names cert-manager's program
`controller`, that runs beside the API server and signs instead.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from harness import proc
from harness.kube import certificates
from harness.kube.certificates import Pair, pem_of
from harness.kube.client import Cluster, Json
from harness.kube.failures import ApiFailure
from harness.kube.objects import condition, dig, secret_content, secret_data
from harness.kube.resources import CERTIFICATE_REQUEST, SECRET, Resource
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS
from tests.embedded.operator.served_kinds import serving

REAL = os.environ.get("VMATRIX_CERT_MANAGER", "")
ISSUER = {"kind": "ClusterIssuer", "name": "organisation"}
CLUSTER_ISSUER = Resource(CERTIFICATE_REQUEST.group, "v1", "clusterissuers", "ClusterIssuer", namespaced=False)
OTHERS = tuple(
    Resource(group, "v1", f"{kind.lower()}s", kind)
    for group, kinds in (
        (CERTIFICATE_REQUEST.group, ("Issuer", "Certificate")),
        (f"acme.{CERTIFICATE_REQUEST.group}", ("Order", "Challenge")),
    )
    for kind in kinds
)
SIGNED = ("one-ca", "one-etcd", "one-proxy")
YEAR = timedelta(days=365)


@pytest.fixture(scope="module")
def root() -> Pair:
    """Return the CA of the issuer."""
    return certificates.authority("organisation", datetime.now(UTC), YEAR, kubeadm=True)


@pytest.fixture(scope="module", autouse=True)
def _cert_manager(
    infra: EmbeddedProvider, api: Cluster, root: Pair, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Serve cert-manager's kinds, and have its program sign where there is one."""
    if not REAL:
        with serving(api, CERTIFICATE_REQUEST):
            yield
        return
    folder = tmp_path_factory.mktemp("cert-manager")
    with serving(api, CERTIFICATE_REQUEST, CLUSTER_ISSUER, *OTHERS):
        data = secret_data({"tls.crt": pem_of(root[0]), "tls.key": pem_of(root[1])})
        api.create(SECRET, SECRET.manifest(ISSUER["name"], "default", labels={}, type="kubernetes.io/tls", data=data))
        spec = {"ca": {"secretName": ISSUER["name"]}}
        api.create(CLUSTER_ISSUER, CLUSTER_ISSUER.manifest(ISSUER["name"], "", labels={}, spec=spec))
        where = ["--cluster-resource-namespace=default", "--leader-elect=false", "--metrics-listen-address=127.0.0.1:0"]
        argv = [*proc.ending_with_us(), REAL, f"--kubeconfig={infra.kubeconfig()}", *where]
        service = proc.spawn(argv, log=folder / "controller.log")
        try:
            yield
        finally:
            service.stop(grace=5)
            api.delete(SECRET, ISSUER["name"], "default")


@pytest.fixture
def sign(declared: Declared, root: Pair) -> Callable[[], None]:
    """Return what waits for three requests to the issuer and signs them."""

    def requests() -> list[Json] | NotYet:
        found = declared.api.list(CERTIFICATE_REQUEST, declared.namespace).items
        names = sorted(one["metadata"]["name"] for one in found if one["spec"]["issuerRef"]["name"] == ISSUER["name"])
        return found if names == [*SIGNED] else NotYet(f"there are {names}")

    def run() -> None:
        deadline = Deadline.after(WAIT_SECONDS)
        for request in until(requests, deadline=deadline, what="three requests", interval=INTERVAL):
            if not REAL:
                _sign(declared.api, request, root)

    return run


def _sign(api: Cluster, request: Json, root: Pair) -> None:
    csr, now = x509.load_pem_x509_csr(base64.b64decode(request["spec"]["request"])), datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(csr.subject)
        .issuer_name(root[0].subject)
        .public_key(csr.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + YEAR / 2)
        .add_extension(x509.BasicConstraints(ca=request["spec"]["isCA"], path_length=None), critical=True)
        .sign(root[1], hashes.SHA256())
    )
    ready = {"type": "Ready", "status": "True", "reason": "Issued", "message": "signed"}
    chain = base64.b64encode(pem_of(made) + pem_of(root[0])).decode()
    status = {"status": {"conditions": [ready], "certificate": chain}}
    meta = request["metadata"]
    api.merge(CERTIFICATE_REQUEST, meta["name"], status, meta["namespace"], subresource="status")


def usable(declared: Declared) -> Json:
    """Return the Cluster's state of its CAs once machines can be given them."""

    def is_usable(cluster: Json) -> bool:
        return bool(dig(cluster, "status", "authority", "usable"))

    found: Json = declared.wait("one", is_usable, "CAs that are usable", CLUSTER)["status"]["authority"]
    return found


def test_an_issuer_signs_the_cas_and_all_of_it_goes_with_the_object(
    declared: Declared, manager: StartManager, sign: Callable[[], None]
) -> None:
    manager("authority")
    declared.deployment("one", authority={"issuerRef": ISSUER})
    sign()

    parts = {part["name"]: part for part in usable(declared)["parts"]}
    assert sorted(parts) == ["ca", "etcd", "proxy", "sa"]
    issuers = set()
    for name in SIGNED:
        (certificate,) = x509.load_pem_x509_certificates(secret_content(declared.get(name, SECRET))["tls.crt"])
        assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        issuers.add(certificate.issuer)
        assert certificate.issuer != certificate.subject
    assert len(issuers) == 1
    for name in SIGNED:
        owners = declared.get(name, CERTIFICATE_REQUEST)["metadata"]["ownerReferences"]
        assert [owner["kind"] for owner in owners] == ["ClusterDeployment"]
    declared.api.delete(CLUSTER_DEPLOYMENT, "one", declared.namespace)
    for name in SIGNED:
        declared.gone(name, CERTIFICATE_REQUEST)
        declared.gone(name, SECRET)


def test_an_issuer_that_is_not_there_is_waited_for_and_may_be_taken_back(
    declared: Declared, manager: StartManager
) -> None:
    manager("authority")
    declared.deployment("one", authority={"issuerRef": {"name": "no-such-issuer"}})

    def waits(cluster: Json) -> bool:
        return bool(dig(cluster, "status", "authority", "reason") == "WaitingForIssuer")

    said = declared.wait("one", waits, "waiting for its issuer", CLUSTER)["status"]["authority"]["message"]
    assert "Issuer no-such-issuer has not signed CertificateRequest one-ca" in said
    declared.api.merge(CLUSTER_DEPLOYMENT, "one", {"spec": {"authority": None}}, declared.namespace)
    usable(declared)


@pytest.mark.parametrize(
    ("issuer", "field"),
    [
        ({"kind": "Issuer"}, "name"),
        ({"name": ""}, "name"),
        ({"name": "Upper"}, "name"),
        ({"name": "a", "kind": "issuer"}, "kind"),
        ({"name": "a", "group": "no group"}, "group"),
    ],
)
def test_an_issuer_that_cannot_be_one_is_refused(issuer: Json, field: str, declared: Declared) -> None:
    with pytest.raises(ApiFailure, match=rf"authority\.issuerRef\.{field}: "):
        declared.deployment("one", authority={"issuerRef": issuer})


def test_a_cluster_that_is_adopted_has_no_issuer(declared: Declared) -> None:
    with pytest.raises(ApiFailure, match="remove the Secrets and the issuer"):
        declared.deployment("one", adopt=True, authority={"issuerRef": ISSUER})


def test_the_condition_names_what_is_waited_for(
    declared: Declared, manager: StartManager, sign: Callable[[], None]
) -> None:
    manager("authority", "clusterdeployment")
    declared.deployment("one", authority={"issuerRef": {**ISSUER, "name": "no-such-issuer"}})

    def told(found: Json) -> bool:
        return (condition(found, "AuthorityValid") or {}).get("reason") == "WaitingForIssuer"

    declared.wait("one", told, "waiting", CLUSTER_DEPLOYMENT)
    declared.api.merge(CLUSTER_DEPLOYMENT, "one", {"spec": {"authority": {"issuerRef": ISSUER}}}, declared.namespace)
    sign()
    usable(declared)
