"""What the models of all files are made of: their base class, words, quantities and conditions, with messages."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from datetime import date
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    Strict,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import CoreSchema, PydanticCustomError


def described(docstring: str, keys: Iterable[str]) -> tuple[str, dict[str, str]]:
    """Split a clean docstring into what it says of the whole, and of each key that it describes."""
    any_key = "|".join(sorted(map(re.escape, keys), key=len, reverse=True)) or r"(?!)"
    entry = re.compile(rf"(?:^ *|(?<=  ))((?:{any_key})(?:, (?:{any_key}))*): ", re.MULTILINE)
    whole: list[str] = []
    described_keys: dict[str, str] = {}
    for paragraph in docstring.split("\n\n"):
        beginning, *entries = entry.split(paragraph)
        whole.append(" ".join(beginning.split()))
        for names, text in zip(entries[::2], entries[1::2], strict=True):
            described_keys |= dict.fromkeys(names.split(", "), _sentence(text))
    return "\n\n".join(filter(None, whole)), described_keys


def _sentence(text: str) -> str:
    """Return a text in one line that begins and ends as a sentence; a key or a value in backquotes stays as it is."""
    line = " ".join(text.split())
    return f"{line[0].upper()}{line[1:]}{'' if line.endswith('.') else '.'}"


SLUG = r"^[a-z0-9]+$"
NAME = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"
URL = r"^https?://[^\s/]+/\S+$"
DAY = re.compile(r"\d{4}-\d\d-\d\d")
QUANTITY = r"^[1-9][0-9]{0,6}(Mi|Gi)$"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
MACHINE = r"^[a-z][a-z0-9]{0,9}$"
CONTROL = r"^[0-9]+(\.[0-9]+)+$"
CHECK = r"^[^:\s]+: \S.*$"
ARTIFACT = r"^[a-z0-9][-./a-zA-Z0-9]*(@[0-9A-Za-z][-+.0-9A-Za-z]*)?$"
REPOSITORY = r"^[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][-.A-Za-z0-9_]*)?$"
TAGGED = r"^[a-z0-9]+([._/-]+[a-z0-9]+)*:[A-Za-z0-9_][-.A-Za-z0-9_]*$"
CHECKSUM = r"^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$"
DIGEST = r"^(sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})$"
PATCH = r"^(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}$"
GO_SUM = r"^h1:[A-Za-z0-9+/]{43}=$"
MODULE_PATH = r"^[a-z0-9][-.a-z0-9]*\.[a-z]+(/[-.~_A-Za-z0-9]+)*$"
GROUP = r"^[A-Za-z_][A-Za-z0-9_.-]*$"
USER = r"^[a-z_][a-z0-9_-]{0,31}$"
INSTANCE = r"^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$"
NAMESPACE = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
PACKAGE = r"^[A-Za-z0-9][-A-Za-z0-9_.]{0,99}$"
FOLDER = r"^/"
KIND = r"^[A-Z][A-Za-z0-9]*$"
NAMESPACED = r"^[^/]+/[^/]+$"
SUBJECT = r"^((Group|User) \S+|ServiceAccount [^/\s]+/[^/\s]+)$"
KUBERNETES = r"^v?1\.[0-9]+\.[0-9]+([-+][-+.0-9A-Za-z]+)?$"
RELEASE = r"^v?[0-9]+(\.[0-9]+)*([-+][-+.0-9A-Za-z]+)?$"
REGISTRY = r"^[A-Za-z0-9][-.A-Za-z0-9]*(:[0-9]{1,5})?(/[-._/a-z0-9]+)?$"

# What a person reads in place of the pattern that a text does not match.
WANTED = {
    SLUG: "expected lower-case letters and digits only",
    NAME: "expected lower-case letters, digits, '-' and '.', a letter or digit at both ends",
    URL: "expected http:// or https://, a host and a path",
    QUANTITY: "expected a whole number of Mi or Gi, such as 2Gi",
    VARIABLE: "expected the name of a variable: letters, digits and '_', not a digit first",
    MACHINE: "expected a lower-case letter, then at most nine letters or digits",
    CONTROL: 'expected the number of a control, such as "1.2.9", in quotes',
    CHECK: "expected `suite: name`, such as `network: test_dns*`",
    ARTIFACT: "expected NAME or NAME@VERSION of what `vmatrix artifacts list` shows",
    REPOSITORY: "expected a repository, such as coredns/coredns, with or without :TAG, and without a registry",
    TAGGED: "expected REPOSITORY:TAG, without a registry",
    CHECKSUM: "expected sha256: and 64 hexadecimal digits, or sha512: and 128",
    DIGEST: "expected a digest, sha256: and 64 hexadecimal digits, or one of sha384 or sha512",
    PATCH: "expected a patch version without `v`, such as 3.6.9",
    GO_SUM: "expected the checksum of a Go module as go.sum has it: h1: and 44 characters that end in =",
    MODULE_PATH: "expected the path of a Go module, such as go.etcd.io/etcd/server/v3",
    GROUP: "expected the name of an inventory group: letters, digits, '_', '-' and '.', a letter or '_' first",
    USER: "expected the name of a Linux user",
    INSTANCE: "expected at most 32 lower-case letters, digits and '-', a letter or digit at both ends",
    NAMESPACE: "expected a namespace: at most 63 lower-case letters, digits and '-', a letter or digit at both ends",
    PACKAGE: "expected at most 100 letters, digits, '-', '_' and '.', a letter or digit first",
    FOLDER: "expected an absolute path, which begins with /",
    KIND: "expected a kind as objects have it, such as ClusterDeployment",
    NAMESPACED: "expected NAMESPACE/NAME",
    SUBJECT: "expected `User NAME`, `Group NAME` or `ServiceAccount NAMESPACE/NAME`",
    KUBERNETES: "expected a version of Kubernetes, such as v1.36.3 or v1.33.4+k3s1",
    RELEASE: "expected a version, such as 1.13.1 or v3.6.9-0",
    REGISTRY: "expected a registry, HOST, HOST:PORT or HOST:PORT/PATH, without https://",
}


def _day(value: Any) -> Any:
    """Refuse a number, in quotes or not, which pydantic takes for seconds since 1970."""
    if isinstance(value, date) or (isinstance(value, str) and DAY.fullmatch(value)):
        return value
    raise PydanticCustomError("date_type", "expected a date")


Slug = Annotated[str, StringConstraints(pattern=SLUG, max_length=10)]
Name = Annotated[str, StringConstraints(pattern=NAME, max_length=40)]
Url = Annotated[str, StringConstraints(pattern=URL)]
Quantity = Annotated[str, StringConstraints(pattern=QUANTITY)]
Variable = Annotated[str, StringConstraints(pattern=VARIABLE)]
Day = Annotated[date, BeforeValidator(_day)]
Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Whole = Annotated[int, Strict()]
Real = Annotated[float, Strict()]
Seconds = Annotated[Real, Field(gt=0)]
Variables = dict[Variable, JsonValue]
Group = Literal["control_plane", "etcd", "node"]
Feature = Literal["host-kernel", "vm-kernel", "internet", "segment", "ipv6", "built-images", "pods", "deliveries"]

MEBIBYTES = {"Mi": 1, "Gi": 1024}


class Model(BaseModel):
    """Frozen, and strict about unknown keys. What checks its values is made when the first of them is there."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the JSON Schema, with what the docstring says of each key (`described`)."""
        made = handler.resolve_ref_schema(handler(core))
        properties = made.get("properties", {})
        made["description"], texts = described(inspect.cleandoc(cls.__doc__ or ""), properties)
        for name, text in texts.items():
            properties[name].setdefault("description", text)
        return made


@cache
def mebibytes(quantity: str) -> int:
    """Convert a quantity such as 2Gi or 1536Mi to MiB."""
    if re.match(QUANTITY, quantity) is None:
        raise ValueError(quantity)
    return int(quantity[:-2]) * MEBIBYTES[quantity[-2:]]


def _one_message(message: str) -> WrapValidator:
    """Say one thing where pydantic would say why each member of a union does not fit."""

    def check(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError as error:
            raise PydanticCustomError("unfit", message) from error

    return WrapValidator(check)


Words = tuple[Text, ...]
OneOrMore = Text | Annotated[Words, Field(min_length=1)]
GroupName = Annotated[str, StringConstraints(pattern=GROUP)]
GroupNames = GroupName | tuple[GroupName, ...]
Steps = Annotated[
    Name | Annotated[tuple[Name, ...], Field(min_length=1)],
    _one_message("expected a word of the values' `before`, or a list of them"),
]


class Unlike(Model):
    """A condition that holds for every value but these.

    not: a value, or a list of values.
    """

    not_: OneOrMore = Field(alias="not")


class OfClass(Model):
    """A condition that holds for the values of these classes.

    class: a class, or a list of classes.
    """

    class_: OneOrMore = Field(alias="class")


class UnlikeClass(Model):
    """A condition that holds for the values of every class but these.

    not_class: a class, or a list of classes.
    """

    not_class: OneOrMore


Condition = Annotated[
    OneOrMore | Unlike | OfClass | UnlikeClass,
    _one_message("expected a value, a list of values, {not: values}, {class: classes} or {not_class: classes}"),
]
