"""A workload and the API keep answering during a phase whose scenario says so; reports name the longest outage."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.check_result import MEASURED
from harness.model import Cell
from harness.spec.models import Timeouts
from harness.validate.commands import on_machine
from harness.validate.findings import NotJudged, require
from harness.validate.inspection import Inspection
from harness.validate.phases.availability import interrupted
from harness.validate.phases.data import LIFE
from harness.validate.phases.monitor import API, KEEPS_ANSWERING, WORKLOAD, PhaseRecord

Note = Callable[[str, object], None]


def keeps_answering(cell: Cell, index: int) -> bool:
    """Tell whether the scenario wants the workload to keep answering during a phase."""
    return cell.phases[index].workload == KEEPS_ANSWERING


@pytest.mark.when(phase=keeps_answering)
def test_workload_keeps_answering(
    cell: Cell, phase: int, record: PhaseRecord, timeouts: Timeouts, record_property: Note
) -> None:
    limit = None if record.single else timeouts.workload_outage
    answers = record.of(WORKLOAD)
    record_property(MEASURED, answers.summary(limit))
    require(
        interrupted(answers, phase_seconds=record.seconds, limit=limit),
        claim=f"a Service of two pods kept answering {record.client}, two requests a second, during the whole phase",
        look=f"checks/answers-{cell.stage(phase)}.jsonl; was a node drained in spite of the PodDisruptionBudget?",
        do=f"kubectl --kubeconfig kubeconfig -n {LIFE} get pods,pdb,events -o wide",
    )


@pytest.mark.when(phase=keeps_answering)
def test_api_keeps_answering_at_a_nodes_own_address(
    cell: Cell, phase: int, record: PhaseRecord, timeouts: Timeouts, record_property: Note, inspection: Inspection
) -> None:
    if record.api.why:
        raise NotJudged(f"the API at {record.client}'s own address: {record.api.why}")
    answers = record.of(API)
    record_property(MEASURED, answers.summary(timeouts.api_outage))
    require(
        interrupted(answers, phase_seconds=record.seconds, limit=timeouts.api_outage),
        claim=f"the API answered at {record.api.url} on {record.client} during the phase",
        look=f"checks/answers-{cell.stage(phase)}.jsonl; the phase's log: how long did each API server restart?",
        do=on_machine(inspection.expected, f"curl -k {record.api.url}/readyz", machine=record.client),
    )
