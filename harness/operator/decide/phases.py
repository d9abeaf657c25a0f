"""Whether playbooks that are not vmatrix's own have what an operation needs."""

from __future__ import annotations

from harness.operator.decide.desired import Desired
from harness.operator.decide.product_file import FIELD, phase_of
from harness.operator.decide.waits import Wait, WaitReason


def no_phase(operation: str, desired: Desired) -> Wait | None:
    """Return why an operation cannot be carried out by the product of a wish; None where it can.

    While nobody can read the product file nothing begins, a reset for a deletion included: vmatrix's own playbooks
    know nothing of what others have made.
    """
    if desired.spec.playbooks.product is None:
        return None
    if desired.product is None:
        why = "; ".join(desired.refused) or f"{FIELD}: it is not known"
        return Wait(WaitReason.NOT_ACCEPTED, why)
    if desired.product.playbook(operation) is not None:
        return None
    product, phase = desired.product.product, phase_of(operation)
    have = ", ".join(product.phases)
    said = f"{FIELD}: {product.name} has no phase {phase}, which {operation} needs; it has {have}"
    leave = " (or set spec.deletion.machines to Leave)" if desired.deleting else ", or put the changed fields back"
    return Wait(WaitReason.NO_SUCH_PHASE, f"{said}: add it to the product file{leave}")
