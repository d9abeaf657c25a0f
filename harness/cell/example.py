"""The manifests of a cell as `vmatrix explain` shows them: without a run."""

from __future__ import annotations

from typing import Any

from harness.cell.manifests import CellPlan, GoldenImage, render_all
from harness.model import Cell
from harness.paths import project_dir


def example_manifests(cell: Cell) -> list[dict[str, Any]]:
    """Return the manifests of a cell with placeholders for what only a run knows."""
    plan = CellPlan(
        namespace=f"vmatrix-{cell.id}-RUN-1",
        labels={"vmatrix.dev/cell": cell.id},
        expires_at=0.0,
        public_key="ssh-ed25519 PUBLIC-KEY-OF-THE-CELL",
        dns_domain=str(cell.vars.get("cluster_dns_domain", "cluster.local")),
        storage_class=None,
    )
    image = GoldenImage(
        name=f"{cell.machines[0].image}-CHECKSUM",
        url="http://MIRROR/images/IMAGE.qcow2",
        checksum="sha256:CHECKSUM",
        size="10Gi",
        user="USER",
    )
    return render_all(plan, cell.machines, image, directory=project_dir() / "vm-templates")
