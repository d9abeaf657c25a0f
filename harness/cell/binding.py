"""Which binding to the pod network cells can live with."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import BadInput
from harness.machines.kubevirt.manifests import MASQUERADE
from harness.model import Cell
from harness.spec.settings import Sourced


def refuse_masquerade(sourced: Sourced, cells: Sequence[Cell]) -> None:
    """Refuse masquerade for cells of more than one machine, before anything is made.

    Behind masquerade every guest has the address 10.0.2.2: kubelets register with it, etcd and API servers advertise it
    (kubevirt issue 10171). Raises BadInput when names the setting with its file and line, and the first such cell.
    """
    if sourced.settings.binding != MASQUERADE:
        return
    several = [cell for cell in cells if len(cell.machines) > 1]
    if several:
        first = several[0]
        others = f" and {len(several) - 1} more cells" if len(several) > 1 else ""
        raise BadInput(
            f"{sourced.origin['binding']}: binding: masquerade gives each machine the address 10.0.2.2, and "
            f"{first.id}{others} has {len(first.machines)} machines that have to reach each other",
            hint="set binding to bridge, or run cells of one machine: vmatrix run topology=all-in-one",
        )
