"""Runs a list of upstream conformance specs against a guest: e2e.test of its own minor, in parallel through ginkgo."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from harness.errors import ProductError
from harness.kube import Cluster
from harness.kube.resources import NAMESPACE, POD
from harness.proc import CommandFailed, run
from harness.until import Deadline, NotYet, TimedOut, until
from harness.validate.conformance.curated import ConformanceSpec
from harness.validate.conformance.registry import missing_images
from harness.validate.conformance.verdicts import SpecOutcome, SpecVerdict, read_verdicts

REPORT = "junit_01.xml"  # what e2e.test calls it
SUITE = "Kubernetes e2e suite"  # the suite's description, which ginkgo puts before each spec's name when it matches
PROCESSES = 6  # specs mostly wait for pods; each ginkgo process takes about 150 MB
CONTROL_PLANE_TAINTS = "node-role.kubernetes.io/control-plane"
# e2e.test waits that default to 30, 10 and 5 minutes: the cluster has already been found ready by other checks.
READY_TIMEOUT = "60s"
GRACE_SECONDS = 20.0  # that a spec has to clean up in when ginkgo's time is over
STALLED_SECONDS = 30.0  # after which ginkgo writes into its log what a spec is waiting for
OVERRUN_SECONDS = 90.0  # after ginkgo's own time-out, for all its graces and for the report to be written
E2E_LABEL = "e2e-framework"  # every namespace that a spec makes has it (test/e2e/framework, CreateTestingNS)
GO_SPECIAL = frozenset("\\.+*?()|[]{}^$")


@dataclass(frozen=True)
class Tools:
    """The programs of the guest's Kubernetes version."""

    e2e_test: Path
    ginkgo: Path
    kubectl: Path


def quoted(text: str) -> str:
    """Return a text as a regular expression of Go that matches just it (what regexp.QuoteMeta does)."""
    return "".join(f"\\{char}" if char in GO_SPECIAL else char for char in text)


def focus(names: Iterable[str]) -> str:
    """Return ginkgo's option that selects just the named specs.

    One expression, and not one option per name: each process matches it against thousands of specs, and only
    alternatives behind a common, anchored beginning are matched quickly (a list of forty took seconds otherwise).
    """
    return f"--focus=^{quoted(SUITE)} (?:{'|'.join(quoted(name) for name in names)})$"


def repository_list(registry: str) -> str:
    """Return the file for KUBE_TEST_REPO_LIST that takes every image from one registry.

    Keys as in test/utils/image/manifest.go of 1.36; minors that lack one ignore it. `invalidRegistry` and
    `privateRegistry` stay as they are: specs need them not to work.
    """
    return yaml.safe_dump(
        {
            "promoterE2eRegistry": f"{registry}/e2e-test-images",
            "buildImageRegistry": f"{registry}/build-image",
            "gcEtcdRegistry": registry,
            "gcRegistry": registry,
            "sigStorageRegistry": f"{registry}/sig-storage",
            "dockerLibraryRegistry": f"{registry}/library",
            "cloudProviderGcpRegistry": f"{registry}/cloud-provider-gcp",
        }
    )


def ginkgo_command(
    tools: Tools, names: Sequence[str], *, kubeconfig: Path, report_dir: Path, seconds: float
) -> list[str]:
    """Return the command that runs the named specs."""
    return [
        str(tools.ginkgo),
        f"--procs={min(PROCESSES, len(names))}",
        f"--timeout={seconds:.0f}s",
        f"--grace-period={GRACE_SECONDS:.0f}s",
        f"--poll-progress-after={STALLED_SECONDS:.0f}s",
        f"--poll-progress-interval={STALLED_SECONDS:.0f}s",
        "--no-color",
        "--silence-skips",
        focus(names),
        str(tools.e2e_test),
        "--",
        f"--kubeconfig={kubeconfig}",
        "--provider=skeleton",
        f"--kubectl-path={tools.kubectl}",
        f"--report-dir={report_dir}",
        f"--e2e-output-dir={report_dir}",
        f"--node-schedulable-timeout={READY_TIMEOUT}",
        f"--system-pods-startup-timeout={READY_TIMEOUT}",
        f"--system-daemonsets-startup-timeout={READY_TIMEOUT}",
        "--allowed-not-ready-nodes=0",
        f"--non-blocking-taints={CONTROL_PLANE_TAINTS}",
        "--disable-log-dump=true",
    ]


def run_specs(
    specs: Sequence[ConformanceSpec], tools: Tools, *, kubeconfig: Path, registry: str, directory: Path, seconds: float
) -> dict[str, SpecVerdict]:
    """Run all specs whose images the registry has, once, and return a verdict for every spec, by name.

    Args:
        registry: host:port that the guest takes images from.
        directory: where the log, the report and the repository list go; ginkgo.log is what a person reads.
        seconds: ginkgo's time for the whole run; specs that it cuts short have failed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    absent = missing_images(registry, (image for spec in specs for image in spec.images))
    verdicts = {
        spec.name: SpecVerdict(SpecOutcome.NOT_RUN, text=reason) for spec in specs if (reason := _lacks(spec, absent))
    }
    names = [spec.name for spec in specs if spec.name not in verdicts]
    if not names:
        return verdicts
    report = directory / REPORT
    report.unlink(missing_ok=True)  # an earlier run's report is not this run's
    repositories = directory / "repositories.yml"
    repositories.write_text(repository_list(registry), encoding="utf-8")
    command = ginkgo_command(tools, names, kubeconfig=kubeconfig, report_dir=directory, seconds=seconds)
    # In the environment and not as --kube-test-repo-list: several specs fix their images before options are read.
    environment = {"KUBE_TEST_REPO_LIST": str(repositories)}
    log = directory / "ginkgo.log"
    killed = ""
    try:
        run(command, timeout=seconds + OVERRUN_SECONDS, check=False, cwd=directory, env=environment, log=log)
    except CommandFailed as error:  # it did not end, or could not be started: every spec without a verdict has failed
        killed = error.summary
    for name, verdict in read_verdicts(report, names).items():
        lost = killed and verdict.outcome is not SpecOutcome.PASSED
        verdicts[name] = SpecVerdict(verdict.outcome, verdict.seconds, f"{killed}\n{verdict.text}") if lost else verdict
    return verdicts


def wait_for_clean_up(api: Cluster, deadline: Deadline) -> None:
    """Wait until the pods of the specs are gone: a spec deletes its namespace and does not wait for it.

    What is left would stand in the way of the next phase: a drain refuses to take away pods that no controller owns.

    Raises:
        ProductError: with the pods that are left. The machines are there, so it is not the infra's fault.
    """

    def pods_gone() -> bool | NotYet:
        namespaces = {namespace["metadata"]["name"] for namespace in api.list(NAMESPACE, labels=E2E_LABEL).items}
        pods = [pod["metadata"] for pod in api.list(POD).items] if namespaces else []
        left = sorted(f"{pod['namespace']}/{pod['name']}" for pod in pods if pod["namespace"] in namespaces)
        return NotYet(f"still there: {', '.join(left)}") if left else True

    try:
        until(pods_gone, deadline=deadline, what="the pods of the conformance specs are gone", interval=0.5)
    except TimedOut as late:
        raise ProductError(late.summary, hint="kubectl --kubeconfig kubeconfig get pods -A -o wide") from late


def _lacks(spec: ConformanceSpec, absent: frozenset[str]) -> str:
    missing = [image for image in spec.images if image in absent]
    return f"image {', '.join(missing)} missing" if missing else ""
