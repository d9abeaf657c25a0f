"""Operations that playbooks of others do not have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.operator.decide.desired import Desired
from harness.operator.decide.observed import Observed
from harness.operator.decide.operations import next_operation
from harness.operator.decide.phases import no_phase
from harness.operator.decide.waits import Wait, WaitReason
from tests.unit.operator.decide.products import GOOD, known
from tests.unit.operator.decide.wishes import NOW, deployed, operation, wish

THEIRS = {"product": {"configMap": "theirs"}}


def theirs(text: str = GOOD, **spec: Any) -> Desired:
    """Return a wish for a cluster of another team's playbooks."""
    return wish(product=known(text), playbooks=THEIRS, **spec)


def test_with_our_own_playbooks_there_is_every_phase() -> None:
    assert no_phase("upgrade", wish()) is None


def test_a_phase_that_the_product_has_begins() -> None:
    assert no_phase("deploy", theirs()) is None
    assert operation(next_operation(theirs(), Observed(NOW))).operation == "deploy"


def test_a_phase_that_it_lacks_is_refused_in_words_before_anything_begins() -> None:
    held = next_operation(theirs(GOOD.replace("deploy: {", "other: {")), Observed(NOW))
    assert isinstance(held, Wait)
    assert held.reason == WaitReason.NO_SUCH_PHASE
    assert held.message.startswith(
        "spec.playbooks.product: their playbooks has no phase deploy, which deploy needs; it has other, scale-out"
    )
    assert "put the changed fields back" in held.message


def test_what_only_the_cluster_needs_is_refused_when_it_is_due() -> None:
    before = theirs(version="1.36.1")
    held = next_operation(theirs(version="1.36.3"), deployed(before))
    assert isinstance(held, Wait)
    assert (held.reason, "no phase upgrade" in held.message) == (WaitReason.NO_SUCH_PHASE, True)


def test_a_deletion_never_runs_our_reset_on_what_others_made() -> None:
    gone = replace(theirs(deleted=True), product=None, refused=("spec.playbooks.product: no such ConfigMap",))
    held = next_operation(gone, deployed(theirs()))
    assert isinstance(held, Wait)
    assert (held.reason, held.message) == (WaitReason.NOT_ACCEPTED, "spec.playbooks.product: no such ConfigMap")
    lacks = next_operation(theirs(GOOD.replace("reset:", "wipe:"), deleted=True), deployed(theirs()))
    assert isinstance(lacks, Wait)
    assert "set spec.deletion.machines to Leave" in lacks.message


def test_the_file_is_one_of_the_inputs() -> None:
    assert theirs().digest != theirs(GOOD + "# a word\n").digest
    assert theirs().digests == theirs(GOOD + "# a word\n").digests
