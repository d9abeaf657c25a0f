"""The command that runs upstream specs: e2e.test of one Kubernetes version, in parallel through ginkgo."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from harness.memory import memory_available_mib
from harness.spec.models import Timeouts

SUITE = "Kubernetes e2e suite"  # the suite's description, which ginkgo puts before each spec's name when it matches
PROCESSES = 6  # specs mostly wait for pods
LEAST_PROCESSES = 2
EACH_PROCESSOR = 3  # at most: before its first spec, each takes 2 s of a processor to build the tree of all 7500
PROCESS_MIB = 360
OF_MEMORY = 4  # at most one in so many MiB that are available is for all of them: other cells run as well
MEMORY_FOR_TIME = {"GOGC": "200"}  # of each, 60 MiB for a fifth of that time
CONTROL_PLANE_TAINTS = "node-role.kubernetes.io/control-plane"
STALLED_SECONDS = 30.0  # not a limit: after which ginkgo logs what a spec is waiting for
GO_SPECIAL = frozenset("\\.+*?()|[]{}^$")


@dataclass(frozen=True)
class Tools:
    """The programs of the guest's Kubernetes version."""

    e2e_test: Path
    ginkgo: Path
    kubectl: Path


@dataclass(frozen=True)
class Extent:
    """How much one call of ginkgo runs.

    seconds: its time-out for all of it.  processes: how many specs at once, but for those that ask to be alone: these
    run last, one by one; 0: as many as suit this host, for the curated ones.  label: of just the specs that are meant,
    where there is one; many names take long to match.
    seed: of the order of specs, another one each time without it.
    stays: whether specs do not delete their namespaces, since the cluster goes after them. To end a namespace takes two
    requests for each of 36 kinds: half of what a run of the curated specs costs the API server and etcd.
    """

    seconds: float
    processes: int = 0
    label: str = ""
    seed: int = 0
    stays: bool = False


def curated_processes() -> int:
    """Return how many processes run the curated specs on this host, as it is now."""
    room = min(EACH_PROCESSOR * len(os.sched_getaffinity(0)), memory_available_mib() // (OF_MEMORY * PROCESS_MIB))
    return min(PROCESSES, max(LEAST_PROCESSES, room))


def quoted(text: str) -> str:
    """Return the regular expression of Go that matches just this text (as regexp.QuoteMeta does)."""
    return "".join(f"\\{char}" if char in GO_SPECIAL else char for char in text)


def focus(names: Iterable[str]) -> str:
    """Return ginkgo's option that selects just the named specs.

    It is one expression: each process matches it against thousands of specs, which is fast only for alternatives
    behind a common, anchored beginning (forty options took seconds).
    """
    return f"--focus=^{quoted(SUITE)} (?:{'|'.join(quoted(name) for name in names)})$"


def repository_list(registry: str) -> str:
    """Return the file for KUBE_TEST_REPO_LIST that takes every image from one registry.

    Keys as in test/utils/image/manifest.go of 1.36; minors that lack one ignore it. `invalidRegistry` and
    `privateRegistry` stay as they are: specs need them to fail.
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
    tools: Tools,
    names: Sequence[str],
    *,
    kubeconfig: Path,
    report_dir: Path,
    timeouts: Timeouts,
    extent: Extent | None = None,
) -> list[str]:
    """Return the command that runs the named specs; without an extent, that of the curated ones."""
    extent = extent or Extent(timeouts.conformance)
    ready = f"{timeouts.conformance_ready:.0f}s"  # e2e.test defaults to 30, 10 and 5 minutes
    return [
        str(tools.ginkgo),
        f"--procs={min(extent.processes or curated_processes(), len(names))}",
        f"--timeout={extent.seconds:.0f}s",
        f"--grace-period={timeouts.conformance_grace:.0f}s",
        f"--poll-progress-after={STALLED_SECONDS:.0f}s",
        f"--poll-progress-interval={STALLED_SECONDS:.0f}s",
        "--no-color",
        "--silence-skips",
        "-v",  # each spec's name when it ends: the log tells what a run that is killed came to
        *([f"--seed={extent.seed}"] if extent.seed else []),
        f"--label-filter={extent.label}" if extent.label else focus(names),
        str(tools.e2e_test),
        "--",
        f"--kubeconfig={kubeconfig}",
        "--provider=skeleton",
        f"--kubectl-path={tools.kubectl}",
        f"--report-dir={report_dir}",
        f"--e2e-output-dir={report_dir}",
        f"--node-schedulable-timeout={ready}",
        f"--system-pods-startup-timeout={ready}",
        f"--system-daemonsets-startup-timeout={ready}",
        "--allowed-not-ready-nodes=0",
        f"--non-blocking-taints={CONTROL_PLANE_TAINTS}",
        "--disable-log-dump=true",
        *(["--delete-namespace=false"] if extent.stays else []),
    ]
