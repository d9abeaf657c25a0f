"""The controls of the CIS Kubernetes Benchmark, and what becomes of each in a hardened cluster."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from harness.spec.base import CHECK, CONTROL, Model, Text
from harness.spec.lines import read
from harness.spec.shape import validate

FILE = Path(__file__).with_name("controls.yml")
Number = Annotated[str, StringConstraints(pattern=CONTROL)]
CheckName = Annotated[str, StringConstraints(pattern=CHECK)]


class Control(Model):
    """One control. Exactly one of the last three is given.

    id: its number.  title: its title.  met: the checks that show that it is met, as `suite: name`.
    not_met: why it is not met by choice.  person: what a person has to look at.
    """

    id: Number
    title: Text
    met: tuple[CheckName, ...] = ()
    not_met: str = ""
    person: str = ""

    @model_validator(mode="after")
    def _decided(self) -> Self:
        if sum(map(bool, (self.met, self.not_met, self.person))) != 1:
            raise ValueError("exactly one of met, not_met and person is given")
        return self


class ControlsFile(Model):
    """The file of controls."""

    controls: Annotated[tuple[Control, ...], Field(min_length=1)]


class Waiver(Model):
    """A control that a project does not want to meet: checks leave it out, and reports say why.

    control: its number in the CIS Kubernetes Benchmark.  reason: why it is not met.
    """

    control: Number
    reason: Text


@functools.cache
def controls() -> Mapping[str, Control]:
    """Return all controls by number, in the order of the benchmark."""
    document, _ = read(FILE)
    parsed, wrong = validate(document, ControlsFile)
    assert parsed is not None, wrong  # noqa: S101 - the file ships with this module
    return {control.id: control for control in parsed.controls}
