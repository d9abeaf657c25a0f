"""What the models of all kinds are made of: their base class, their rules in CEL, and texts with a pattern and a size.

A rule that the API server checks is told in the same words by `rules.py`, for objects that came past the API server's
rules (older definitions, `explain` on a file).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, JsonValue, StringConstraints
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema

VALIDATIONS = "x-kubernetes-validations"
Schema = dict[str, Any]

ShortName = Annotated[str, StringConstraints(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=20)]
Hostname = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
ObjectName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", max_length=253)]
KubernetesVersion = Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+(-[0-9a-z.]+)?$", max_length=32)]
ComponentVersion = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)*([-+][0-9A-Za-z.]+)?$", max_length=32)]
Line = Annotated[str, StringConstraints(max_length=1024)]
Arguments = Annotated[
    dict[str, Annotated[str, StringConstraints(pattern=r"^[^\n\r]*$", max_length=1024)]], Field(max_length=100)
]
FreeForm = dict[str, JsonValue]


@dataclass(frozen=True)
class Cel:
    """One rule of a model, in CEL, as the API server checks it.

    field: what is wrong, relative to the model (`.replicas`), "" for the whole.  message: what is wrong.
    remedy: what to write instead.  creating: the rule holds for new objects only; existing ones may pass through.
    """

    rule: str
    message: str
    remedy: str
    field: str = ""
    creating: bool = False

    @property
    def text(self) -> str:
        """Return the message as people read it."""
        return f"{self.message}: {self.remedy}"

    def schema(self) -> Schema:
        """Return the entry of `x-kubernetes-validations`."""
        rule = f"oldSelf.hasValue() || ({self.rule})" if self.creating else self.rule
        made: Schema = {"rule": rule, "message": self.text}
        if self.creating:
            made["optionalOldSelf"] = True
        if self.field:
            made["fieldPath"] = self.field
        return made


def unchanged(field: str, remedy: str = "delete the object and create it again to change this") -> Cel:
    """Return the rule that a required field stays as it is."""
    name = field.removeprefix(".")
    return Cel(f"self.{name} == oldSelf.{name}", f"{name} cannot change", remedy, field)


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


class StatusModel(ApiModel):
    """What controllers write; unknown keys are left out, because a newer manager may have written more."""

    model_config = ConfigDict(extra="ignore")


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
