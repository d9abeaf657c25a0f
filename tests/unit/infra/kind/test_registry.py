"""How a kind node is told of the instance's registry, in a shell as in the node."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import cast

import pytest

from harness.errors import InfraError
from harness.infra.kind import registry
from harness.infra.kind.engine import Engine
from harness.proc import Completed

ADDRESS = "10.213.0.1:5000"


class Node:
    """Runs words on this host."""

    client = "docker"

    def inside(self, container: str, *words: str, check: bool = True) -> Completed:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return Completed(words, done.returncode, done.stdout, done.stderr, 0.0)


def test_a_node_pulls_from_it_without_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "FOLDER", str(tmp_path / "certs.d"))
    for _ in range(2):
        registry.know(cast(Engine, Node()), "n", ADDRESS)
    told = tomllib.loads((tmp_path / "certs.d" / ADDRESS / "hosts.toml").read_text(encoding="utf-8"))
    server = f"http://{ADDRESS}"
    assert told == {"server": server, "host": {server: {"capabilities": ["pull", "resolve"]}}}


def test_a_node_that_cannot_be_told_ends_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(registry, "FOLDER", str(tmp_path / "file"))
    with pytest.raises(InfraError, match=f"cannot be told of the registry {ADDRESS}"):
        registry.know(cast(Engine, Node()), "n", ADDRESS)
