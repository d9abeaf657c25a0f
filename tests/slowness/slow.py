"""Ways to make a cluster slow as data: what is done, how it is undone, what is measured, and what must be named."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from harness.spec.base import Model, Name, Text
from harness.spec.loader import load_file

FILE = Path(__file__).with_name("slowness.yml")
SHELL = Path(__file__).with_name("shell.sh")


class Slowness(Model):
    """One way to make a cluster slow.

    machine: where the commands run, as root.  ways: commands that do it, by name; the first that works is used.
    measure: the checks of the suite that notice it, as pytest's -k takes it.
    names: words that one line of what is slower must contain.
    """

    id: Name
    what: Text
    machine: Name
    ways: Annotated[dict[Name, Text], Field(min_length=1)]
    undo: Text
    measure: Text
    names: Annotated[tuple[Text, ...], Field(min_length=1)]


class SlownessFile(Model):
    """slowness.yml."""

    slowness: Annotated[tuple[Slowness, ...], Field(min_length=1)]


def load() -> tuple[Slowness, ...]:
    """Load all of them. Raises BadInput: a line per mistake."""
    return load_file(FILE, SlownessFile)[0].slowness


def script(commands: str) -> str:
    """Return commands with the functions that they use."""
    return f"{SHELL.read_text(encoding='utf-8')}\n{commands}"


def named(slowness: Slowness, said: str) -> str:
    """Return the part of what the suite said that names it; "" without one.

    Args:
        said: the line of the last check, parts of which begin with "slower: ".
    """
    parts = (part.removeprefix("slower: ") for part in said.split("; ") if part.startswith("slower: "))
    return next((part for part in parts if all(word in part for word in slowness.names)), "")
