"""Rules of models in CEL, for the API server, and their twins in Python.

With its twin, a rule is judged in the same words where an object came past the API server's rules: older definitions, a
file. Rules about a change (`oldSelf`) have none: only the API server sees both sides of an edit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]


@dataclass(frozen=True)
class Cel:
    """One rule of a model, in CEL, as the API server checks it.

    field: what is wrong, relative to the model (`.replicas`), "" for the whole.  message: what is wrong.
    remedy: what to write instead.  creating: the rule holds for new objects only; existing ones may pass through.
    holds: the same rule in Python, of a model; None where only the API server can tell.
    """

    rule: str
    message: str
    remedy: str
    field: str = ""
    creating: bool = False
    holds: Callable[[Any], bool] | None = None

    def schema(self) -> Schema:
        """Return the entry of `x-kubernetes-validations`."""
        rule = f"oldSelf.hasValue() || ({self.rule})" if self.creating else self.rule
        made: Schema = {"rule": rule, "message": f"{self.message}: {self.remedy}"}
        if self.creating:
            made["optionalOldSelf"] = True
        if self.field:
            made["fieldPath"] = self.field
        return made


def unchanged(field: str, remedy: str = "delete the object and create it again to change this") -> Cel:
    """Return the rule that a required field stays as it is."""
    name = field.removeprefix(".")
    return Cel(f"self.{name} == oldSelf.{name}", f"{name} cannot change", remedy, field)
