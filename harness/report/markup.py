"""Text of others in what is marked up: the one place that escapes it, for Markdown, Slack, Mattermost and GitLab.

Whatever a product, a machine, a check or a variable says stays text: it begins no tag, heading, list, table, link,
mention or quick action, and it ends nothing that is around it. Markdown is that of CommonMark with GitLab's additions:
https://spec.commonmark.org/, https://docs.gitlab.com/user/markdown/. HTML and XML are escaped by what writes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from harness.check_result import shortened
from harness.sanitize import sanitized

BLANKS = re.compile(r"[\x00-\x20\x7f\x85\u2028\u2029]+")
TICKS = re.compile("`+")
PIPE = r"\|"  # in a table, also inside a code span (GitHub Flavored Markdown, "Tables")
PUNCTUATION = r"!-/:-@\[-`{-~"
ESCAPED = {"<": "&lt;", "&": "&amp;"}
# GitLab's: people, issues, merge requests, labels, milestones, snippets, epics, pages of a wiki, `[issue:1]`.
REFERENCE = r"""(?<!\w)@(?=\w)|[#!](?=\d)|~(?!/)|%(?=[\w"])|\$|&(?=\d)|\[(?=\[|\w+:)"""
ADDRESS = r"https?://[A-Za-z0-9][A-Za-z0-9.:-]*(?:[/?#][^\s()<>\"'|`\\\[\]{}^*]*)?"
# What begins with one of these is more than text, wherever it stands; an address is left as it is.
MARKUP = re.compile(
    rf"(?P<address>{ADDRESS})|\\(?=[{PUNCTUATION}]|$)|`|\*|(?<![^\W_])_|_(?![^\W_])"
    rf"|<(?=[a-zA-Z/!?])|&(?=#?\w+;)|(?<=\])[(\[](?=\S)|{REFERENCE}"
)
# What begins a block, where it stands first: lists, a quotation, a heading or the line below one, a task or a
# definition, a description, a table, a quick action. The backslash goes behind the number of a list's item.
BLOCK = re.compile(
    r"\d{1,9}(?=[.)](?:\s|$))|(?=[-+](?:[-+\s]|$)|>|#{1,6}(?:\s|$)|=+$|\[(?:[ xX]\]|\^|[^\]]*\]:)|:|\||/\w+(?:\s|$))"
)
URL = re.compile(r"https?://[^\s()<>\"'|`\\\[\]{}^]+")
TITLE_REFERENCE = re.compile(r"""((?<!\w)@(?=\w)|[#!&](?=\d)|[~%$](?=[\w"])|\[(?=\[|\w+:))""")
UNIFIED = str.maketrans("`*", "'\N{ASTERISK OPERATOR}")  # Slack knows no escape for these
MARK = re.compile(r"<!-- vmatrix (?P<fields>\{.*?\}) -->")


def line_of(text: str) -> str:
    """Return a text in one line, without control characters."""
    return BLANKS.sub(" ", sanitized(text)).strip()


def prose(text: str, *, spans: bool = False) -> str:
    """Return a text as words of a paragraph, heading, list item or column.

    Args:
        spans: whether code spans in it stay such, as in a hint; not of several texts, which could make one together.
    """
    line = line_of(text)
    parts, end = [], 0
    for begin, after, inner in _spans(line) if spans else ():
        parts += [_escaped(line[end:begin]), code(inner)]
        end = after
    escaped = "".join([*parts, _escaped(line[end:])])
    block = BLOCK.match(escaped)
    return f"{block[0]}\\{escaped[block.end() :]}" if block is not None else escaped


def row(*columns: str) -> str:
    """Return a row of a table of Markdown, such as `prose` and `code` return: nothing in it ends its column."""
    return f"| {' | '.join(column.replace('|', PIPE) for column in columns)} |"


def code(text: str, most: int | None = None) -> str:
    """Return a text as a code span that nothing of it can end; of more than `most` characters, both ends."""
    flat = line_of(text)
    flat = shortened(flat, most) if most is not None else flat
    longest = max(map(len, TICKS.findall(flat)), default=0)
    ticks, room = "`" * (longest + 1), " " if longest or not flat else ""
    return f"{ticks}{room}{flat}{room}{ticks}"


def fenced(text: str, language: str = "text") -> list[str]:
    """Return the lines of a block of code that no line of the text can end."""
    longest = max(map(len, TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", text.strip("\n"), fence]


def link(markdown: str, url: str) -> str:
    """Return Markdown as a link; as it is where the address is not one of a page."""
    return f"[{markdown}]({url})" if URL.fullmatch(url) else markdown


def mark(fields: Mapping[str, str]) -> str:
    """Return a comment by which a text of ours is found again; `marked` reads it."""
    text = json.dumps(dict(fields), sort_keys=True)
    for sign, by in (("<", r"\u003c"), (">", r"\u003e"), ("--", r"-\u002d")):
        text = text.replace(sign, by)
    return f"<!-- vmatrix {text} -->"


def marked(text: str) -> dict[str, str] | None:
    """Return the fields of the mark in a text; None without one, or where somebody edited it."""
    found = MARK.search(text)
    try:
        fields = json.loads(found["fields"]) if found is not None else None
    except ValueError:
        return None
    whole = isinstance(fields, dict) and bool(fields) and all(isinstance(value, str) for value in fields.values())
    return fields if whole else None


def title(text: str, most: int) -> str:
    """Return a text as the title of an issue or commit in GitLab, which is not Markdown: it refers to nothing."""
    return TITLE_REFERENCE.sub(r"\1 ", line_of(text))[:most]


def mattermost(text: str) -> str:
    """Return a text as a code span in a message of Mattermost, in which it mentions nobody."""
    return f"`{line_of(text).replace('`', chr(39))}`"


def slack(text: str) -> str:
    """Return a text as words in a message of Slack. https://docs.slack.dev/messaging/formatting-message-text"""
    line = line_of(text).translate(UNIFIED)
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _spans(line: str) -> list[tuple[int, int, str]]:
    """Return where a line's code spans begin and end, and what is in them: a run of backticks and the next like it."""
    spans: list[tuple[int, int, str]] = []
    runs = list(TICKS.finditer(line))
    last: dict[int, int] = {len(run[0]): number for number, run in enumerate(runs)}
    number = 0
    while number < len(runs):
        ticks = runs[number][0]
        if last[len(ticks)] == number:
            number += 1
            continue
        close = next(n for n in range(number + 1, len(runs)) if len(runs[n][0]) == len(ticks))
        spans.append((runs[number].start(), runs[close].end(), line[runs[number].end() : runs[close].start()]))
        number = close + 1
    return spans


def _escaped(text: str) -> str:
    return MARKUP.sub(lambda match: match["address"] or ESCAPED.get(match[0], f"\\{match[0]}"), text)
