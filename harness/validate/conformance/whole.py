"""A whole set of upstream's specs, run once: what it takes, what each spec came to, and which images it lacked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.artifacts import e2e_images
from harness.artifacts.catalogue import Catalogue
from harness.model import Mirror
from harness.spec.models import Timeouts
from harness.spec.suites import CERTIFICATION
from harness.validate.conformance.curated import ConformanceSpec
from harness.validate.conformance.ginkgo import Extent, Tools
from harness.validate.conformance.registry import missing_images
from harness.validate.conformance.run import run_specs
from harness.validate.conformance.upstream import CONFORMANCE
from harness.validate.conformance.verdicts import SpecOutcome, SpecVerdict

PROCESSES = 8  # specs mostly wait
TOLD = 10  # names in one message


@dataclass(frozen=True)
class WholeRun:
    """One run of a set.

    verdicts: by name.  unpushed: images that vmatrix makes and the mirror lacks.  left: pods that are still there.
    """

    verdicts: Mapping[str, SpecVerdict]
    unpushed: tuple[str, ...]
    left: str = ""


@dataclass(frozen=True)
class SpecSet:
    """What is run: a suite's specs as they are listed, and those of them that were selected.

    unfit: those of the latter that these machines cannot run -> why.
    """

    suite: str
    listed: Sequence[str]
    selected: Sequence[str]
    unfit: Mapping[str, str] = field(default_factory=dict)

    @property
    def run(self) -> tuple[str, ...]:
        """Return the selected specs that the machines can run."""
        return tuple(name for name in self.selected if name not in self.unfit)

    @property
    def label(self) -> str:
        """Return the label that selects just the selected specs; "" where there is none."""
        whole = self.suite == CERTIFICATION and set(self.run) == set(self.listed)
        return CONFORMANCE if whole else ""


def run_whole(
    specs: SpecSet,
    tools: Tools,
    catalogue: Catalogue,
    version: str,
    *,
    kubeconfig: Path,
    mirror: Mirror,
    directory: Path,
    timeouts: Timeouts,
) -> WholeRun:
    """Run specs side by side, after them those that want to be alone, and return the verdict of each.

    A spec that failed, and whose pods asked in vain for an image that vmatrix is known not to have, was not run.

    Args:
        version: of Kubernetes.
        mirror: where the guest takes images from.
        directory: for the reports and the log.
    """
    images = e2e_images.listed(catalogue, version)
    verdicts = run_specs(
        [ConformanceSpec(name, ()) for name in specs.run],
        tools,
        kubeconfig=kubeconfig,
        mirror=mirror,
        directory=directory,
        timeouts=timeouts,
        extent=Extent(timeouts.upstream_specs, PROCESSES, specs.label),
    )
    unfit = {name: SpecVerdict(SpecOutcome.NOT_RUN, text=why) for name, why in specs.unfit.items()}
    return WholeRun(
        unfit | {name: judged(verdict, images.missing) for name, verdict in verdicts.items()},
        tuple(sorted(missing_images(mirror.registry, images.made, timeouts.registry_request))),
    )


def differences(listed: Iterable[str], own: Iterable[str]) -> list[str]:
    """Return how a set's file differs from what e2e.test lists itself, in lines; none, if they are the same."""
    known, found = set(listed), set(own)
    return [*_told("not in the file", found - known), *_told("not in e2e.test", known - found)]


def judged(verdict: SpecVerdict, missing: Mapping[str, str]) -> SpecVerdict:
    """Return a spec's verdict; one that failed without an image that is known to be missing was not run.

    Args:
        missing: repository:tag -> why vmatrix does not have it.
    """
    asked = (image.partition("/")[2] for image in verdict.unpulled)
    lacks = tuple(image for image in asked if image in missing)
    if verdict.outcome is not SpecOutcome.FAILED or not lacks:
        return verdict
    text = "; ".join(f"image {image} is missing, because {missing[image]}" for image in lacks)
    return replace(verdict, outcome=SpecOutcome.NOT_RUN, text=text, lacks=lacks)


def _told(what: str, names: set[str]) -> list[str]:
    shown = [f"{what}: {name}" for name in sorted(names)[:TOLD]]
    return [*shown, f"{what}: {len(names) - TOLD} more"] if len(names) > TOLD else shown
