"""What the process does while its API server is still starting, and what only when that is ready."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.embedded import process
from harness.embedded.node import registration
from harness.embedded.process import READY, SERVING, Options
from harness.kube.client import Cluster


class Registered(Exception):
    """The Node is registered: the test needs no more."""


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return what a process does up to the registration of its Node, in its order."""
    done: list[str] = []

    def register(_: Any) -> None:
        done.append("register")
        raise Registered

    cluster = SimpleNamespace(request=lambda _verb, path, **_: done.append(path))
    monkeypatch.setattr(Cluster, "from_kubeconfig", lambda _: cluster)
    monkeypatch.setattr(process, "_serve_webhooks", lambda *_: SimpleNamespace(shutdown=lambda: None))
    monkeypatch.setattr(process, "install", lambda *_, **__: done.append("install"))
    monkeypatch.setattr(registration, "register", register)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    (tmp_path / "ca.crt").touch()
    with pytest.raises(Registered):
        process.run(Options(Path("kubeconfig"), tmp_path, 0, "node", "10.213.0.1", 1, tmp_path, ("10.213.0.1", 2)))
    return done


def test_definitions_are_installed_before_the_api_server_has_written_its_roles(order: list[str]) -> None:
    assert order == [SERVING, "install", READY, "register"]


def test_everything_but_roles_and_priorities_is_there_before_definitions_are_installed() -> None:
    left_out = SERVING.removeprefix(f"{READY}?").split("&")
    assert left_out == [
        "exclude=poststarthook/rbac/bootstrap-roles",
        "exclude=poststarthook/scheduling/bootstrap-system-priority-classes",
    ]
