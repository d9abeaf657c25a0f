"""Rooms to call commands in, and the servers that lie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import harness.cli
from harness.kube.client import Cluster
from harness.kube.patience import Patience
from harness.providers import site
from tests.unit.refusals.called import Room, prepared, rooms
from tests.unit.refusals.lying import Liar

# Everything that these servers say comes at once, or never: short times change no verdict.
SHORT = Patience(connect_seconds=5.0, read_seconds=0.5, whole_seconds=1.0, again_seconds=0.0)


@pytest.fixture(scope="session")
def entry() -> Any:
    return prepared()


@pytest.fixture
def room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], entry: Any
) -> Iterator[Room]:
    monkeypatch.setattr(harness.cli, "every_command", lambda: entry)
    monkeypatch.setattr(site, "PATIENT", SHORT)
    monkeypatch.setattr(Patience, "of", staticmethod(lambda limits: SHORT))
    defaults: Any = Cluster.from_kubeconfig.__kwdefaults__
    monkeypatch.setitem(defaults, "patience", SHORT)
    yield from rooms(tmp_path, monkeypatch, capsys)


@pytest.fixture(scope="session")
def liar() -> Iterator[Liar]:
    with Liar() as running:
        yield running
