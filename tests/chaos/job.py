"""A job that makes a cell and waits for its end: `python -m tests.chaos.job INSTANCE FOLDER RUN IMAGE URL CHECKSUM`."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from pathlib import Path

from harness.kube import Cluster
from harness.machines.kubevirt.manifests import GoldenImage
from tests.chaos.cells import Ground, bring_up
from tests.embedded.conftest import provider_of


def main(instance: str, folder: str, run: str, name: str, url: str, checksum: str) -> None:
    """Make the cell, one that has expired already, say so, and wait."""
    provider = provider_of(instance)
    image = GoldenImage(name, url, checksum, "16Mi", "debian")
    ground = Ground(provider, Cluster.from_kubeconfig(provider.kubeconfig()), image, Path(folder))
    bring_up(ground.life(replace(ground.site(), expiry_hours=0.0), run=run))
    print("up", flush=True)  # noqa: T201 - the test waits for it
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
