"""Tables in Markdown of texts that are no Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; its texts are shown as they are, but for what stands between backticks."""
    lines = [head, ["---"] * len(head), *([_cell(text) for text in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return shown(text).replace("|", "&#124;" if "`" not in text else "\\|").replace("\n", " ")


def shown(text: str) -> str:
    """Return a text with which no letter means anything to Markdown or HTML outside of backticks."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") and len(part) > 1 else _plain(part) for part in parts)


def _plain(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]{}#~$])", r"\\\1", text)
