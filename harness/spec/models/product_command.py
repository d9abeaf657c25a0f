"""The keys of a phase of kind `command` in matrix/product.yml (docs/command.md)."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from harness.spec.base import Model, Text, Variable
from harness.spec.phase_environment import PREFIX


def _not_ours(name: str) -> str:
    if name.startswith(PREFIX):
        raise ValueError(f"names that begin with {PREFIX} are vmatrix's own; use another one")
    return name


class CommandPhase(Model):
    """A phase that is a program."""

    command: Annotated[tuple[Text, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="With kind `command`: the program of the phase and its arguments. A path with a slash starts at "
        "the product's directory; a name without one is looked for on the PATH.",
    )
    working_directory: Text | None = Field(
        default=None,
        description="With kind `command`: where the program runs, relative to the product's directory; default: there.",
    )
    environment: dict[Annotated[Variable, AfterValidator(_not_ours)], str] = Field(
        default_factory=dict,
        description="With kind `command`: environment variables for the program, in addition to those of vmatrix.",
    )
