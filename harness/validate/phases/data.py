"""Data that were written into a cluster before each phase, and which of them have to be there after a later one."""

from __future__ import annotations

from collections.abc import Mapping

from harness.kube import Cluster
from harness.kube.resources import CONFIG_MAP, NAMESPACE
from harness.model import Cell
from harness.validate.judge.mismatch import Mismatch, differs

LIFE = "vmatrix-life"  # the namespace in a guest of everything that is there to be looked at through its phases
MARK = "mark"


def ensure_namespace(api: Cluster) -> None:
    """Make the namespace, unless it is there."""
    api.ensure(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LIFE}})


def leave(api: Cluster, name: str, mark: str) -> None:
    """Write data into the cluster that can be recognised: a ConfigMap of that name with a mark of one's own."""
    ensure_namespace(api)
    metadata = {"name": name, "namespace": LIFE}
    api.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {MARK: mark}})


def found(api: Cluster) -> dict[str, str]:
    """Return every mark in the cluster, by name."""
    items = api.list(CONFIG_MAP, LIFE).items
    return {item["metadata"]["name"]: item["data"][MARK] for item in items if MARK in (item.get("data") or {})}


def began(cell: Cell, index: int) -> int:
    """Return the phase that made the cluster which is there during a phase."""
    bare = [number for number in range(index) if not cell.phases[number].cluster]
    return bare[-1] + 1 if bare else 0


def lasting(cell: Cell, index: int) -> tuple[int, ...]:
    """Return the phases before which was written what has to be there after a phase."""
    first = began(cell, index)
    restored = [(phase.data_of, at) for at, phase in enumerate(cell.phases[: index + 1]) if phase.data_of is not None]
    lost = {number for data_of, at in restored for number in range(data_of + 1, at + 1)}
    return tuple(number for number in range(first + 1, index + 1) if number not in lost)


def data_expected(cell: Cell, index: int) -> bool:
    """Tell whether anything was written that has to be there after a phase."""
    return cell.phases[index].cluster and bool(lasting(cell, index))


def data_of_another_cluster(cell: Cell, index: int) -> bool:
    """Tell whether a phase makes a cluster on machines that had one before."""
    return cell.phases[index].cluster and 0 < began(cell, index) == index


def lost_marks(cell: Cell, index: int, written: Mapping[int, str], seen: Mapping[str, str]) -> list[Mismatch]:
    """Return what was written and is not there, or is something else.

    Args:
        written: marks by the index of the phase before which they were written.  seen: marks in the cluster, by name.
    """
    result: list[Mismatch] = []
    for number in lasting(cell, index):
        name = cell.stage(number)
        mark = written.get(number)
        if mark is None:
            result.append(Mismatch(f"before {name}", "data written into the cluster", "none was written"))
        else:
            result += differs(f"ConfigMap {LIFE}/{name}", "mark", mark, seen.get(name))
    return result


def old_marks(cell: Cell, index: int, written: Mapping[int, str], seen: Mapping[str, str]) -> list[Mismatch]:
    """Return what is there although it was written into a cluster before this one."""
    before = {number: mark for number, mark in written.items() if number < index}
    if not before:
        return [Mismatch("the cluster before", "data written into it", "none was written")]
    return [
        Mismatch(f"before {cell.stage(number)}", "nothing of it in the new cluster", f"its mark, {mark}")
        for number, mark in before.items()
        if mark in seen.values()
    ]
