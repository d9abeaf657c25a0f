"""When an embedded instance runs pods: if it is told to, if its cells need it, and ever after."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.infra.host import record
from harness.infra.host.layout import layout_of
from harness.infra.host.record import InstanceRecord
from harness.providers import Opening, named
from harness.providers.embedded import EmbeddedDefinition
from harness.spec.settings import Settings

SETTINGS = Settings(infra_name="of-a-test")


@pytest.fixture
def embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmbeddedDefinition:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = named("embedded")
    assert isinstance(found, EmbeddedDefinition)
    return found


def test_an_instance_runs_pods_only_where_somebody_needs_them(embedded: EmbeddedDefinition) -> None:
    assert not embedded.instance(Opening(SETTINGS)).runs_pods
    assert not embedded.instance(Opening(SETTINGS, needs=frozenset({"internet"}))).runs_pods
    assert embedded.instance(Opening(SETTINGS, needs=frozenset({"pods"}))).runs_pods
    assert embedded.instance(Opening(SETTINGS, choices={"pods": True})).runs_pods


def test_one_that_runs_them_is_repaired_with_them(embedded: EmbeddedDefinition) -> None:
    layout = layout_of(SETTINGS.infra_name, embedded.name)
    record.save(layout, InstanceRecord(SETTINGS.infra_name, 0, "", record.boot_id(), pods=True))
    assert embedded.instance(Opening(SETTINGS)).runs_pods
