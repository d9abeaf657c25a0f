"""Texts with a pattern and a size, and fields that several parts of the kinds have."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue, StringConstraints

ShortName = Annotated[str, StringConstraints(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=20)]
Hostname = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
ObjectName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", max_length=253)]
KubernetesVersion = Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+(-[0-9a-z.]+)?$", max_length=32)]
ComponentVersion = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)*([-+][0-9A-Za-z.]+)?$", max_length=32)]
LoginUser = Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_-]{0,31}$", max_length=32)]
LabelValue = Annotated[str, StringConstraints(max_length=63)]
Line = Annotated[str, StringConstraints(max_length=1024)]
Arguments = Annotated[
    dict[str, Annotated[str, StringConstraints(pattern=r"^[^\n\r]*$", max_length=1024)]], Field(max_length=100)
]
FreeForm = dict[str, JsonValue]
