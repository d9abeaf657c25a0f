"""Runs upstream specs against a guest."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.errors import InfraError
from harness.model import Mirror
from harness.proc import CommandFailed, CommandTimedOut, follow
from harness.spec.models import Timeouts
from harness.validate.conformance.curated import ConformanceSpec
from harness.validate.conformance.ginkgo import MEMORY_FOR_TIME, Extent, Tools, ginkgo_command, repository_list
from harness.validate.conformance.ginkgo_log import read_log
from harness.validate.conformance.in_turn import in_turn
from harness.validate.conformance.registry import missing_images
from harness.validate.conformance.verdicts import SpecOutcome, SpecVerdict, read_verdicts

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
    said = [f"time was up before {len(short)} of {len(verdicts)} specs had ended; {rest} of them had not begun"]
    said += [f"running: {name}" for name in began[:TOLD]]
    return "\n".join([*said, f"look at: {log}", "more time: `conformance` and `upstream_specs` of timeouts.yml"])


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


def _ended(log: Path, names: Sequence[str]) -> dict[str, SpecVerdict]:
    """Return the verdicts of the specs that had ended when ginkgo was killed."""
    logged = read_log(log, names)
    return {name: verdict for name, verdict in logged.items() if verdict.outcome is not SpecOutcome.NOT_RUN}


def _lacks(spec: ConformanceSpec, absent: frozenset[str]) -> tuple[str, ...]:
    return tuple(image for image in spec.images if image in absent)


def _not_run(lacks: tuple[str, ...]) -> SpecVerdict:
    return SpecVerdict(SpecOutcome.NOT_RUN, text=f"image {', '.join(lacks)} missing", lacks=lacks)
