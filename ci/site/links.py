"""Links of a page that are right in the repository, as they have to be in the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping

LINK = re.compile(r"(?P<bang>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"^\s*(```|~~~)")


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Return a page with its prose changed, line by line; blocks of code and spans stay."""
    lines, fenced = [], False
    for line in text.split("\n"):
        fence = FENCE.match(line) is not None
        fenced ^= fence
        lines.append(line if fenced or fence else change(line))
    return "\n".join(lines)


def for_site(text: str, page: str, places: Mapping[str, str], source: str) -> str:
    """Return a page with its links as the site needs them.

    Args:
        page: where it is in the repository.
        places: where a file of the repository is in the site, by its path in the repository.
        source: address of the repository's files at this revision; empty if they are nowhere to be read.
    """

    def one(found: re.Match[str]) -> str:
        target, _, anchor = found["target"].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return found.group()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        if path in places:
            relative = posixpath.relpath(places[path], posixpath.dirname(places[page]) or ".")
            return f"{found['bang']}[{found['text']}]({relative}{'#' if anchor else ''}{anchor})"
        return f"[{found['text']}]({source}/{path})" if source else found["text"]

    # A link's text may go over two lines: the whole page is looked at, code is put aside before.
    aside: list[str] = []

    def put_aside(block: re.Match[str]) -> str:
        aside.append(block.group())
        return f"\x00{len(aside) - 1}\x00"

    plain = re.sub(r"^(\s*)```.*?^\s*```[^\n]*$", put_aside, text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\x00(\d+)\x00", lambda found: aside[int(found[1])], LINK.sub(one, plain))
