"""Every file that a project may have in matrix/, with the keys that its schema knows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ci.site.tables import shown, table
from harness.paths import SETTINGS
from harness.spec.schemas import schemas

OUTSIDE = {"vmatrix": SETTINGS, "facts": "A file of facts"}  # of no matrix


def text() -> str:
    """Return a section for each file."""
    return "\n\n".join(_section(name, json.loads(schema)) for name, schema in sorted(schemas().items()))


def _section(name: str, schema: Mapping[str, Any]) -> str:
    file = OUTSIDE.get(name, f"matrix/{name}.yml")
    parts = [f"## {file}", f"Schema: [schemas/{name}.json](../schemas/{name}.json)"]
    described = schema.get("description", "")
    parts += [shown(described)] if described else []
    parts += [table(("key", "meaning"), _keys(schema))]
    parts += [
        f"### {title} in {file}\n\n{table(('key', 'meaning'), _keys(one))}"
        for title, one in schema.get("$defs", {}).items()
        if one.get("properties")
    ]
    return "\n\n".join(parts)


def _keys(schema: Mapping[str, Any]) -> list[tuple[str, str]]:
    required = schema.get("required", [])
    return [
        (f"`{key}`{' (required)' if key in required else ''}", one.get("description", ""))
        for key, one in schema.get("properties", {}).items()
    ]
