"""matrix/constraints.yml: the rules that every cell obeys."""

from __future__ import annotations

from pydantic import Field

from harness.spec.base import Condition, Model, Name, Text


class Constraint(Model):
    """A rule that every cell obeys: where all of `if` holds, all of `then` holds."""

    if_: dict[Name, Condition] = Field(alias="if", min_length=1)
    then: dict[Name, Condition] = Field(min_length=1)
    why: Text
