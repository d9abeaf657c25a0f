"""What a model's docstring says of the model and of each of its keys: JSON Schemas show it to whoever edits a file.

A key's description is an entry `key: text` or `key, key: text` at the beginning of a line, or after two spaces in one.
It ends with the next entry or with its paragraph.
"""

from __future__ import annotations

import re
from collections.abc import Iterable


def described(docstring: str, keys: Iterable[str]) -> tuple[str, dict[str, str]]:
    """Split a clean docstring into what it says of the whole, and of each key that it describes."""
    any_key = "|".join(sorted(map(re.escape, keys), key=len, reverse=True)) or r"(?!)"
    entry = re.compile(rf"(?:^ *|(?<=  ))((?:{any_key})(?:, (?:{any_key}))*): ", re.MULTILINE)
    whole: list[str] = []
    found: dict[str, str] = {}
    for paragraph in docstring.split("\n\n"):
        beginning, *entries = entry.split(paragraph)
        whole.append(" ".join(beginning.split()))
        for names, text in zip(entries[::2], entries[1::2], strict=True):
            found |= dict.fromkeys(names.split(", "), _sentence(text))
    return "\n\n".join(filter(None, whole)), found


def _sentence(text: str) -> str:
    """Return a text in one line that begins and ends as a sentence; a key or a value in backquotes stays as it is."""
    line = " ".join(text.split())
    return f"{line[0].upper()}{line[1:]}{'' if line.endswith('.') else '.'}"
