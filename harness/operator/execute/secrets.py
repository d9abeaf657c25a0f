"""What must not be in a log: values of variables that are named like secrets, and credentials that are kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

from harness.history.scrub import scrubber

CREDENTIAL = re.compile(r"key|token|password|secret", re.IGNORECASE)  # in the name of a field of what is kept


def scrubber_of(variables: Mapping[str, Any], kept: Mapping[str, bytes]) -> Callable[[str], str]:
    """Return what masks them in a text, and whatever else looks like a secret.

    Args:
        variables: of the playbooks; what lies in a list or a mapping is named after all that it lies in.
        kept: files of the cluster's state: YAML, or a secret and nothing else.
    """
    named = dict(_leaves("", variables))
    credentials = {found for content in kept.values() for found in _credentials(content)}
    return scrubber({**named, **{f"{number}_SECRET": found for number, found in enumerate(sorted(credentials))}})


def _credentials(content: bytes) -> Iterator[str]:
    text = content.decode("utf-8", "replace").strip()
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        found = text
    if not isinstance(found, dict | list):
        yield text
        return
    yield from (value for name, value in _leaves("", found) if CREDENTIAL.search(name))


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield each text in a value with the names of all that it lies in."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{name}_{key}" if name else str(key), inner)
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _leaves(f"{name}_{number}", inner)
    elif isinstance(value, str):
        yield name, value
