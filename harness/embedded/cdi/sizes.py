"""How large claims and disks are: CDI adds room for a file system to a claim, and takes it off again for the disk.

The embedded volumes hold the disk's bytes directly, without a file system; the arithmetic is kept all the same, so
that a guest sees a disk of exactly the size that it would see on a real KubeVirt.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from harness.embedded.objects import dig, quantity
from harness.kube.client import Json

ALIGNMENT = 1024 * 1024  # CDI aligns disk images to 1 MiB
DEFAULT_OVERHEAD = Decimal("0.06")  # CDIConfig's filesystemOverhead when nobody set another
FILESYSTEM = "Filesystem"
BLOCK = "Block"


def overhead_of(config: Json | None, storage_class: str) -> Decimal:
    """Return the share that CDIConfig reserves for file systems on a storage class."""
    table = dig(config, "status", "filesystemOverhead") or {}
    text = (table.get("storageClass") or {}).get(storage_class) or table.get("global")
    return Decimal(text) if text else DEFAULT_OVERHEAD


def claim_bytes(disk: int, overhead: Decimal) -> int:
    """Return how large a Filesystem claim must be to hold a disk of `disk` bytes."""
    aligned = -(-disk // ALIGNMENT) * ALIGNMENT
    return int((aligned * (1 + overhead)).to_integral_value(ROUND_CEILING))


def disk_bytes(claim: int, overhead: Decimal, volume_mode: str) -> int:
    """Return how large a disk fits a claim: all of a Block claim, what the file system leaves of a Filesystem claim."""
    if volume_mode == BLOCK:
        return claim
    usable = int((claim / (1 + overhead)).to_integral_value(ROUND_FLOOR))
    return max(usable // ALIGNMENT * ALIGNMENT, ALIGNMENT)


def requested_bytes(claim: Json) -> int:
    """Return what a claim requests, in bytes."""
    return int(quantity(dig(claim, "spec", "resources", "requests", "storage") or 0).to_integral_value(ROUND_CEILING))
