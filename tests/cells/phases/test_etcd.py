"""A phase that is for etcd did what it is for, on every member."""

from __future__ import annotations

import pytest

from harness.model import Cell
from harness.validate.commands import etcdctl
from harness.validate.findings import require
from harness.validate.phases.observation import Observation
from harness.validate.topics import etcd


def defragments(cell: Cell, index: int) -> bool:
    """Tell whether a phase defragments etcd."""
    return cell.phases[index].name == etcd.DEFRAGMENT


@pytest.mark.when(phase=defragments)
def test_every_member_was_defragmented(before: Observation, after: Observation) -> None:
    require(
        etcd.not_defragmented(before.etcd, after.etcd, after.expected),
        claim="every member of etcd was defragmented in the phase, and none was restarted for it",
        look="the phase's log: was the gain worth it by cluster_etcd_defragment_percent and _mebibytes?",
        do=etcdctl(after.expected, "endpoint status --cluster"),
    )
