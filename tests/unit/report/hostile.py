"""Texts that would be markup, every place of a value where a text may stand, and the structure of what shows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

from markdown_it import MarkdownIt

HARMLESS = "some words"
TEXTS = (
    "```\n# x",
    "a|b",
    "a\\|b\\",
    "@all",
    "\\\\@all",
    "/close",
    "x\n/close\ny",
    "<script>x</script>",
    "&lt;x",
    "[x](http://y)",
    "![x][y]",
    "[x]: http://y",
    "[[wiki]]",
    "`",
    "x`` ` y",
    "--> <!-- x",
    '<!-- vmatrix {"ip": "dual"} -->',
    "a\n\nb",
    "# x",
    "> x",
    "- [ ] x",
    "[ ] x",
    "1. x",
    "===",
    "---",
    "~~~",
    "***x** __y__ ~~z~~",
    "g/p#1 !2 ~label %ms &4 $x$",
    '"><x a="',
    "\r\n```\r@all",
)
# As many as are needed where each field is tried: each that begins a block, and all that is markup inside a line.
FEW = (
    "```\n# x",
    "/close",
    "x\n/close\ny",
    "[x]: http://y",
    "a|b `",
    "# x",
    "1. x",
    "- [ ] x\n\n---",
    "@all <script>x</script> &lt;x [x](http://y) [[wiki]] a|b --> <!-- x ***x** __y__ ~~z~~ g/p#1 !2 ~label %ms &4 $x$",
)
SPAN = re.compile(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)")
# What GitLab or Mattermost would act on, unless it is escaped.
ALIVE = re.compile(r"(?<!\\)(?:\\\\)*(?:@all|#1|!2|~label|%ms|&4|\$x|\[\[wiki)|<!-- vmatrix \{")
PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
Put = Callable[[str], Any]


def places(value: Any, without: Iterable[str] = ()) -> dict[str, Put]:
    """Return the fields (Class.field) in a value with a text in them, each with what gives all of them another one.

    Args:
        without: fields whose text has a form of its own.
    """
    found: dict[str, None] = {}
    for part in _parts(value):
        names = (
            f"{type(part).__name__}.{field.name}" for field in fields(part) if _has_text(getattr(part, field.name))
        )
        found |= dict.fromkeys(name for name in names if name not in without)
    return {name: lambda text, name=name: _replaced(value, name, text) for name in found}  # type: ignore[misc]


def _has_text(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_text, (*value, *value.values())))
    if isinstance(value, (tuple, frozenset)):
        return any(map(_has_text, value))
    return isinstance(value, str) and not isinstance(value, Enum)


def _replaced(value: Any, name: str, text: str) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            old = getattr(value, field.name)
            own = f"{type(value).__name__}.{field.name}" == name
            new = _all_replaced(old, text) if own else _replaced(old, name, text)
            value = value if new is old else replace(value, **{field.name: new})
        return value
    if isinstance(value, Mapping):
        return {key: _replaced(inner, name, text) for key, inner in value.items()}
    return tuple(_replaced(inner, name, text) for inner in value) if isinstance(value, tuple) else value


def _all_replaced(value: Any, text: str) -> Any:
    """Return a value in which every text is another one, the keys of a mapping too."""
    if isinstance(value, Mapping):
        return {_all_replaced(key, text): _all_replaced(inner, text) for key, inner in value.items()}
    if isinstance(value, (tuple, frozenset)):
        return type(value)(_all_replaced(inner, text) for inner in value)
    return text if _has_text(value) else value


def empty_places(value: Any, without: Iterable[str] = ()) -> set[str]:
    """Return the fields of a value, and of those in it, that may have a text and have none: nobody would try them."""
    every = {
        f"{made.__name__}.{field.name}"
        for made in {type(part) for part in _parts(value)}
        for field in fields(made)
        if re.search(r"\bstr\b", str(field.type))
    }
    return every - set(places(value, without)) - set(without)


def _parts(value: Any) -> Iterator[Any]:
    if is_dataclass(value):
        yield value
        for field in fields(value):
            yield from _parts(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _parts(inner)
    elif isinstance(value, (tuple, frozenset)):
        for inner in value:
            yield from _parts(inner)


def structure(markdown: str) -> list[tuple[Any, ...]]:
    """Return the blocks, rows, links, tags, code and emphasis of a Markdown text, without its words.

    Also what of its words refers to something, and lines that begin with a quick action.
    """
    shape: list[tuple[Any, ...]] = []
    for token in PARSER.parse(markdown):
        shape.append((token.type, token.tag, token.info))
        inner = [t for t in token.children or () if t.type not in ("text", "text_special")]
        shape += [(t.type, t.tag, t.content if t.type == "html_inline" else "") for t in inner]
        if token.type in ("inline", "html_block"):
            shape += [("quick action", line) for line in re.findall(r"(?m)^\s*/\w+(?=\s|$)", token.content)]
        if token.type == "inline":
            shape += [("alive", match[0]) for match in ALIVE.finditer(SPAN.sub("", token.content))]
    return shape
