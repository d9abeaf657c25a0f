"""Curated conformance specs: matrix/conformance/<minor>.yml, a run of them, and what it leaves.

Spec names change from minor to minor, so the lists share nothing.

A spec deletes its namespace and does not wait for that. The namespace controller looks at it five seconds later, and
programs that do not hear SIGTERM, as many of the specs', have half a minute from then on. A kubelet that has told a
runtime of half a minute does not tell it of less: so pods are deleted in those five seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness import yaml_text
from harness.errors import BadInput, VmatrixError
from harness.files import read_text
from harness.kube import Cluster
from harness.kube.resources import NAMESPACE, POD
from harness.model import Mirror
from harness.paths import MATRIX, packaged_dir
from harness.spec.models import Timeouts
from harness.spec.project import matrix_dir
from harness.until import Deadline, NotYet, TimedOut, until
from harness.validate.conformance.ginkgo import ConformanceSpec, Extent, Tools, run_specs
from harness.validate.conformance.verdicts import SpecVerdict

# Each list names these images, which other checks run, too.
AGNHOST = "agnhost"
BUSYBOX = "busybox"
CHECKS = {AGNHOST: "the network checks", BUSYBOX: "the storage checks"}


@dataclass(frozen=True)
class ConformanceList:
    """The list of one Kubernetes minor. `images` maps the list's image names to repository:tag.

    may_be_missing: of these, as repository:tag, those that a mirror need not have: their specs are not run then.
    seed: ginkgo's, which orders the specs; 0 for another one each time.
    """

    minor: str
    images: Mapping[str, str]
    specs: tuple[ConformanceSpec, ...]
    may_be_missing: frozenset[str] = frozenset()
    seed: int = 0


def curated_path(minor: str) -> Path:
    """Return the file of a minor's list: the project's, or the packaged one."""
    own, packaged = (folder / "conformance" / f"{minor}.yml" for folder in (matrix_dir(), packaged_dir() / MATRIX))
    return own if own.is_file() or not packaged.is_file() else packaged


def load_curated(minor: str) -> ConformanceList:
    """Load the list of a Kubernetes minor.

    Raises:
        BadInput: it does not exist or is malformed.
    """
    path = curated_path(minor)
    if not path.is_file():
        raise BadInput(
            f"Kubernetes {minor} has no conformance list",
            hint=f"write {path} with names of that minor's `e2e.test --list-tests`",
            paths=[path],
        )
    try:
        return _read(minor, yaml_text.document(read_text(path), path))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(
            f"{path} is malformed: {type(error).__name__}: {error}",
            hint="it needs `kubernetes`, `images` (name: repository:tag) and `specs` ([{name, images}]); it may have "
            "`may_be_missing` (names of images) and `seed` (a number)",
            paths=[path],
        ) from error


def _read(minor: str, raw: Any) -> ConformanceList:
    if str(raw["kubernetes"]) != minor:
        raise ValueError(f"`kubernetes` is {raw['kubernetes']}, not {minor}")
    images = {str(name): str(image) for name, image in raw["images"].items()}
    for image, checks in CHECKS.items():
        if image not in images:
            raise ValueError(f"`images` lacks {image}, which {checks} need")
    specs = tuple(
        ConformanceSpec(str(entry["name"]), tuple(images[name] for name in entry.get("images", ())))
        for entry in raw["specs"]
    )
    names = [spec.name for spec in specs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not specs:
        raise ValueError(f"specs named twice: {twice}" if twice else "`specs` is empty")
    optional = frozenset(images[name] for name in raw.get("may_be_missing", ()))
    seed = raw.get("seed", 0)
    if type(seed) is not int or seed < 0:
        raise ValueError(f"`seed` is {seed!r}, not a number from 0 on")
    return ConformanceList(minor, images, specs, optional, seed)


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
    metadata = [namespace["metadata"] for namespace in api.list(NAMESPACE, labels=E2E_LABEL).items]
    return {namespace["name"]: "deletionTimestamp" in namespace for namespace in metadata}


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


FOLDER = "conformance"  # of the run's files, among those of checks


@dataclass(frozen=True)
class SpecRun:
    """One run of the curated specs: the verdict of each, and why their pods are still there ("": they are gone).

    left: None where specs did not delete what they made.
    """

    verdicts: dict[str, SpecVerdict]
    left: str | None


def run_curated(
    curated: ConformanceList,
    tools: Tools,
    *,
    api: Cluster,
    kubeconfig: Path,
    mirror: Mirror,
    directory: Path,
    timeouts: Timeouts,
    stays: bool,
) -> SpecRun:
    """Run the curated specs of a guest's minor.

    Args:
        api: of the guest.  mirror: where the guest takes images from.  directory: for the run's files.
        stays: whether specs leave what they made, since the guest goes when they have ended.
    """
    verdicts = partial(
        run_specs,
        curated.specs,
        tools,
        kubeconfig=kubeconfig,
        mirror=mirror,
        directory=directory,
        timeouts=timeouts,
        extent=Extent(timeouts.conformance, seed=curated.seed, stays=stays),
    )
    if stays:
        return SpecRun(verdicts(), None)
    earlier = specs_namespaces(api)
    with hurried(api):
        outcomes = verdicts()
    return SpecRun(outcomes, left_of_specs(api, Deadline.after(timeouts.probe_remove), besides=earlier))
