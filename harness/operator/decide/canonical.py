"""The digest of plain data: the same for the same content, in whatever order it was written."""

from __future__ import annotations

import hashlib
import json
from typing import Any

DIGITS = 16  # of the digest: 64 bits tell a cluster's few inputs apart, and a person can compare them


def digest_of(content: Any) -> str:
    """Return the digest of plain data, over its canonical JSON: keys in order, no spaces."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
