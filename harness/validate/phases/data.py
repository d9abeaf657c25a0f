"""Data that are written into a cluster before each phase, and which of them must exist after a later one."""

from __future__ import annotations

from collections.abc import Mapping

from harness.kube import Cluster
from harness.kube.resources import CONFIG_MAP
from harness.model import Cell
from harness.validate.findings import Mismatch, differs
from harness.validate.pods import ensure_namespace

LIFE = "vmatrix-life"  # the guest's namespace of all that checks keep there through its phases
MARK = "mark"


def leave_mark(api: Cluster, name: str, mark: str) -> None:
    """Write a ConfigMap with a unique mark into the cluster."""
    ensure_namespace(api, LIFE)
    metadata = {"name": name, "namespace": LIFE}
    api.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {MARK: mark}})


def found_marks(api: Cluster) -> dict[str, str]:
    """Return every mark in the cluster, by name."""
    items = api.list(CONFIG_MAP, LIFE).items
    return {item["metadata"]["name"]: item["data"][MARK] for item in items if MARK in (item.get("data") or {})}


def began(cell: Cell, index: int) -> int:
    """Return the phase that created the cluster that exists during a phase."""
    bare = [number for number in range(index) if not cell.phases[number].cluster]
    return bare[-1] + 1 if bare else 0


def lasting(cell: Cell, index: int) -> tuple[int, ...]:
    """Return the phases before which data were written that must exist after a phase."""
    first = began(cell, index)
    restored = [(phase.data_of, at) for at, phase in enumerate(cell.phases[: index + 1]) if phase.data_of is not None]
    lost = {number for data_of, at in restored for number in range(data_of + 1, at + 1)}
    return tuple(number for number in range(first + 1, index + 1) if number not in lost)


def data_expected(cell: Cell, index: int) -> bool:
    """Tell whether data were written that must exist after a phase."""
    return cell.phases[index].cluster and bool(lasting(cell, index))


def data_of_another_cluster(cell: Cell, index: int) -> bool:
    """Tell whether a phase creates a cluster on machines that had one before."""
    return cell.phases[index].cluster and 0 < began(cell, index) == index


def lost_marks(cell: Cell, index: int, written: Mapping[int, str], seen: Mapping[str, str]) -> list[Mismatch]:
    """Return data that were written and are missing or changed.

    Args:
        written: marks by the index of the phase before which they were written.  seen: marks in the cluster, by name.
    """
    result: list[Mismatch] = []
    for number in lasting(cell, index):
        name = cell.stage(number)
        mark = written.get(number)
        if mark is None:
            result.append(Mismatch(f"before {name}", "data written into the cluster", "none"))
        else:
            result += differs(f"ConfigMap {LIFE}/{name}", "mark", mark, seen.get(name))
    return result


def old_marks(cell: Cell, index: int, written: Mapping[int, str], seen: Mapping[str, str]) -> list[Mismatch]:
    """Return data that exist although they were written into an earlier cluster."""
    before = {number: mark for number, mark in written.items() if number < index}
    if not before:
        return [Mismatch("the cluster before", "data written into it", "none")]
    return [
        Mismatch(f"before {cell.stage(number)}", "none of its data in the new cluster", f"its mark {mark}")
        for number, mark in before.items()
        if mark in seen.values()
    ]
