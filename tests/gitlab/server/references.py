"""`$NAME` and `${NAME}` in values, where GitLab itself puts a variable's value in."""

from __future__ import annotations

import re
from collections.abc import Mapping

REFERENCE = re.compile(r"\$(?:(\$)|\{(\w+)\}|(\w+))")


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Return a text with its variables' values; one that does not exist stays as it is, `$$` becomes `$`."""

    def value(found: re.Match[str]) -> str:
        if found[1]:
            return "$"
        return variables.get(found[2] or found[3], found[0])

    return REFERENCE.sub(value, text)
