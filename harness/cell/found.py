"""Cells that exist in the infra cluster, found by label, whoever made them."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from harness.cell.declared_kinds import DECLARED_KINDS
from harness.cell.labels import LABEL_PROJECT, expired
from harness.cell.place import selector_of
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.resources import DATA_VOLUME, NAMESPACE, NETWORK_POLICY, VM, Resource
from harness.model import LABEL_ATTEMPT, LABEL_CELL, LABEL_EXPIRES, LABEL_MANAGED, LABEL_RUN, MANAGED_BY

MADE = (VM, DATA_VOLUME, NETWORK_POLICY)  # identify a cell in a namespace that cells share


@dataclass(frozen=True)
class Found:
    """A cell that exists in the infra cluster.

    expires_at: when anyone may take it away, in seconds since the epoch; None: its label does not say, so never.
    shared: whether its namespace is shared with other cells.  declared: whether its product's objects are in it.
    """

    namespace: str
    run: str
    cell: str
    attempt: int
    expires_at: float | None
    phase: str
    shared: bool = False
    declared: bool = False

    @property
    def selector(self) -> str:
        """Return the label selector of its objects, "" where it has a separate namespace."""
        return selector_of(self.run, self.cell, self.attempt) if self.shared else ""

    @property
    def what(self) -> str:
        """Return what is deleted with it, for a person."""
        own = f"namespace {self.namespace}"
        return f"{self.cell} of run {self.run} in {own}" if self.shared else own


@dataclass(frozen=True)
class CellSelector:
    """Which cells: of a run, of a cell id, only expired ones, or all; never those in `besides`.

    namespace: the one that cells share; None: each has a separate one.
    project: of a CI whose jobs made them; None: of any, or of none.
    """

    run: str | None = None
    cell: str | None = None
    only_expired: bool = False
    besides: frozenset[str] = frozenset()
    namespace: str | None = None
    project: str | None = None

    def labels(self) -> str:
        """Return the label selector."""
        own = {LABEL_RUN: self.run, LABEL_CELL: self.cell, LABEL_PROJECT: self.project}
        pairs = [f"{label}={value}" for label, value in ({LABEL_MANAGED: MANAGED_BY} | own).items() if value]
        return ",".join([*pairs, *([] if self.cell else [LABEL_CELL])])


def find(cluster: Cluster, selector: CellSelector) -> list[Found]:
    """Return the selected cells, oldest first."""
    where = selector.namespace
    kinds = (NAMESPACE,) if where is None else MADE
    objects = [obj for kind in kinds for obj in _listed(cluster, kind, where, selector.labels())]
    objects.sort(key=lambda n: str(n["metadata"].get("creationTimestamp", "")))
    chosen = [n for n in objects if not selector.only_expired or expired(n["metadata"].get("labels") or {})]
    each = {(found.run, found.cell, found.attempt): found for found in (_found(obj, where) for obj in reversed(chosen))}
    return [found for found in reversed(each.values()) if found.cell not in selector.besides]


def _listed(cluster: Cluster, kind: Resource, namespace: str | None, labels: str) -> list[Json]:
    """Return a cell's objects of a kind; whoever may not look at policies, of an older role, has made none."""
    try:
        return cluster.list(kind, namespace, labels=labels).items
    except ApiFailure as failure:
        if kind is NETWORK_POLICY and failure.forbidden:
            return []
        raise


def _found(obj: Json, shared: str | None) -> Found:
    labels = obj["metadata"].get("labels") or {}
    return Found(
        namespace=obj["metadata"]["name"] if shared is None else shared,
        run=labels.get(LABEL_RUN, ""),
        cell=labels.get(LABEL_CELL, ""),
        attempt=int(_number(labels, LABEL_ATTEMPT) or 1),
        expires_at=_number(labels, LABEL_EXPIRES),
        phase=(obj.get("status") or {}).get("phase", "") if shared is None else "",
        shared=shared is not None,
        declared=shared is None and DECLARED_KINDS in (obj["metadata"].get("annotations") or {}),
    )


def _number(labels: Json, label: str) -> float | None:
    """Return the number of a label; None without one, and where somebody has written something else."""
    try:
        found = float(labels[label])
    except (KeyError, ValueError):
        return None
    return found if isfinite(found) else None
