"""Quantities and names as Kubernetes reads them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from harness.embedded.admission.instance_spec import is_mac, label_problems, quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [("2Gi", 2 * 2**30), ("500m", Decimal("0.5")), (4, 4), ("1e3", 1000), ("0", 0), (None, 0), ("many", 0), ("-1", -1)],
)
def test_a_quantity_is_read(text: object, value: Decimal | int) -> None:
    assert quantity(text) == value


@pytest.mark.parametrize(
    ("address", "fine"),
    [
        ("02:00:00:00:00:01", True),
        ("02-00-00-00-00-01", True),
        ("0200.0000.0001", True),
        ("zz:00", False),
        ("02:00", False),
    ],
)
def test_a_mac_address_is_known(address: str, fine: bool) -> None:
    assert is_mac(address) == fine


def test_names_are_judged_as_kubernetes_does() -> None:
    assert label_problems("cp-0") == []
    assert label_problems("cp-0.lab")
    assert label_problems("a" * 64)[0] == "must be no more than 63 characters"
