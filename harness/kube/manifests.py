"""Objects in texts of YAML, as kubectl reads them, and the order in which they can be applied."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness import yaml_text
from harness.errors import BadInput
from harness.kube.failures import Json

HINT = "`kubectl apply --dry-run=client -f FILE` reads the same"
# What others lie in or are made of comes first. What the API server asks about others comes when it can answer.
FIRST = ("Namespace", "CustomResourceDefinition")
LAST = ("APIService", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")


def objects_of(texts: Mapping[str, str]) -> list[Json]:
    """Return the objects of texts, those of the first one first.

    Args:
        texts: by the name that messages call each.

    Raises:
        BadInput: something is not an object, or there is none, or one twice.
    """
    objects: dict[tuple[str, str, str, str], Json] = {}
    for name, text in texts.items():
        for obj in _objects(name, text):
            key = (*_kind(obj), str(obj["metadata"].get("namespace", "")), str(obj["metadata"]["name"]))
            if key in objects:
                raise BadInput(f"{name}: {obj['kind']} {obj['metadata']['name']} is there twice", hint="remove one")
            objects[key] = obj
    if not objects:
        raise BadInput(f"{', '.join(texts)}: no object", hint="remove the add-on from the spec to delete what it has")
    return sorted(objects.values(), key=rank)


def rank(obj: Json) -> int:
    """Return the place of an object among others: what has a lower one is applied before, and deleted after them."""
    kind = str(obj["kind"])
    return FIRST.index(kind) if kind in FIRST else len(FIRST) + (1 + LAST.index(kind) if kind in LAST else 0)


def digest_of(objects: Sequence[Json]) -> str:
    """Return a digest of objects, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(objects, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _kind(obj: Json) -> tuple[str, str]:
    group, slash, _ = str(obj["apiVersion"]).rpartition("/")
    return (group if slash else "", str(obj["kind"]))


def _objects(name: str, text: str) -> Iterator[Json]:
    for number, document in enumerate(yaml_text.documents(text, name, hint=HINT), 1):
        for obj in _flat(document):
            meta = obj.get("metadata") if isinstance(obj, Mapping) else None
            words = (obj.get("apiVersion"), obj.get("kind"), meta.get("name")) if isinstance(meta, Mapping) else ()
            if not words or not all(isinstance(word, str) and word for word in words):
                raise BadInput(f"{name}, document {number}: no apiVersion, kind and metadata.name", hint=HINT)
            yield json.loads(json.dumps(obj, default=str))  # YAML has dates, and one object in two places


def _flat(document: Any) -> list[Any]:
    kind = document.get("kind") if isinstance(document, Mapping) else None
    listed = isinstance(kind, str) and kind.endswith("List") and isinstance(document.get("items"), list)
    return list(document.get("items") or []) if listed else [document]
