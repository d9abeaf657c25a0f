"""Runs the curated conformance specs against a guest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.kube import Cluster
from harness.kube.resources import NAMESPACE, POD
from harness.proc import CommandFailed, run
from harness.spec.models import Timeouts
from harness.until import Deadline, NotYet, TimedOut, until
from harness.validate.conformance.curated import ConformanceSpec
from harness.validate.conformance.ginkgo import Tools, ginkgo_command, repository_list
from harness.validate.conformance.registry import missing_images
from harness.validate.conformance.verdicts import SpecOutcome, SpecVerdict, read_verdicts

REPORT = "junit_01.xml"  # e2e.test's name for it
E2E_LABEL = "e2e-framework"  # every namespace of a spec has it (test/e2e/framework, CreateTestingNS)


def run_specs(
    specs: Sequence[ConformanceSpec],
    tools: Tools,
    *,
    kubeconfig: Path,
    registry: str,
    directory: Path,
    timeouts: Timeouts,
) -> dict[str, SpecVerdict]:
    """Run all specs whose images the registry has, once, and return the verdict of every spec, by name.

    Args:
        registry: host:port that the guest takes images from.
        directory: for the repository list, the report, and ginkgo.log, which people read.
        timeouts: specs that ginkgo's time for the whole run cuts short have failed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    absent = missing_images(registry, (image for spec in specs for image in spec.images), timeouts.registry_request)
    verdicts = {
        spec.name: SpecVerdict(SpecOutcome.NOT_RUN, text=reason) for spec in specs if (reason := _lacks(spec, absent))
    }
    names = [spec.name for spec in specs if spec.name not in verdicts]
    if not names:
        return verdicts
    report = directory / REPORT
    report.unlink(missing_ok=True)  # of an earlier run
    repositories = directory / "repositories.yml"
    repositories.write_text(repository_list(registry), encoding="utf-8")
    command = ginkgo_command(tools, names, kubeconfig=kubeconfig, report_dir=directory, timeouts=timeouts)
    # not the option --kube-test-repo-list: several specs choose their images before options are read
    environment = {"KUBE_TEST_REPO_LIST": str(repositories)}
    log = directory / "ginkgo.log"
    killed = ""
    with TemporaryDirectory(prefix="tmp-", dir=directory) as temporary:  # e2e.test and kubectl leave files
        try:
            limit = timeouts.conformance + timeouts.conformance_overrun
            environment |= {"TMPDIR": temporary, "HOME": temporary, "KUBECACHEDIR": f"{temporary}/kube"}
            run(command, timeout=limit, check=False, cwd=directory, env=environment, log=log)
        except CommandFailed as error:  # it did not end or start: every spec without a verdict has failed
            killed = error.summary
    for name, verdict in read_verdicts(report, names).items():
        lost = killed and verdict.outcome is not SpecOutcome.PASSED
        verdicts[name] = SpecVerdict(verdict.outcome, verdict.seconds, f"{killed}\n{verdict.text}") if lost else verdict
    return verdicts


def left_of_specs(api: Cluster, deadline: Deadline) -> str:
    """Wait for the specs' pods to be gone: a spec deletes its namespace and does not wait for that.

    Pods that are left would block the next phase: a drain refuses to delete pods that no controller owns. Returns which
    are left at the deadline, "" when none is.
    """

    def pods_gone() -> bool | NotYet:
        namespaces = {namespace["metadata"]["name"] for namespace in api.list(NAMESPACE, labels=E2E_LABEL).items}
        pods = [pod["metadata"] for pod in api.list(POD).items] if namespaces else []
        left = sorted(f"{pod['namespace']}/{pod['name']}" for pod in pods if pod["namespace"] in namespaces)
        return NotYet(f"left: {', '.join(left)}") if left else True

    try:
        until(pods_gone, deadline=deadline, what="the pods of the conformance specs to be gone", interval=0.5)
    except TimedOut as late:
        return late.summary
    return ""


def _lacks(spec: ConformanceSpec, absent: frozenset[str]) -> str:
    missing = [image for image in spec.images if image in absent]
    return f"image {', '.join(missing)} missing" if missing else ""
