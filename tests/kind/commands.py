"""The command as a person runs it, and what an instance leaves behind."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import proc
from harness.infra.host import status
from harness.infra.host.layout import layout_of
from harness.infra.kind import engine
from harness.infra.kind.engine import Engine

VMATRIX = Path(sys.executable).with_name("vmatrix")
UP_SECONDS = 3600.0  # with everything to build first; half a minute when it is there
DOWN_SECONDS = 300.0


def vmatrix(*words: str, seconds: float, check: bool = True) -> proc.Completed:
    """Run a command; its output is shown when a test fails."""
    done = proc.run([VMATRIX, *words], timeout=seconds, check=False, on_line=print)
    assert done.returncode == 0 or not check, f"{proc.pasteable(done.argv)} ended with {done.returncode}"
    return done


def up(name: str, *more: str, kubevirt: str = "embedded", check: bool = True) -> proc.Completed:
    """Bring an instance up, or what is missing of it."""
    words = ("infra", "up", "--provider", "kind", "--kubevirt", kubevirt, "--name", name, *more)
    return vmatrix(*words, seconds=UP_SECONDS, check=check)


def down(name: str) -> None:
    """Remove an instance, if it is there."""
    vmatrix("infra", "down", "--provider", "kind", "--name", name, seconds=DOWN_SECONDS)


@contextmanager
def gone(name: str) -> Iterator[None]:
    """Begin with nothing of an instance, and leave nothing of it."""
    down(name)
    try:
        yield
    finally:
        down(name)


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
