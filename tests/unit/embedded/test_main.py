"""How the process is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.embedded import STRETCH
from harness.embedded.__main__ import options_of

ARGUMENTS = {
    "--kubeconfig": "/state/kubeconfig",
    "--state": "/state",
    "--index": "5",
    "--node-name": "vmatrix-x",
    "--webhook-address": "10.218.0.1:8443",
    "--pki": "/state/pki",
}


def command_line(**changes: str | None) -> list[str]:
    given = {**ARGUMENTS, **{f"--{k.replace('_', '-')}": v for k, v in changes.items()}}
    return [f"{k}={v}" for k, v in given.items() if v is not None]


def test_options_are_read() -> None:
    options = options_of(command_line())
    assert (options.index, options.node_names, options.state) == (5, ("vmatrix-x",), Path("/state"))
    assert (options.webhook_host, options.webhook_port) == ("10.218.0.1", 8443)
    assert options.subresources == ("10.218.0.1", 8444)


def test_a_host_may_stand_for_several_nodes() -> None:
    options = options_of([*command_line(), "--node-name=vmatrix-x-worker", "--node-name=vmatrix-x-worker2"])
    assert options.node_names == ("vmatrix-x", "vmatrix-x-worker", "vmatrix-x-worker2")


def test_the_factor_of_the_run_that_starts_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert options_of(command_line()).stretch == 1.0
    monkeypatch.setenv(STRETCH, "3.0")
    assert options_of(command_line()).stretch == 3.0


def test_the_subresources_may_be_served_elsewhere() -> None:
    assert options_of(command_line(subresources_address="172.18.0.1:9443")).subresources == ("172.18.0.1", 9443)


@pytest.mark.parametrize("missing", ["kubeconfig", "state", "index", "node_name", "webhook_address", "pki"])
def test_missing_option_is_named(missing: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        options_of(command_line(**{missing: None}))
    assert ended.value.code == 2
    assert f"--{missing.replace('_', '-')}" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["8443", "10.218.0.1", "10.218.0.1:https"])
def test_webhook_address_needs_host_and_port(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options_of(command_line(webhook_address=address))
    assert "is not HOST:PORT" in capsys.readouterr().err
