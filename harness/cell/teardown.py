"""Remove cells: from any process on any machine, any number of times."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import count
from threading import BoundedSemaphore

from harness.cell import finalizers
from harness.cell.existing import CellSelector, ExistingCell, find
from harness.errors import BadInput, Leaked
from harness.kube.client import ApiFailure, Cluster, Json, Unreachable
from harness.kube.resources import DATA_VOLUME, NAMESPACE, NETWORK_POLICY, POD, PVC, VM, VMI, Resource
from harness.machines.reach.ssh import close_connections, control_directory
from harness.until import Deadline, NotYet, TimedOut, heartbeat, until

AGE_SECONDS = 0.3  # of a look that is still good: a hundred who ask at once cost the API three answers a second
EACH_SECONDS = 0.002  # more for each namespace that it showed: a thousand are a megabyte


class Going:
    """The namespaces that a label selector picks, as the API last showed them."""

    def __init__(self, cluster: Cluster, labels: str) -> None:
        self._cluster = cluster
        self._labels = labels
        self._lock = threading.Lock()
        self._seen: dict[str, Json] = {}
        self._good_until = 0.0

    def find(self, name: str) -> Json | None:
        """Return a namespace, None once it is gone."""
        with self._lock:
            if time.monotonic() > self._good_until:
                namespaces = self._cluster.list(NAMESPACE, labels=self._labels).items
                self._seen = {namespace["metadata"]["name"]: namespace for namespace in namespaces}
                self._good_until = time.monotonic() + AGE_SECONDS + EACH_SECONDS * len(namespaces)
            return self._seen.get(name)


ORDER = (VM, VMI, DATA_VOLUME, PVC, POD)
EMPTYING = 8  # cells at once that take requests
WAIT_SECONDS = 10.0  # between two lines that say what is waited for
GOING = 128  # cells at once whose namespaces the API takes away: at 20 requests a second, the last waits some 100 s
PROGRAMS_SECONDS = 15.0  # what a namespace takes that is deleted with a pod in it that may end within 30 s
AGAIN = (
    "repeat `vmatrix reap` with the same options; if something remains, the detail names what holds it, "
    "and --remove-finalizers removes it anyway"
)
FIRST_LOOK_SECONDS, LAST_LOOK_SECONDS = 0.1, 2.0  # what goes soon is seen soon, what is slow costs few requests


def reap(
    cluster: Cluster,
    selector: CellSelector,
    *,
    seconds: float,
    on_gone: Callable[[ExistingCell], None] = lambda _: None,
    on_left: Callable[[int], None] = lambda _: None,
    on_wait: Callable[[str], None] | None = None,
) -> list[ExistingCell]:
    """Remove every selected cell, many at the same time, and return them.

    Args:
        seconds: for each cell, from the first delete until its namespace is gone.
        on_gone: told each cell that is gone.
        on_left: told how many are still to go, after each that is gone.
        on_wait: told every 10 s what is waited for.

    Raises:
        Leaked: something could not be removed; the error names it, and what holds it.
    """
    if not (cells := find(cluster, selector)):
        return []
    emptying, going, left = BoundedSemaphore(EMPTYING), Going(cluster, selector.labels()), count(len(cells) - 1, -1)

    def remove(cell: ExistingCell) -> Leaked | None:
        try:
            with emptying:
                deadline = Deadline.after(seconds)
                empty(cluster, cell, deadline=deadline)
            if not cell.shared:
                _wait_for_namespace(cluster, cell, going, deadline)
        except TimedOut as late:
            return Leaked(f"{cell.what} still exists: {late.summary}", detail=late.detail)
        except (ApiFailure, Unreachable) as refused:  # one that may not be touched does not keep the others
            return Leaked(f"{cell.what} could not be removed: {refused.summary}", hint=refused.hint)
        close_connections(control_directory(cell.run, cell.cell))
        on_gone(cell)
        on_left(next(left))
        return None

    waits: AbstractContextManager[None] = heartbeat(on_wait, every=WAIT_SECONDS) if on_wait else nullcontext()
    with waits, ThreadPoolExecutor(max_workers=min(GOING, len(cells))) as pool:
        leaks = [leak for leak in pool.map(remove, cells) if leak is not None]
    if leaks:
        raise Leaked(
            "; ".join(leak.summary for leak in leaks),
            hint="; ".join(dict.fromkeys(leak.hint or AGAIN for leak in leaks)),
            detail="\n".join(leak.detail for leak in leaks),
        )
    return cells


def empty(cluster: Cluster, cell: ExistingCell, *, deadline: Deadline) -> None:
    """Delete what is in a cell in the order that hangs least (machines, disks), and its own namespace last.

    Return once machines are gone, and everything of a cell in a shared namespace.

    Raises:
        TimedOut: they still exist; the detail names what remains and the namespace's own conditions.
    """
    namespace = cell.namespace
    if cell.declared:
        finalizers.stop_programs(cluster, namespace)  # they end while machines do
    destroy(cluster, namespace, cell.selector, deadline=deadline)
    for obj in items(cluster, DATA_VOLUME, namespace, cell.selector):
        cluster.delete(DATA_VOLUME, obj["metadata"]["name"], namespace)
    if cell.shared:  # a disk's claim and its machine's secret are the garbage collector's
        for obj in items(cluster, NETWORK_POLICY, namespace, cell.selector):
            cluster.delete(NETWORK_POLICY, obj["metadata"]["name"], namespace)
        kinds = (DATA_VOLUME, PVC, NETWORK_POLICY)
        _wait_until_gone(cluster, namespace, cell.selector, kinds, f"{cell.what} to be gone", deadline)
        return
    if cell.declared:
        _wait_until_stopped(cluster, namespace, deadline)
    cluster.delete(NAMESPACE, namespace)


def _wait_for_namespace(cluster: Cluster, cell: ExistingCell, going: Going, deadline: Deadline) -> None:
    def gone() -> bool | NotYet:
        namespace = going.find(cell.namespace)
        if namespace is None:
            return True
        if finalizers.DECLARED_KINDS in (namespace["metadata"].get("annotations") or {}):
            finalizers.let_go(cluster, cell.namespace)
        return NotYet(f"phase {namespace['status'].get('phase')}")

    until(
        gone,
        deadline=deadline,
        what=f"{cell.what} to be gone",
        describe=lambda: describe(cluster, cell.namespace, cell.selector),
        interval=FIRST_LOOK_SECONDS,
        slowest=LAST_LOOK_SECONDS,
    )


def destroy(cluster: Cluster, namespace: str, selector: str, *, deadline: Deadline) -> None:
    """Delete the machines that a label selector picks, with no grace for their guests, and wait until they are gone.

    Raises:
        TimedOut: some still exist.
    """
    for vm in items(cluster, VM, namespace, selector):
        cluster.delete(VM, vm["metadata"]["name"], namespace, grace=0)
    _wait_until_gone(cluster, namespace, selector, (VM, VMI), f"the machines of {namespace} to be gone", deadline)


def _wait_until_stopped(cluster: Cluster, namespace: str, deadline: Deadline) -> None:
    """Wait until no program of a declared product is left in a namespace, or that would save no time any more."""
    with suppress(TimedOut):
        until(
            lambda: finalizers.stop_programs(cluster, namespace) or NotYet("pods are left"),
            deadline=Deadline.after(min(PROGRAMS_SECONDS, deadline.remaining())),
            what=f"the controllers of {namespace} to be gone",
            interval=FIRST_LOOK_SECONDS,
            slowest=LAST_LOOK_SECONDS,
        )


def _wait_until_gone(
    cluster: Cluster, namespace: str, selector: str, kinds: Iterable[Resource], what: str, deadline: Deadline
) -> None:
    def gone() -> bool | NotYet:
        left = {o["metadata"]["name"] for kind in kinds for o in items(cluster, kind, namespace, selector)}
        return NotYet(f"left: {', '.join(sorted(left))}") if left else True

    until(
        gone,
        deadline=deadline,
        what=what,
        describe=lambda: describe(cluster, namespace, selector),
        interval=FIRST_LOOK_SECONDS,
        slowest=LAST_LOOK_SECONDS,
    )


def items(cluster: Cluster, resource: Resource, namespace: str, selector: str) -> Iterable[Json]:
    """Return a cell's objects of a kind; none of a kind that the API does not serve.

    Nor policies for whoever may not look at them: an older role has made none.
    """
    try:
        return cluster.list(resource, namespace, labels=selector).items
    except ApiFailure as failure:
        if failure.not_found or (failure.forbidden and resource is NETWORK_POLICY):
            return []
        raise


def describe(cluster: Cluster, namespace: str, selector: str) -> str:
    """Return what is left in a namespace, or of a selector's objects in it, and the API's reasons for it."""
    status = {} if selector else (cluster.get(NAMESPACE, namespace) or {}).get("status") or {}
    lines = [
        f"{condition['type']}: {condition.get('message', '')}"
        for condition in status.get("conditions") or []
        if condition["status"] == "True"
    ]
    for resource in ORDER:
        for obj in items(cluster, resource, namespace, selector):
            meta = obj["metadata"]
            lines.append(f"{resource.kind} {meta['name']}: finalizers {', '.join(meta.get('finalizers') or ['none'])}")
    lines += [] if selector else finalizers.described(cluster, namespace)
    return "\n".join(lines)


def remove_finalizers(
    cluster: Cluster,
    selector: CellSelector,
    *,
    seconds: float,
    on_gone: Callable[[ExistingCell], None] = lambda _: None,
    on_released: Callable[[str], None] = lambda _: None,
    on_wait: Callable[[str], None] | None = None,
) -> list[ExistingCell]:
    """Remove cells; remove the finalizers of what is left, and wait again.

    Args:
        seconds: for each cell, twice.
        on_gone, on_released: told each cell that is gone, and each object whose finalizers were removed.
        on_wait: as `reap` takes it.

    Raises:
        Leaked: something still remains.  BadInput: these rights do not allow removing finalizers.
    """
    try:
        return reap(cluster, selector, seconds=seconds, on_gone=on_gone, on_wait=on_wait)
    except Leaked:
        left = find(cluster, selector)
    for cell in left:
        for told in release(cluster, cell):
            on_released(told)
    return [*left, *reap(cluster, selector, seconds=seconds, on_gone=on_gone, on_wait=on_wait)] if left else []


def release(cluster: Cluster, cell: ExistingCell) -> list[str]:
    """Remove the finalizers of a cell's objects that are being deleted; return what was touched, for a person.

    Raises:
        BadInput: these rights do not allow it.
    """
    touched = []
    for resource in ORDER:
        for obj in items(cluster, resource, cell.namespace, cell.selector):
            meta = obj["metadata"]
            if meta.get("deletionTimestamp") and meta.get("finalizers"):
                _strip(cluster, resource, obj)
                held = ", ".join(meta["finalizers"])
                touched.append(f"{resource.kind} {cell.namespace}/{meta['name']}: {held}")
    return touched


def _strip(cluster: Cluster, resource: Resource, obj: Json) -> None:
    meta = obj["metadata"]
    patch = {"metadata": {"uid": meta["uid"], "finalizers": None}}
    try:
        cluster.merge(resource, meta["name"], patch, meta["namespace"])
    except ApiFailure as refused:
        if refused.forbidden:
            raise BadInput(
                f"the finalizers of {resource.kind} {meta['name']} cannot be removed: {refused.message}",
                hint="ask the infra cluster's owner, or use an administrator's kubeconfig",
            ) from refused
        if not refused.not_found:
            raise
