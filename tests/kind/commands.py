"""The command as a person runs it, and what an instance leaves behind."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from harness import proc
from harness.infra.host import status
from harness.infra.host.layout import layout_of
from harness.infra.kind import engine
from harness.infra.kind.engine import Engine

VMATRIX = Path(sys.executable).with_name("vmatrix")


def vmatrix(*words: str, seconds: float, check: bool = True) -> proc.Completed:
    """Run a command; its output is shown when a test fails."""
    done = proc.run([VMATRIX, *words], timeout=seconds, check=False, on_line=print)
    assert done.returncode == 0 or not check, f"{proc.pasteable(done.argv)} ended with {done.returncode}"
    return done


def described(name: str) -> dict[str, Any]:
    """Return what `vmatrix infra describe` says of an instance that is up."""
    done = proc.run([VMATRIX, "infra", "describe", "--provider", "kind", "--name", name, "--json"], timeout=60)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def the_engine() -> Engine:
    """Return the engine that runs."""
    running = engine.find().engine
    assert running is not None
    return running


def containers(name: str) -> list[Any]:
    """Return the containers of an instance."""
    return list(the_engine().containers(f"vmatrix-{name}"))


def traces(name: str, index: int | None) -> list[str]:
    """Return what of an instance is on this host and in the engine."""
    in_engine = [f"container {c['Name']}" for c in containers(name)]
    in_engine += [f"network {network}" for network in the_engine().networks() if network == f"vmatrix-{name}"]
    return [*status.leftovers(layout_of(name, "kind"), index), *in_engine]
