"""What is on this host's disk for a claim."""

from __future__ import annotations

from pathlib import Path

from harness.kube.client import Cluster
from harness.kube.resources import PVC
from harness.providers.embedded import EmbeddedProvider


def disk_of(infra: EmbeddedProvider, cluster: Cluster, namespace: str, claim: str) -> Path:
    """Return the disk file behind a bound claim."""
    found = cluster.get(PVC, claim, namespace)
    assert found is not None
    return infra.layout.disks / f"{found['spec']['volumeName']}.raw"


def begins_with(disk: Path, content: bytes) -> bool:
    """Tell whether a disk begins with some bytes and holds nothing but zeros behind them."""
    with disk.open("rb") as opened:
        if opened.read(len(content)) != content:
            return False
        while block := opened.read(1024 * 1024):
            if block.strip(b"\0"):
                return False
    return True


def leftovers(infra: EmbeddedProvider) -> list[str]:
    """Return the unfinished transfers' files."""
    return [str(path) for path in (infra.layout.root / "scratch").glob("**/*")]
