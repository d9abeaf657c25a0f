"""The address at which a node reaches the API on itself is the product's, or the one that its kubelet uses."""

from __future__ import annotations

import pytest

from harness.validate.phases.local_api import local_api
from tests.unit.validate import foreign, guests
from tests.unit.validate.foreign import SAID, UNSAID
from tests.unit.validate.moments import moment


def test_ours_is_what_our_product_says() -> None:
    found = local_api(guests.expected(), moment(), "w-0")
    assert (found.url, found.ca, found.why) == ("https://127.0.0.1:6445", "/etc/kubernetes/pki/ca.crt", "")


def test_a_product_that_does_not_say_has_what_kubelet_uses() -> None:
    found = local_api(foreign.expected(UNSAID), foreign.moment(UNSAID), "w-0")
    assert (found.url, found.ca) == ("https://localhost:6443", "/etc/kubernetes/kubelet.conf")


def test_a_product_that_says_wins() -> None:
    assert local_api(foreign.expected(SAID), foreign.moment(SAID), "w-0").url == "https://localhost:6443"


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ("https://10.222.1.2:6443", "its kubelet uses https://10.222.1.2:6443, which is no address of its own"),
        ("https://api.example.org", "which is no address of its own"),
        ("", "no process named kubelet runs"),
    ],
)
def test_an_address_of_another_machine_is_not_judged(server: str, why: str) -> None:
    seen = foreign.moment(UNSAID)
    object.__setattr__(seen.facts["w-0"], "kubelet", {"server": server})
    found = local_api(foreign.expected(UNSAID), seen, "w-0")
    assert found.url == ""
    assert why in found.why
