"""Markdown as git hosts read it, written as Python-Markdown reads it.

What differs: a list or a table may follow a line of text at once, and the items of a list in a list are indented by
two spaces. Anchors of headings are those of git hosts as well.
"""

from __future__ import annotations

import re

FENCE = re.compile(r"^\s*```")
ITEM = re.compile(r"^(?P<indent> *)(?:[-*]|\d+\.) ")
CODE = 4  # spaces of a block of code, and of a list in a list


def for_python_markdown(text: str) -> str:
    """Return a page that Python-Markdown understands as git hosts do."""
    made: list[str] = []
    fenced = in_list = parted = False  # parted: an item has an empty line in it
    for line in text.split("\n"):
        fence = FENCE.match(line) is not None
        fenced ^= fence
        before = made[-1] if made else ""
        if not fenced and not fence:
            item = ITEM.match(line)
            line = _indented(line, in_list)
            if _begins(line, before, item is not None and (not in_list or parted)):
                made.append("")
            parted = item is None and in_list and (parted or not line)
            in_list = item is not None or (in_list and (not line or line.startswith(" ")))
        made.append(line)
    return "\n".join(made)


def _begins(line: str, before: str, item: bool) -> bool:
    """Tell whether a list or a table begins at this line without an empty line before."""
    table = line.startswith("|") and not before.startswith("|")
    return bool(before.strip()) and (item or table)


def _indented(line: str, in_list: bool) -> str:
    """Return a line of a list with twice its indent, if that is less than Python-Markdown's."""
    spaces = len(line) - len(line.lstrip(" "))
    return " " * spaces + line if in_list and 0 < spaces < CODE else line


def anchor(heading: str, separator: str = "-") -> str:
    """Return the anchor of a heading."""
    return re.sub(r"\s", separator, re.sub(r"[^\w\s-]", "", heading.strip().lower()))
