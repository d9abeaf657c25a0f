"""A workload and the API answer all through a phase that says so; how long they did not is told in every report."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.model import Cell
from harness.plugin.items import MEASURED
from harness.spec.models import Timeouts
from harness.validate.facts.availability import interrupted
from harness.validate.judge.mismatch import require
from harness.validate.phases import witness as seen
from harness.validate.phases.data import LIFE
from harness.validate.phases.witness import PhaseRecord

Note = Callable[[str, object], None]


def keeps_answering(cell: Cell, index: int) -> bool:
    """Tell whether the scenario says so of a phase."""
    return cell.phases[index].workload == seen.KEEPS_ANSWERING


@pytest.mark.when(phase=keeps_answering)
def test_workload_keeps_answering(
    cell: Cell, phase: int, record: PhaseRecord, timeouts: Timeouts, record_property: Note
) -> None:
    bound = None if record.single else timeouts.workload_outage
    answers = record.of(seen.WORKLOAD)
    record_property(MEASURED, answers.told(bound))
    require(
        interrupted(answers, phase_seconds=record.seconds, bound=bound),
        claim=f"two pods behind a Service answered {record.asker}, which asked twice a second, all through the phase",
        look=f"checks/answers-{cell.stage(phase)}.jsonl; was a node drained without regard to PodDisruptionBudgets?",
        do=f"kubectl --kubeconfig kubeconfig -n {LIFE} get pods,pdb,events -o wide",
    )


@pytest.mark.when(phase=keeps_answering)
def test_api_keeps_answering_at_a_nodes_own_address(
    cell: Cell, phase: int, record: PhaseRecord, timeouts: Timeouts, record_property: Note
) -> None:
    answers = record.of(seen.API)
    record_property(MEASURED, answers.told(timeouts.api_outage))
    require(
        interrupted(answers, phase_seconds=record.seconds, bound=timeouts.api_outage),
        claim=f"the API answered at 127.0.0.1:6445 on {record.asker} during the phase",
        look=f"checks/answers-{cell.stage(phase)}.jsonl; the phase's log: how long did each static pod take?",
        do=f"vmatrix login {cell.id} {record.asker}, then systemctl status api-endpoint",
    )
