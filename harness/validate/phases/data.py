"""Data: marks written before each phase, and writes during one that the API acknowledged, must still be there."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.errors import VmatrixError
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
    """Return the phase that created the cluster that exists during a phase; a clone goes on with data of its source."""
    phases = cell.phases[: index + 1]
    bare = [number for number in range(index) if not cell.phases[number].cluster]
    bare = [
        n for n in bare if all(later_phase.data_of is None or later_phase.data_of > n for later_phase in phases[n:])
    ]
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


def clones(cell: Cell, index: int) -> bool:
    """Tell whether a phase begins a cluster with the data of one that is not there any more."""
    return data_expected(cell, index) and index > 0 and not cell.phases[index - 1].cluster


def later_marks(cell: Cell, index: int, written: Mapping[int, str], marks: Mapping[str, str]) -> list[Mismatch]:
    """Return data that exist although they were written after the backup that a clone was made of."""
    later = {number: mark for number, mark in written.items() if (cell.phases[index].data_of or 0) < number < index}
    if not later:
        return [Mismatch("after the backup", "data written into its source", "none")]
    return [
        Mismatch(f"before {cell.stage(number)}", "none of what came after the backup", f"its mark {mark}")
        for number, mark in later.items()
        if mark in marks.values()
    ]


def lost_marks(cell: Cell, index: int, written: Mapping[int, str], marks: Mapping[str, str]) -> list[Mismatch]:
    """Return data that were written and are missing or changed.

    Args:
        written: marks by the index of the phase before which they were written.  marks: those in the cluster, by name.
    """
    result: list[Mismatch] = []
    for number in lasting(cell, index):
        name = cell.stage(number)
        mark = written.get(number)
        if mark is None:
            result.append(Mismatch(f"before {name}", "data written into the cluster", "none"))
        else:
            result += differs(f"ConfigMap {LIFE}/{name}", "mark", mark, marks.get(name))
    return result


def old_marks(cell: Cell, index: int, written: Mapping[int, str], marks: Mapping[str, str]) -> list[Mismatch]:
    """Return data that exist although they were written into an earlier cluster."""
    before = {number: mark for number, mark in written.items() if number < index}
    if not before:
        return [Mismatch("the cluster before", "data written into it", "none")]
    return [
        Mismatch(f"before {cell.stage(number)}", "none of its data in the new cluster", f"its mark {mark}")
        for number, mark in before.items()
        if mark in marks.values()
    ]


NAME = "acknowledged"
PAUSE_SECONDS = 0.1  # between writes, and before the next try
JOIN_SECONDS = 60.0  # the longest request ends within the client's own time-outs


@dataclass
class Writer:
    """Adds one key after the other to a ConfigMap: a write that is lost is a key that is missing.

    acknowledged: the keys whose writes the API has answered with success.
    """

    api: Cluster
    acknowledged: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to write.

        Raises:
            VmatrixError: the ConfigMap cannot be made.
        """
        ensure_namespace(self.api, LIFE)
        metadata = {"name": NAME, "namespace": LIFE}
        self.api.ensure(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}})
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._stop.wait(PAUSE_SECONDS):
            key, number = f"{number:06}", number + 1
            try:
                self.api.merge(CONFIG_MAP, NAME, {"data": {key: ""}}, LIFE)
            except VmatrixError:
                continue  # not acknowledged: it may be there or not
            self.acknowledged.append(key)

    def stop(self) -> None:
        """Write no more. Idempotent."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)


def written(api: Cluster) -> list[str]:
    """Return the keys that are there."""
    return sorted((api.get(CONFIG_MAP, NAME, LIFE) or {}).get("data") or {})
