"""What specs leave: namespaces that are being deleted, and pods in them that take their time.

A spec deletes its namespace and does not wait for that. The namespace controller looks at it five seconds later, and
programs that do not hear SIGTERM, as many of the specs', have half a minute from then on. A kubelet that has told a
runtime of half a minute does not tell it of less: so pods are deleted in those five seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

from harness.errors import VmatrixError
from harness.kube import Cluster
from harness.kube.resources import NAMESPACE, POD
from harness.until import Deadline, NotYet, TimedOut, until

E2E_LABEL = "e2e-framework"  # every namespace of a spec has it (test/e2e/framework, CreateTestingNS)
GRACE_SECONDS = 1  # of a pod in a namespace that is being deleted
LOOK_SECONDS = 1.5  # between two looks while specs run: a few in the controller's pause


def hurry(api: Cluster) -> list[str]:
    """Delete the pods of specs that have ended, with little time to end by themselves; return which pods specs have."""
    ending = _ending(api)
    pods = [pod["metadata"] for pod in api.list(POD).items] if ending else []
    left = [pod for pod in pods if pod["namespace"] in ending]
    for pod in left:
        hasty = "deletionTimestamp" in pod and pod.get("deletionGracePeriodSeconds", 0) <= GRACE_SECONDS
        if ending[pod["namespace"]] and not hasty:
            api.delete(POD, pod["name"], pod["namespace"], grace=GRACE_SECONDS)
    return sorted(f"{pod['namespace']}/{pod['name']}" for pod in left)


@contextmanager
def hurried(api: Cluster) -> Iterator[None]:
    """Hurry the pods of specs that have ended, while others run."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            with suppress(VmatrixError):  # an API that has trouble, which specs see and say
                hurry(api)

    looks = threading.Thread(target=look, name="hurry", daemon=True)
    looks.start()
    try:
        yield
    finally:
        over.set()
        looks.join()


def specs_namespaces(api: Cluster) -> frozenset[str]:
    """Return the namespaces of specs that nobody has deleted: of a run that goes on, or that let them stay."""
    return frozenset(name for name, ends in _ending(api).items() if not ends)


def _ending(api: Cluster) -> dict[str, bool]:
    """Return of each namespace of specs whether it is being deleted."""
    found = [namespace["metadata"] for namespace in api.list(NAMESPACE, labels=E2E_LABEL).items]
    return {namespace["name"]: "deletionTimestamp" in namespace for namespace in found}


def left_of_specs(api: Cluster, deadline: Deadline, *, besides: Collection[str] = ()) -> str:
    """Wait for the specs' pods to be gone, and hurry them; return which are left at the deadline, "" when none is.

    Pods that are left would block the next phase: a drain refuses to delete pods that no controller owns.

    Args:
        besides: namespaces of specs of another run, which are not waited for.
    """

    def pods_gone() -> bool | NotYet:
        names = [name for name in hurry(api) if name.partition("/")[0] not in besides]
        return NotYet(f"left: {', '.join(names)}") if names else True

    try:
        until(pods_gone, deadline=deadline, what="the pods of the conformance specs to be gone", interval=0.5)
    except TimedOut as late:
        return late.summary
    return ""
