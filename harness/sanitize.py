"""What text may be once it is written down: the one place that decides it, for whatever product, machine or check said.

Text of others has anything in it: bytes that are no UTF-8 (`os.fsdecode` makes lone surrogates of them), escape
sequences of terminals, NUL, marks that turn the direction of writing, megabytes. Of what is left every file format and
every encoding of a terminal can say something, and what could not be shown is there to read as an escape, as `\\xe9`.
Secrets are masked in what is kept for long or shown to many.

What cannot be in XML: https://www.w3.org/TR/xml/#charsets. Marks of direction: https://www.unicode.org/reports/tr9/.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

LONGEST = 262_144  # characters of one text: what a person reads of megabytes are their beginning and their end
LINE = 16_384  # characters of one line: editors and GitLab's pages stop at longer ones
DEEPEST = 50  # tables and lists in each other; what vmatrix writes has five
# Terminals' own: colours and cursor (CSI), titles and links (OSC and its like, up to their end), short ones.
SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
PAIR = re.compile(r"[\ud800-\udbff][\udc00-\udfff]")  # one character in two halves, as JSON and UTF-16 have it
UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufeff"
    r"\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
    + "".join(f"{chr(0x10000 * plane + 0xFFFE)}{chr(0x10000 * plane + 0xFFFF)}" for plane in range(17))
    + "]"
)
LONG_LINE = re.compile(rf"[^\n]{{{LINE + 1},}}")


def sanitized(text: str) -> str:
    """Return a text that every report can hold: valid Unicode, no control characters but tabs and line feeds.

    A text that is so already is returned as it is, so the function may be applied any number of times.
    """
    if UNSEEN.search(text) is not None:
        text = PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
        text = UNSEEN.sub(lambda one: _escape(one[0]), LINE_ENDS.sub("\n", SEQUENCE.sub("", text)))
    if len(text) > LINE:
        text = LONG_LINE.sub(lambda line: _cut(line[0], LINE, " [...] "), text)
    return text if len(text) <= LONGEST else _cut(text, LONGEST, "\n[...]\n")


def sanitized_data(value: Any, depth: int = DEEPEST) -> Any:
    """Return plain data (as JSON has it) with all of its texts sanitized, keys too."""
    if isinstance(value, str):
        return sanitized(value)
    if not isinstance(value, dict | list | tuple):
        return value
    if not depth:
        return sanitized(repr(value))
    if isinstance(value, dict):
        return {sanitized(k) if isinstance(k, str) else k: sanitized_data(v, depth - 1) for k, v in value.items()}
    return [sanitized_data(each, depth - 1) for each in value]


def encoded(text: str) -> bytes:
    """Return a text as UTF-8, whatever is in it; what UTF-8 lacks is escaped."""
    return text.encode("utf-8", "backslashreplace")


def _escape(character: str) -> str:
    """Return how a character is told; a lone surrogate of `os.fsdecode` is the byte that it was."""
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _cut(text: str, most: int, between: str) -> str:
    begin = (most - len(between)) // 2
    return f"{text[:begin]}{between}{text[-(most - len(between) - begin) :]}"


MASK = "[masked]"
SHORTEST_SECRET = 8  # characters of a value that is masked; GitLab masks from the same length on
SECRET_NAMES = re.compile(r"(TOKEN|PASSWORD|PASSWD|SECRET|PRIVATE_KEY|_PAT|JWT|WEBHOOK)($|_)", re.IGNORECASE)
SECRET_FORMS = (
    (re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(-----END \1-----|\Z)", re.DOTALL), MASK),
    (re.compile(r"(?<=://)[^/\s:@]{1,200}:[^/\s@]{1,500}(?=@)"), MASK),
    (re.compile(r"(?i)(?<=bearer )[-\w.~+/]{8,}=*"), MASK),
    (re.compile(r"\b(glpat|gldt|glcbt|glrt|glptt)-[-\w.]{8,}"), MASK),
    (re.compile(r"\beyJ[-\w]{8,}\.[-\w]{8,}\.[-\w]*"), MASK),
    (re.compile(r"(?m)((?:client-key|token|client-certificate)(?:-data)?: )[-\w.+/]{20,}=*"), rf"\g<1>{MASK}"),
)


def scrubber(environment: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that masks in a text what must not be kept, and what JSON cannot hold."""
    values = {v for n, v in environment.items() if SECRET_NAMES.search(n) and len(v) >= SHORTEST_SECRET}
    known = re.compile("|".join(re.escape(v) for v in sorted(values, key=len, reverse=True))) if values else None

    def scrub(text: str) -> str:
        text = text.encode("utf-8", "replace").decode()
        text = known.sub(MASK, text) if known is not None else text
        for pattern, by in SECRET_FORMS:
            text = pattern.sub(by, text)
        return text

    return scrub
