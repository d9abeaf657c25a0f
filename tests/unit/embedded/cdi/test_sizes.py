"""A claim has room for its disk, and a disk is as large as was asked for."""

from __future__ import annotations

import pytest

from harness.embedded.cdi.sizes import claim_bytes, disk_bytes

GIB = 1024**3


def test_a_claim_is_as_large_as_the_recorded_one() -> None:
    assert claim_bytes(4 * GIB) == 4552665334


@pytest.mark.parametrize("gib", [1, 2, 4, 6, 7, 10, 64])
def test_the_disk_of_a_claim_has_the_size_that_was_asked_for(gib: int) -> None:
    claim = {"spec": {"resources": {"requests": {"storage": str(claim_bytes(gib * GIB))}}}}
    assert disk_bytes(claim) == gib * GIB
