"""A cluster whose CAs an organisation has signed: it works, and whoever has others of the organisation is nobody.

The machine has Debian 12, whose Python does not take such a CA for trust by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from harness.kube import certificates
from harness.kube.certificates import Pair, leaf, pem_of
from harness.kube.objects import secret_data
from harness.kube.resources import SECRET
from harness.model import Cell
from harness.operator.api.resources import CLUSTER
from harness.spec import Spec
from tests.embedded.operator_live.lived import Lived, cell_of, living, site_of
from tests.faults.cells import Patient
from tests.faults.passes import one
from tests.faults.suites import Checks

PRODUCT = "operator"
YEAR = timedelta(days=365)
PKI = "/etc/kubernetes/pki"
STEMS: Mapping[str, str] = {"ca": "ca", "etcd": "etcd/ca", "proxy": "front-proxy-ca"}
ASKED = {
    "ca": (f"{PKI}/ca.crt", "https://127.0.0.1:6443/api/v1/namespaces/kube-system/secrets?limit=1"),
    "etcd": (f"{PKI}/etcd/ca.crt", "https://127.0.0.1:2379/health"),
}


def below(root: Pair, name: str) -> Pair:
    """Return a CA that the organisation's root has signed."""
    now, key = datetime.now(UTC), certificates.new_key()
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
        .issuer_name(root[0].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + YEAR)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return made.sign(root[1], hashes.SHA256()), key


@dataclass(frozen=True)
class Organisation:
    """A root, the CAs of the cluster below it, and that of another department."""

    root: Pair
    cas: Mapping[str, Pair]
    other: Pair

    def administrator(self, issuer: Pair) -> tuple[str, str]:
        """Return what a client shows as an administrator, with the CA that signed it, and its key."""
        certificate, key = leaf(
            issuer, "admin", now=datetime.now(UTC), lifetime=YEAR, organization="system:masters", client=True
        )
        return (pem_of(certificate) + pem_of(issuer[0])).decode(), pem_of(key).decode()


@pytest.fixture(scope="module")
def organisation() -> Organisation:
    """Return an organisation."""
    root = certificates.authority("organisation", datetime.now(UTC), YEAR, kubeadm=True)
    return Organisation(root, {name: below(root, f"clusters-{name}") for name in STEMS}, below(root, "laptops"))


@pytest.fixture(scope="module")
def planned(spec: Spec) -> Cell:
    """Return a cell of one machine."""
    return cell_of(spec, PRODUCT, topology="all-in-one", scenario="fresh", addons="core", os="debian-12")


@pytest.fixture(scope="module")
def lived(
    spec: Spec, planned: Cell, organisation: Organisation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lived]:
    """Return the cluster once it is deployed with CAs that were put into its Secrets, each with the root behind it."""
    directory = tmp_path_factory.mktemp("cell")
    with site_of(spec, [planned], "intermediate") as site, living(site, planned, directory) as life:
        life.provision()
        for name, ca in organisation.cas.items():
            content = {"tls.crt": pem_of(ca[0]) + pem_of(organisation.root[0]), "tls.key": pem_of(ca[1])}
            body = SECRET.manifest(f"guest-{name}", life.attempt.namespace, labels={}, data=secret_data(content))
            site.cluster.create(SECRET, body)
        life.apply(0)
        yield Lived.of(life)


def test_the_cluster_has_the_cas_alone(lived: Lived, organisation: Organisation) -> None:
    state = lived.get("guest", CLUSTER)["status"]["authority"]
    assert (state["usable"], [part["secret"] for part in state["parts"]]) == (
        True,
        ["guest-ca", "guest-etcd", "guest-proxy", "guest-sa"],
    )
    for name, stem in STEMS.items():
        text = lived.sh("cp-0", f"cat {PKI}/{stem}.crt")
        found = x509.load_pem_x509_certificates(text.encode())
        assert found == [organisation.cas[name][0]], name


@pytest.mark.parametrize("name", ASKED)
def test_only_who_its_own_ca_has_signed_is_somebody(name: str, lived: Lived, organisation: Organisation) -> None:
    ca, url = ASKED[name]
    answers = {}
    for who, issuer in (("own", organisation.cas[name]), ("other", organisation.other), ("root", organisation.root)):
        shown, key = organisation.administrator(issuer)
        lived.sh("cp-0", f"cat > /tmp/{who}.crt <<END\n{shown}END\ncat > /tmp/{who}.key <<END\n{key}END\n")
        call = f"curl -sS -m 10 -o /dev/null -w %{{http_code}} --cacert {ca} --cert /tmp/{who}.crt --key /tmp/{who}.key"
        answers[who] = lived.sh("cp-0", f"{call} {url} 2>&1 || true")
        lived.sh("cp-0", f"rm /tmp/{who}.crt /tmp/{who}.key")
    assert answers.pop("own") == "200"
    for who, answer in answers.items():
        assert answer.startswith("401") or "alert" in answer or answer.endswith("000"), f"{who}: {answer}"


def test_the_checks_find_nothing_wrong(lived: Lived, planned: Cell) -> None:
    life = lived.life
    product = life.site.product_of(planned)
    patient = Patient(life.guests[-1], product.cluster, life.site.mirror, life.site.timeouts)
    assert one(patient, Checks(planned, life.site.mirror)).said == ()
