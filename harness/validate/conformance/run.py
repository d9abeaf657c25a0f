"""Runs upstream specs against a guest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.errors import InfraError
from harness.kube import Cluster
from harness.kube.resources import NAMESPACE, POD
from harness.proc import CommandFailed, run
from harness.spec.models import Timeouts
from harness.until import Deadline, NotYet, TimedOut, until
from harness.validate.conformance.curated import ConformanceSpec
from harness.validate.conformance.ginkgo import Extent, Tools, ginkgo_command, repository_list
from harness.validate.conformance.registry import missing_images
from harness.validate.conformance.verdicts import SpecOutcome, SpecVerdict, read_verdicts

REPORT = "junit_01.xml"  # e2e.test's name for it
LOG = "ginkgo.log"  # of the command, which people read
GRACE_SECONDS = 1  # for a pod that is being deleted: many specs' programs do not hear SIGTERM, and have half a minute
E2E_LABEL = "e2e-framework"  # every namespace of a spec has it (test/e2e/framework, CreateTestingNS)


def run_specs(
    specs: Sequence[ConformanceSpec],
    tools: Tools,
    *,
    kubeconfig: Path,
    registry: str,
    directory: Path,
    timeouts: Timeouts,
    extent: Extent | None = None,
) -> dict[str, SpecVerdict]:
    """Run all specs whose images the registry has, once, and return the verdict of every spec, by name.

    Args:
        registry: host:port that the guest takes images from.
        directory: for the repository list, the report, and ginkgo.log, which people read.
        timeouts: specs that ginkgo's time for the whole run cuts short have failed.
        extent: how many at once and for how long; as for the curated specs, if it is left out.
    """
    extent = extent or Extent(timeouts.conformance)
    directory.mkdir(parents=True, exist_ok=True)
    absent = missing_images(registry, (image for spec in specs for image in spec.images), timeouts.registry_request)
    verdicts = {spec.name: _not_run(lacks) for spec in specs if (lacks := _lacks(spec, absent))}
    names = [spec.name for spec in specs if spec.name not in verdicts]
    if not names:
        return verdicts
    report = directory / REPORT
    report.unlink(missing_ok=True)  # of an earlier run
    repositories = directory / "repositories.yml"
    repositories.write_text(repository_list(registry), encoding="utf-8")
    if len(names) < len(specs):
        extent = replace(extent, label="")  # not all that the label means
    command = ginkgo_command(
        tools, names, kubeconfig=kubeconfig, report_dir=directory, timeouts=timeouts, extent=extent
    )
    # not the option --kube-test-repo-list: several specs choose their images before options are read
    environment = {"KUBE_TEST_REPO_LIST": str(repositories)}
    log = directory / LOG
    killed = ""
    with TemporaryDirectory(prefix="tmp-", dir=directory) as temporary:  # e2e.test and kubectl leave files
        try:
            limit = extent.seconds + timeouts.conformance_overrun
            environment |= {"TMPDIR": temporary, "HOME": temporary, "KUBECACHEDIR": f"{temporary}/kube"}
            run(command, timeout=limit, check=False, cwd=directory, env=environment, log=log)
        except CommandFailed as error:  # it did not end or start: every spec without a verdict has failed
            killed = error.summary
    for name, verdict in read_verdicts(report, names).items():
        lost = killed and verdict.outcome is not SpecOutcome.PASSED
        verdicts[name] = replace(verdict, text=f"{killed}\n{verdict.text}") if lost else verdict
    return verdicts


def left_of_specs(api: Cluster, deadline: Deadline) -> str:
    """Wait for the specs' pods to be gone: a spec deletes its namespace and does not wait for that.

    Pods that are left would block the next phase: a drain refuses to delete pods that no controller owns. Those that
    are being deleted are given less time to end by themselves. Returns which are left at the deadline, "" when none is.
    """

    def pods_gone() -> bool | NotYet:
        namespaces = {namespace["metadata"]["name"] for namespace in api.list(NAMESPACE, labels=E2E_LABEL).items}
        pods = [pod["metadata"] for pod in api.list(POD).items] if namespaces else []
        left = [pod for pod in pods if pod["namespace"] in namespaces]
        for pod in left:
            if pod.get("deletionTimestamp") and pod.get("deletionGracePeriodSeconds", 0) > GRACE_SECONDS:
                api.delete(POD, pod["name"], pod["namespace"], grace=GRACE_SECONDS)
        names = sorted(f"{pod['namespace']}/{pod['name']}" for pod in left)
        return NotYet(f"left: {', '.join(names)}") if names else True

    try:
        until(pods_gone, deadline=deadline, what="the pods of the conformance specs to be gone", interval=0.5)
    except TimedOut as late:
        return late.summary
    return ""


def refuse_missing(verdicts: Iterable[SpecVerdict], known: Collection[str]) -> None:
    """Refuse that specs were not run for the want of an image that the mirror must have.

    Args:
        known: the images that it need not have.

    Raises:
        InfraError: naming the images. Otherwise a mirror that lost its images would make every spec pass.
    """
    lost = sorted({image for one in verdicts for image in one.lacks if image not in known})
    if lost:
        raise InfraError(
            f"specs were not run because the mirror lacks {', '.join(lost)}",
            hint="push the image to the mirror, or name it in `may_be_missing` of conformance/MINOR.yml",
        )


def _lacks(spec: ConformanceSpec, absent: frozenset[str]) -> tuple[str, ...]:
    return tuple(image for image in spec.images if image in absent)


def _not_run(lacks: tuple[str, ...]) -> SpecVerdict:
    return SpecVerdict(SpecOutcome.NOT_RUN, text=f"image {', '.join(lacks)} missing", lacks=lacks)
