"""Rooms to call commands in, and the servers that lie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import harness.cli
from harness.kube.api import Api, Patience
from harness.kube.connection import ApiConnection
from tests.unit.refusals.called import SECONDS, Room, prepared, rooms
from tests.unit.refusals.lying import LIES, Liar

# Of servers that never end their answer; all others are waited for, however slow this host is.
SHORT = Patience(connect_seconds=5.0, read_seconds=0.2, whole_seconds=0.4, again_seconds=0.0)
LONG = Patience(connect_seconds=SECONDS, read_seconds=SECONDS, whole_seconds=SECONDS, again_seconds=0.0)


@pytest.fixture(scope="session")
def entry() -> Any:
    return prepared()


def _never_ends(request: pytest.FixtureRequest) -> bool:
    """Tell whether the case is about a server that never ends its answer."""
    values = getattr(request.node, "callspec", None)
    return any(LIES[v].drips for v in values.params.values() if isinstance(v, str) and v in LIES) if values else False


@pytest.fixture
def room(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    entry: Any,
) -> Iterator[Room]:
    patience = SHORT if _never_ends(request) else LONG
    monkeypatch.setattr(harness.cli, "every_command", lambda: entry)
    plain = Api.__init__

    def opened(api: Api, connection: ApiConnection, _asked: Patience | None = None) -> None:
        plain(api, connection, patience)

    monkeypatch.setattr(Api, "__init__", opened)
    yield from rooms(tmp_path, monkeypatch, capsys)


@pytest.fixture(scope="session")
def liar() -> Iterator[Liar]:
    with Liar() as running:
        yield running
