"""How large claims and disks are: CDI adds room for a file system to a claim, and takes it off again for the disk.

The embedded volumes hold the disk's bytes directly, without a file system; the arithmetic is kept all the same, so
that a guest sees a disk of exactly the size that it would see on a real KubeVirt.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from harness.embedded.operands import FILESYSTEM_OVERHEAD
from harness.kube.client import Json
from harness.kube.objects import dig, quantity

ALIGNMENT = 1024 * 1024  # CDI aligns disk images to 1 MiB
OVERHEAD = Decimal(FILESYSTEM_OVERHEAD)


def claim_bytes(disk: int) -> int:
    """Return how large a claim must be to hold a disk of `disk` bytes."""
    return int((aligned(disk) * (1 + OVERHEAD)).to_integral_value(ROUND_CEILING))


def aligned(size: int) -> int:
    """Return a number of bytes rounded up to CDI's alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def disk_bytes(claim: Json) -> int:
    """Return how large a disk fits a claim, in bytes."""
    usable = int((requested_bytes(claim) / (1 + OVERHEAD)).to_integral_value(ROUND_FLOOR))
    return max(usable // ALIGNMENT * ALIGNMENT, ALIGNMENT)


def requested_bytes(claim: Json) -> int:
    """Return what a claim requests, in bytes."""
    return int(quantity(dig(claim, "spec", "resources", "requests", "storage") or 0).to_integral_value(ROUND_CEILING))
