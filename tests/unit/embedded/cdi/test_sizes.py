"""A claim has room for its disk, and a disk is as large as was asked for."""

from __future__ import annotations

from decimal import Decimal

import pytest

from harness.embedded.cdi.sizes import claim_bytes, disk_bytes, overhead_of

GIB = 1024**3
OVERHEAD = Decimal("0.06")


def test_a_claim_is_as_large_as_the_recorded_one() -> None:
    assert claim_bytes(4 * GIB, OVERHEAD) == 4552665334


@pytest.mark.parametrize("gib", [1, 2, 4, 6, 7, 10, 64])
def test_the_disk_of_a_claim_has_the_size_that_was_asked_for(gib: int) -> None:
    assert disk_bytes(claim_bytes(gib * GIB, OVERHEAD), OVERHEAD, "Filesystem") == gib * GIB


def test_a_block_claim_is_all_disk() -> None:
    assert disk_bytes(5 * GIB + 512, OVERHEAD, "Block") == 5 * GIB + 512


def test_a_storage_class_may_have_an_overhead_of_its_own() -> None:
    config = {"status": {"filesystemOverhead": {"global": "0.06", "storageClass": {"local": "0.1"}}}}
    assert overhead_of(config, "local") == Decimal("0.1")
    assert overhead_of(config, "other") == Decimal("0.06")
    assert overhead_of(None, "local") == Decimal("0.06")
