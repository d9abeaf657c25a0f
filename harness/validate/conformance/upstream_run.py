"""Run of a whole set of upstream's specs: what it takes, what each spec came to, which images it lacked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.artifacts import e2e_images
from harness.artifacts.catalogue import Catalogue
from harness.artifacts.e2e_images import listed as images_of
from harness.artifacts.e2e_images import load as load_images
from harness.errors import InfraError
from harness.model import Mirror
from harness.spec.models import Timeouts
from harness.spec.suites import CERTIFICATION
from harness.validate.conformance.ginkgo import ConformanceSpec, Extent, Tools, run_specs
from harness.validate.conformance.registry import missing_images
from harness.validate.conformance.upstream import (
    CONFORMANCE,
    chosen,
    listed_images,
    listed_specs,
    load_selection,
    load_upstream,
)
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


OUTCOME = "spec"  # a check's property: how the spec ended, in e2e.test's words and ours
SECONDS = "seconds"
OWN_WORDS = "skipped by the spec itself: "


def properties(verdict: SpecVerdict) -> Mapping[str, object]:
    """Return what a spec's item notes beside its outcome."""
    return {OUTCOME: verdict.outcome.value, SECONDS: round(verdict.seconds, 3)}


def unjudged(verdict: SpecVerdict) -> str | None:
    """Return why a spec says nothing about the cluster; None where it does."""
    if verdict.outcome is SpecOutcome.SKIPPED:
        return OWN_WORDS + verdict.text.removeprefix("the spec was skipped: skipped - ")
    return verdict.text if verdict.outcome is SpecOutcome.NOT_RUN else None


def refuse_unpushed(found: WholeRun) -> None:
    """Refuse a mirror that lacks images which vmatrix makes.

    Raises:
        InfraError: naming them. Specs that need them have failed, and say nothing about the product.
    """
    if found.unpushed:
        raise InfraError(
            f"the mirror lacks {', '.join(found.unpushed)}",
            hint="a run of a tier with this suite has them; on an existing cluster, push them to the mirror",
        )


def other_specs(e2e_test: Path, minor: str, suite: str) -> list[str]:
    """Return how a suite's file differs from what e2e.test lists, in lines."""
    return differences(load_upstream(minor).of(suite), chosen(listed_specs(e2e_test), load_selection())[suite])


def other_images(e2e_test: Path, catalogue: Catalogue, version: str) -> list[str]:
    """Return how the list of a release's images differs from what e2e.test lists, in lines.

    A release whose images nobody listed has that of none: its specs' images would be missing without a word.
    """
    images = images_of(catalogue, version)
    known = {*images.made, *images.missing} if version in load_images().lists else set()
    return differences(known, listed_images(e2e_test))
