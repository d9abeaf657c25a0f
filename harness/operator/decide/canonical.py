"""The digest of plain data: the same for the same content, in whatever order it was written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

DIGITS = 16  # of the digest: 64 bits tell a cluster's few inputs apart, and a person can compare them


def digest_of(content: Any) -> str:
    """Return the digest of plain data, over its canonical JSON: keys in order, no spaces, 2.0 as 2."""
    text = json.dumps(_plain(content), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _plain(content: Any) -> Any:
    """Return plain data with whole numbers as an API server writes them, whatever a file has."""
    if isinstance(content, Mapping):
        return {key: _plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    return int(content) if isinstance(content, float) and content.is_integer() else content
