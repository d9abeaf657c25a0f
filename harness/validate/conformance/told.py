"""What is told of a spec of a whole set: its verdict as a check's, and what is wrong with the set itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.artifacts.catalogue import Catalogue
from harness.artifacts.e2e_images import listed as images_of
from harness.artifacts.e2e_images import load as load_images
from harness.errors import InfraError
from harness.validate.conformance.listing import listed_images, listed_specs
from harness.validate.conformance.upstream import chosen, load_selection, load_upstream
from harness.validate.conformance.verdicts import SpecOutcome, SpecVerdict
from harness.validate.conformance.whole import WholeRun, differences

OUTCOME = "spec"  # a check's property: how the spec ended, in e2e.test's words and ours
SECONDS = "seconds"
OWN_WORDS = "skipped by the spec itself: "
NOT_RUN = "not run: "


def properties(verdict: SpecVerdict) -> Mapping[str, object]:
    """Return what a spec's item notes beside its outcome."""
    return {OUTCOME: verdict.outcome.value, SECONDS: round(verdict.seconds, 3)}


def unjudged(verdict: SpecVerdict) -> str | None:
    """Return why a spec says nothing about the cluster; None where it does."""
    if verdict.outcome is SpecOutcome.SKIPPED:
        return OWN_WORDS + verdict.text.removeprefix("the spec was skipped: skipped - ")
    return NOT_RUN + verdict.text if verdict.outcome is SpecOutcome.NOT_RUN else None


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
