"""The webhooks' certificates on a real API: shared by managers, renewed by a clock, used without a restart."""

from __future__ import annotations

import http.client
import ssl
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from harness.kube.client import Cluster
from harness.kube.resources import SECRET
from harness.kube.serving import AUTHORITY_LIFETIME, LIFETIME, ServingPair, expires
from harness.operator.webhooks.certificates import Certificates
from harness.operator.webhooks.configurations import SECRET_NAME
from tests.embedded.operator.hooks import HERE, Served, serving
from tests.embedded.operator.recorded import Asked, RecordedCluster

CALL_SECONDS = 300.0  # against hanging


@dataclass
class Calendar:
    """The clock of all managers, which was behind; the API server has its own, which is right."""

    now: datetime

    def __call__(self) -> datetime:
        return self.now


def connection(served: Served) -> http.client.HTTPSConnection:
    """Return an open connection to the webhooks, of somebody who believes anything."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    made = http.client.HTTPSConnection(HERE, served.webhooks.port, context=context, timeout=CALL_SECONDS)
    made.connect()
    return made


def shown(made: http.client.HTTPSConnection) -> int:
    """Return the serial number of the certificate that a connection was shown."""
    assert isinstance(made.sock, ssl.SSLSocket)
    return x509.load_der_x509_certificate(made.sock.getpeercert(binary_form=True) or b"").serial_number


def answers(made: http.client.HTTPSConnection) -> bool:
    """Tell whether a connection is still served."""
    made.request("GET", "/healthz")
    answer = made.getresponse()
    answer.read()
    return answer.status == 200


def test_managers_share_what_the_first_one_made(api: Cluster, namespace: str) -> None:
    first, second = Certificates(api, namespace), Certificates(api, namespace)
    assert first.look() == second.look() == first.look()


def test_who_writes_at_the_same_moment_takes_what_the_other_wrote(
    api: Cluster, namespace: str, client: RecordedCluster
) -> None:
    other: list[ServingPair] = []

    def overtake(asked: Asked) -> None:
        if asked.writes and not other:
            other.append(Certificates(api, namespace).look())

    client.before = overtake
    assert [Certificates(client, namespace).look()] == other


def test_a_certificate_is_renewed_and_shown_without_a_restart(api: Cluster, namespace: str) -> None:
    calendar = Calendar(datetime.now(UTC) - LIFETIME * 2 / 3)
    with serving(api, namespace, Certificates(api, namespace, calendar)) as served:
        served.configure()
        with closing(connection(served)) as before:
            old = shown(before)
            served.webhooks.look()
            with closing(connection(served)) as same:
                assert shown(same) == old, "nothing was due"
            calendar.now += LIFETIME * 2 / 3
            served.webhooks.look()
            with closing(connection(served)) as after:
                assert shown(after) != old
                assert answers(before)
                assert answers(after)
        served.configure()  # the API server still believes it
        assert served.webhooks.expires == (calendar.now + LIFETIME).replace(microsecond=0).timestamp()


def test_a_new_authority_is_believed_beside_the_old_one(api: Cluster, namespace: str) -> None:
    calendar = Calendar(datetime.now(UTC) - AUTHORITY_LIFETIME * 2 / 3)
    certificates = Certificates(api, namespace, calendar)
    with serving(api, namespace, certificates) as served:
        served.apply()
        old = certificates.look()
        calendar.now += AUTHORITY_LIFETIME * 2 / 3
        found = certificates.look()
        assert found.bundle.endswith(old.bundle)
        authorities = x509.load_pem_x509_certificates(found.bundle)
        assert len(authorities) == 2
        x509.load_pem_x509_certificate(found.certificate).verify_directly_issued_by(authorities[0])
        served.configure()  # the API server believes what the new authority has signed
        calendar.now += AUTHORITY_LIFETIME * 1 / 3 + timedelta(days=1)
        assert len(x509.load_pem_x509_certificates(certificates.look().bundle)) == 1


@pytest.mark.parametrize(
    "data", [{"tls.crt": "bm8="}, dict.fromkeys(("ca.crt", "ca.key", "tls.crt", "tls.key"), "bm8=")]
)
def test_a_secret_with_something_else_in_it_is_made_anew(api: Cluster, namespace: str, data: dict[str, str]) -> None:
    api.create(SECRET, SECRET.manifest(SECRET_NAME, namespace, labels={}, data=data))
    found = Certificates(api, namespace).look()
    assert expires(found) > datetime.now(UTC)
    assert Certificates(api, namespace).look() == found
