"""The JSON Schemas of matrix/*.yml and vmatrix.yml, for editors, in this repository and in others.

A file of matrix/ is either whole, or has `extends: default` and says only what is different (`amend`): then nothing is
required, every key may be null, and an entry of a list with names may have `remove`.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from harness.spec.layers import DEFAULT, EXTENDS, NAMES, REMOVE, WHY
from harness.spec.models import FILES
from harness.spec.models.facts import FactsFile
from harness.spec.settings import Settings

Schema = dict[str, Any]
DEFS, REF = "$defs", "$ref"
AMENDED = "Amended"  # begins the names of definitions for files that amend
WHOLE_ONLY = ("required", "minItems", "minProperties", "minLength", "discriminator", "default")


def schemas() -> dict[str, str]:
    """Return each file's JSON Schema as text, by the file's name without its ending."""
    made = {name.removesuffix(".yml"): _of_matrix(model) for name, model in FILES.items()}
    made["facts"] = FactsFile.model_json_schema()
    made["vmatrix"] = Settings.model_json_schema()
    return {name: json.dumps(schema, indent=2) + "\n" for name, schema in made.items()}


def _of_matrix(model: type[BaseModel]) -> Schema:
    """Return the schema of a file that may be whole or amend the packaged one."""
    whole = model.model_json_schema()
    defs: Schema = whole.pop(DEFS, {})
    amending = _amended(whole, defs)
    amending["properties"] = {
        EXTENDS: {"const": DEFAULT, "description": "Change the packaged file of this name instead of replacing it."},
        **amending["properties"],
    }
    return {
        DEFS: {**defs, **{f"{AMENDED}{name}": _amended(schema, defs) for name, schema in defs.items()}},
        "title": whole.pop("title"),
        "description": whole.pop("description"),
        "type": "object",
        "if": {"required": [EXTENDS]},
        "then": {key: value for key, value in amending.items() if key not in ("title", "description")},
        "else": whole,
    }


def _amended(schema: Schema, defs: Schema) -> Schema:
    """Return what a file that amends may have in place of a schema."""
    if REF in schema:
        return {**schema, REF: schema[REF].replace(f"#/{DEFS}/", f"#/{DEFS}/{AMENDED}")}
    if "items" in schema:
        return _list(schema, defs)
    made = {key: value for key, value in schema.items() if key not in WHOLE_ONLY}
    if "properties" in schema:
        made["properties"] = {key: _removable(inner, defs) for key, inner in schema["properties"].items()}
        if _names_of(schema, defs):
            made["properties"][REMOVE] = {"const": True, "description": "Remove the packaged entry of this name."}
    for key in ("additionalProperties", "patternProperties"):
        if isinstance(schema.get(key), dict):
            inner = schema[key]
            plain = key == "additionalProperties"
            made[key] = _removable(inner, defs) if plain else {p: _removable(s, defs) for p, s in inner.items()}
    for key in ("anyOf", "oneOf"):
        if key in schema:
            made.pop(key)
            made["anyOf"] = [_amended(choice, defs) for choice in schema[key]]
    return made


def _list(schema: Schema, defs: Schema) -> Schema:
    """Return a list as it amends: entries with names are changed one by one, others are replaced as a whole."""
    names = _names_of(schema["items"], defs) if isinstance(schema["items"], dict) else ()
    if not names:
        return schema
    made = {key: value for key, value in schema.items() if key not in WHOLE_ONLY}
    named = {"required": [names[0]]} if len(names) == 1 else {"anyOf": [{"required": [name]} for name in names]}
    return {**made, "items": {"allOf": [_amended(schema["items"], defs)], **named}}


def _removable(schema: Schema, defs: Schema) -> Schema:
    made = dict(_amended(schema, defs))
    return {"anyOf": [made, {"type": "null"}], **{key: made.pop(key) for key in ("description",) if key in made}}


def _names_of(schema: Schema, defs: Schema) -> tuple[str, ...]:
    """Return the key by which entries of this schema are known, and what may stand for it; nothing without one."""
    entry = defs.get(schema[REF].rpartition("/")[2], {}) if REF in schema else schema
    required = entry.get("required", ())
    if WHY in required and "id" in entry.get("properties", {}):
        return ("id", WHY)
    return tuple(key for key in NAMES if key in required)[:1]
