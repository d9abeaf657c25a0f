"""The programs of an embedded instance, and what each waits for."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.infra.embedded.provider import EmbeddedProvider
from harness.infra.host.layout import Layout
from harness.infra.host.program import PlainCommand
from harness.infra.host.services import HostConfig


@pytest.fixture
def after(tmp_path: Path) -> dict[str, tuple[str, ...]]:
    """Return what each program waits for before it is started."""
    none = PlainCommand(())
    layout = Layout("unit", tmp_path / "unit")
    config = HostConfig(
        layout, lambda _: Path(), lambda _: none, lambda _: none, lambda _: None, lambda: None, lambda: True
    )
    return {program.name: program.after for program in EmbeddedProvider(config).programs(0)}


def test_a_program_comes_after_those_that_it_waits_for(after: dict[str, tuple[str, ...]]) -> None:
    names = list(after)
    assert all(names.index(earlier) < names.index(name) for name, waits in after.items() for earlier in waits)


def test_the_embedded_kubevirt_is_loaded_while_the_api_server_starts(after: dict[str, tuple[str, ...]]) -> None:
    assert after["kubevirt"] == after["kube-apiserver"] == ("etcd",)


def test_components_with_roles_are_started_once_the_api_server_has_them(after: dict[str, tuple[str, ...]]) -> None:
    assert after["kube-controller-manager"] == after["kube-scheduler"] == ("kube-apiserver",)
