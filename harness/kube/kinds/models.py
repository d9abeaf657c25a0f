"""Base classes and field helpers for models of CRDs, and validation rules in CEL.

With its twin, a rule is judged in the same words where an object came past the API server's rules: older definitions, a
file. Rules about a change (`oldSelf`) have none: only the API server sees both sides of an edit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, JsonValue
from pydantic.alias_generators import to_camel, to_snake
from pydantic_core import CoreSchema

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


# Words of CEL, and how a field with such a name is written:
# https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules
RESERVED = frozenset(
    ("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop")
) | {"namespace", "null", "package", "return", "true", "var", "void", "while"}
ANEW = "delete the object and create it again to change this"


def unchanged(field: str, remedy: str = ANEW) -> Cel:
    """Return the rule that a required field stays as it is."""
    name = field.removeprefix(".")
    called = f"__{name}__" if name in RESERVED else name
    return Cel(f"self.{called} == oldSelf.{called}", f"{name} cannot change", remedy, field)


def keys_match(field: str, pattern: str, message: str, remedy: str) -> Cel:
    """Return the rule that all keys of a map have a form. pattern: of the whole key, from ^ to $."""
    name = field.removeprefix(".")
    attribute = to_snake(name)
    return Cel(
        f"self.{name}.all(key, key.matches('{pattern}'))",
        message,
        remedy,
        field,
        holds=lambda model: all(re.fullmatch(pattern, key) for key in getattr(model, attribute)),
    )


VALIDATIONS = "x-kubernetes-validations"
Place = tuple[str | int, ...]  # of a field inside of a model


class ApiModel(BaseModel):
    """Frozen, strict about unknown keys, with names in camelCase as in every Kubernetes API."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, allow_inf_nan=False
    )
    cel: ClassVar[tuple[Cel, ...]] = ()

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        """Return the JSON Schema with the rules in it."""
        made = handler.resolve_ref_schema(handler(core))
        if cls.cel:
            made[VALIDATIONS] = [rule.schema() for rule in cls.cel]
        return made

    def broken(self, place: Place = (), *, creating: bool) -> Iterator[tuple[Place, Cel]]:
        """Yield the rules that do not hold, of this model and of those inside of it, each with its model's place.

        Args:
            creating: whether rules for new objects count.
        """
        for rule in self.cel:
            if rule.holds is not None and (creating or not rule.creating) and not rule.holds(self):
                yield place, rule
        for name, field in type(self).model_fields.items():
            value, inside = getattr(self, name), (*place, field.alias or name)
            parts = {(*inside, number): part for number, part in enumerate(value)} if isinstance(value, tuple) else {}
            for where, part in {inside: value, **parts}.items():
                if isinstance(part, ApiModel):
                    yield from part.broken(where, creating=creating)


class StatusModel(ApiModel):
    """What controllers write; unknown keys are left out, because a newer manager may have written more."""

    model_config = ConfigDict(extra="ignore")


class Metadata(StatusModel):
    """Metadata as far as controllers decide by it."""

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class ObjectModel(ApiModel):
    """A whole object of a kind."""

    api_version: str = ""
    kind: str = ""
    metadata: Metadata


def part(model: type[BaseModel], description: str) -> Any:
    """Return the field of an object with defaults of its own, all of which stand in the schema.

    The API server checks a default by the rules of the object as it stands, before it fills in what is missing.
    """
    whole = model().model_dump(mode="json", by_alias=True, exclude_none=True)
    return Field(default_factory=model, description=description, json_schema_extra={"default": whole})


def listed(description: str, *, key: str | None = None, **limits: Any) -> Any:
    """Return the field of a list: of objects by their `key`, or of different values without one."""
    of_objects: dict[str, JsonValue] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return Field(
        description=description, json_schema_extra=of_objects if key else {"x-kubernetes-list-type": "set"}, **limits
    )


def mapped(description: str, **limits: Any) -> Any:
    """Return the field of a map that is empty by default, in the schema, too."""
    return Field(default_factory=dict, description=description, json_schema_extra={"default": {}}, **limits)
