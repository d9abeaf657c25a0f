"""Ginkgo: runs upstream specs with the e2e.test of one Kubernetes version, in parallel.

`in_turn` has the processes of e2e.test get ready one after another. Before its first spec, each of them builds the tree
of all upstream specs, 2 s of a processor. If all do that at the same time, none has a spec until all are nearly ready.
If some go first, their specs wait for pods while others build.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from harness.errors import InfraError
from harness.model import Mirror
from harness.pressure import memory_available_mib
from harness.proc import CommandFailed, CommandTimedOut, follow
from harness.spec.models import Timeouts
from harness.validate.conformance.registry import missing_images
from harness.validate.conformance.verdicts import SpecOutcome, SpecVerdict, read_log, read_verdicts

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
class ConformanceSpec:
    """One upstream spec: its full name in ginkgo, and the images it runs, as repository:tag without registry."""

    name: str
    images: tuple[str, ...]


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


BEHIND = 3  # how much less priority (nice(1)) each process has than the one before it
FURTHEST = 10  # the least priority: beside other work of the same session or container, a tenth of a processor is left
SCRIPT = """\
#!/bin/sh
# ginkgo numbers the processes that it starts from 1 on. The first {first} go first, and then one after another.
behind=0
for word; do
    case $word in --ginkgo.parallel.process=*) behind=$(((${{word#*=}} - {first}) * {step})) ;; esac
done
[ "$behind" -gt 0 ] || exec {program} "$@"
[ "$behind" -lt {furthest} ] || behind={furthest}
exec nice -n "$behind" {program} "$@"
"""


def in_turn(program: Path, folder: Path) -> Path:
    """Write a program that ginkgo can call in place of e2e.test, and return it.

    Where nothing in the folder can be executed, it is e2e.test itself, whose processes get ready together.
    """
    script = folder.resolve() / program.name  # ginkgo makes a relative path of it
    first = len(os.sched_getaffinity(0))
    text = SCRIPT.format(first=first, step=BEHIND, furthest=FURTHEST, program=shlex.quote(str(program)))
    script.write_text(text, encoding="utf-8")
    script.chmod(0o700)
    return script if os.access(script, os.X_OK) else program


REPORT = "junit_01.xml"  # e2e.test's name for it
LOG = "ginkgo.log"  # of the command, which people read
TOLD = 10  # names in one message


def run_specs(
    specs: Sequence[ConformanceSpec],
    tools: Tools,
    *,
    kubeconfig: Path,
    mirror: Mirror,
    directory: Path,
    timeouts: Timeouts,
    extent: Extent | None = None,
) -> dict[str, SpecVerdict]:
    """Run all specs whose images the registry has, once, and return the verdict of every spec, by name.

    Args:
        mirror: where the guest takes images from.
        directory: for the repository list, the report, and ginkgo.log, which people read.
        timeouts: specs that ginkgo's time for the whole run cuts short have failed, those that it does not reach were
            not run.
        extent: how many at once and for how long; as for the curated specs, if it is left out.
    """
    extent = extent or Extent(timeouts.conformance)
    directory.mkdir(parents=True, exist_ok=True)
    absent = missing_images(
        mirror.registry, (image for spec in specs for image in spec.images), timeouts.registry_request
    )
    verdicts = {spec.name: _not_run(lacks) for spec in specs if (lacks := _lacks(spec, absent))}
    names = [spec.name for spec in specs if spec.name not in verdicts]
    if not names:
        return verdicts
    report, log, repositories = (directory / name for name in (REPORT, LOG, "repositories.yml"))
    for earlier in (report, log):
        earlier.unlink(missing_ok=True)
    repositories.write_text(repository_list(mirror.images), encoding="utf-8")
    if len(names) < len(specs):
        extent = replace(extent, label="")  # not all that the label means
    grace = timeouts.conformance_overrun
    with _temporary(directory) as temporary:
        called, environment = _called(tools, extent, temporary, repositories)
        command = ginkgo_command(
            called, names, kubeconfig=kubeconfig, report_dir=directory, timeouts=timeouts, extent=extent
        )
        try:
            limit = extent.seconds + grace
            follow(command, timeout=limit, grace=grace, log=log, cwd=directory, env=environment, whole=True)
        except CommandTimedOut:  # told to end, it writes its report; killed, there is what it said until then
            return verdicts | (read_verdicts(report, names) if report.is_file() else read_log(log, names))
        except CommandFailed as unstarted:
            return verdicts | dict.fromkeys(names, SpecVerdict(SpecOutcome.FAILED, text=unstarted.summary))
    return verdicts | read_verdicts(report, names) | ({} if report.is_file() else _ended(log, names))


def _called(tools: Tools, extent: Extent, temporary: str, repositories: Path) -> tuple[Tools, dict[str, str]]:
    """Return the programs that ginkgo is called with, and its environment; those of curated specs suit this host."""
    environment = {
        # not the option --kube-test-repo-list: several specs choose their images before options are read
        "KUBE_TEST_REPO_LIST": str(repositories),
        "TMPDIR": temporary,  # e2e.test and kubectl leave files
        "HOME": temporary,
        "KUBECACHEDIR": f"{temporary}/kube",
    }
    if extent.processes:
        return tools, environment
    return replace(tools, e2e_test=in_turn(tools.e2e_test, Path(temporary))), environment | MEMORY_FOR_TIME


@contextmanager
def _temporary(directory: Path) -> Iterator[str]:
    """Yield a folder that is gone afterwards, by a short name: a socket in it must have a path of at most 107 bytes.

    A descriptor of this process is such a name, and ends with it. Where a system has none, it is the folder's own.
    """
    with TemporaryDirectory(prefix="tmp-", dir=directory) as temporary:
        held = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY)
        try:
            short = f"/proc/{os.getpid()}/fd/{held}"
            yield short if Path(short).is_dir() else temporary
        finally:
            os.close(held)


def cut_short(verdicts: Mapping[str, SpecVerdict], log: Path) -> str:
    """Return what to say of specs for which there was not enough time, "" where there are none."""
    short = [name for name, verdict in verdicts.items() if verdict.cut_short]
    if not short:
        return ""
    began = [name for name in short if verdicts[name].outcome is SpecOutcome.FAILED]
    rest = len(short) - len(began)
    lines = [f"time was up before {len(short)} of {len(verdicts)} specs had ended; {rest} of them had not begun"]
    lines += [f"running: {name}" for name in began[:TOLD]]
    return "\n".join([*lines, f"look at: {log}", "more time: `conformance` and `upstream_specs` of timeouts.yml"])


def refuse_missing(verdicts: Iterable[SpecVerdict], known: Collection[str]) -> None:
    """Refuse that specs were not run for the want of an image that the mirror must have.

    Args:
        known: the images that it need not have.

    Raises:
        InfraError: naming the images. Otherwise a mirror that lost its images would make every spec pass.
    """
    lost = sorted({image for verdict in verdicts for image in verdict.lacks if image not in known})
    if lost:
        raise InfraError(
            f"specs were not run because the mirror lacks {', '.join(lost)}",
            hint="push the image to the mirror, or name it in `may_be_missing` of conformance/MINOR.yml",
        )


def _ended(log: Path, names: Sequence[str]) -> dict[str, SpecVerdict]:
    """Return the verdicts of the specs that had ended when ginkgo was killed."""
    logged = read_log(log, names)
    return {name: verdict for name, verdict in logged.items() if verdict.outcome is not SpecOutcome.NOT_RUN}


def _lacks(spec: ConformanceSpec, absent: frozenset[str]) -> tuple[str, ...]:
    return tuple(image for image in spec.images if image in absent)


def _not_run(lacks: tuple[str, ...]) -> SpecVerdict:
    return SpecVerdict(SpecOutcome.NOT_RUN, text=f"image {', '.join(lacks)} missing", lacks=lacks)
