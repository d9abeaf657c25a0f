"""Certificates of a server of our own, by a clock that a test moves."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from harness.errors import BadInput
from harness.kube.serving import (
    AUTHORITY_LIFETIME,
    LIFETIME,
    Health,
    ServingPair,
    begun,
    expires,
    health_served,
    renewed,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ["hooks.ns.svc", "192.0.2.7"]


def made() -> ServingPair:
    return begun("hooks", NAMES, NOW)


def authorities(found: ServingPair) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(found.bundle)


def leaf(found: ServingPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(found.certificate)


def test_the_authority_signs_what_has_all_names() -> None:
    found = made()
    leaf(found).verify_directly_issued_by(authorities(found)[0])
    names = leaf(found).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hooks.ns.svc"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.7"]


def test_nothing_is_renewed_before_it_is_due() -> None:
    found = made()
    assert renewed(found, NAMES, NOW + 0.59 * LIFETIME, believed=True) == found


def test_a_certificate_is_renewed_before_two_thirds_of_its_lifetime() -> None:
    found, later = made(), NOW + LIFETIME * 2 / 3
    new = renewed(found, NAMES, later, believed=True)
    assert (new.bundle, new.authority_key) == (found.bundle, found.authority_key)
    assert expires(new) == later + LIFETIME
    assert renewed(new, NAMES, later, believed=True) == new


def test_another_name_is_signed_at_once() -> None:
    new = renewed(made(), [*NAMES, "192.0.2.8"], NOW, believed=True)
    names = leaf(new).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {str(one) for one in names.get_values_for_type(x509.IPAddress)} == {"192.0.2.7", "192.0.2.8"}


def test_a_new_authority_signs_nothing_before_it_is_believed() -> None:
    found, later = made(), NOW + AUTHORITY_LIFETIME * 2 / 3
    first = renewed(found, NAMES, later, believed=True)
    assert [one.serial_number for one in authorities(first)][1:] == [authorities(found)[0].serial_number]
    assert first.certificate == found.certificate, "by the old authority, which all believe"
    assert renewed(first, NAMES, later, believed=False) == first
    second = renewed(first, NAMES, later, believed=True)
    assert second.bundle == first.bundle
    leaf(second).verify_directly_issued_by(authorities(second)[0])
    over = renewed(second, NAMES, NOW + AUTHORITY_LIFETIME + timedelta(seconds=1), believed=True)
    assert [one.serial_number for one in authorities(over)] == [authorities(second)[0].serial_number]


def test_what_is_no_certificate_is_said_to_be_none() -> None:
    with pytest.raises(ValueError, match=r"."):
        renewed(ServingPair(b"x", b"x", b"x", b"x"), NAMES, NOW, believed=True)


SECONDS = 60.0


class Patient:
    """A process whose state the test decides."""

    def __init__(self) -> None:
        self.trouble, self.waiting, self.port = "", "", 0
        self.health = Health(lambda: self.trouble, lambda: self.waiting, lambda: "some_metric 1\n")

    def ask(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


@pytest.fixture
def patient() -> Iterator[Patient]:
    made = Patient()
    with health_served(made.health, 0, "127.0.0.1", hint="--another-port") as made.port:
        yield made


def test_process_that_works_is_healthy_and_ready(patient: Patient) -> None:
    assert patient.ask("/healthz") == patient.ask("/readyz") == (200, "ok\n")


def test_process_that_waits_is_healthy_and_not_ready(patient: Patient) -> None:
    patient.waiting = "waiting for the first lists"
    assert patient.ask("/healthz") == (200, "ok\n")
    assert patient.ask("/readyz") == (503, "waiting for the first lists\n")


def test_process_that_sees_nothing_any_more_is_neither(patient: Patient) -> None:
    patient.trouble = "nothing is seen any more of jobs"
    assert patient.ask("/healthz") == patient.ask("/readyz") == (503, "nothing is seen any more of jobs\n")


def test_metrics_are_plain_text_and_other_paths_are_not_there(patient: Patient) -> None:
    assert patient.ask("/metrics") == (200, "some_metric 1\n")
    assert patient.ask("/other")[0] == 404


def test_port_that_is_taken_is_refused(patient: Patient) -> None:
    taken = health_served(Health(str, str, str), patient.port, "127.0.0.1", hint="--another-port")
    with pytest.raises(BadInput, match=f"cannot listen on port {patient.port}") as refused, taken:
        pass
    assert "--another-port" in refused.value.hint
