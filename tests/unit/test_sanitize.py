"""Whatever text it is, what is written down of it is text that every report, encoding and terminal can hold."""

from __future__ import annotations

import json
import os
import unicodedata
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sanitize import LINE, LONGEST, encoded, sanitized, sanitized_data, scrubber

ANY = st.text(st.characters(exclude_categories=()), max_size=200)
# What others write, and what is written down of it.
NASTY = {
    "bytes that are no UTF-8": (os.fsdecode(b"caf\xe9"), "caf\\xe9"),
    "half a character": ("a\ud83d!", "a\\ud83d!"),
    "a character in two halves": ("\ud83d\ude00", "\N{GRINNING FACE}"),
    "NUL": ("a\0b", "a\\x00b"),
    "control characters": ("\x01\x08\x0e\x1f\x7f\x80", "\\x01\\x08\\x0e\\x1f\\x7f\\x80"),
    "colours": ("\x1b[1;31mred\x1b[0m", "red"),
    "colours in one byte": ("\x9b31mred", "red"),
    "a title": ("\x1b]0;title\x07text", "text"),
    "a link": ("\x1b]8;;https://example.org\x1b\\text\x1b]8;;\x1b\\", "text"),
    "a sequence that does not end": ("\x1b]0;title", "0;title"),
    "an escape alone": ("a\x1b", "a\\x1b"),
    "a section of GitLab": ("\x1b[0Ksection_start:1:a\r\x1b[0Ktitle", "section_start:1:a\ntitle"),
    "line ends of others": ("a\r\nb\rc\x85d\u2028e\x0bf", "a\nb\nc\nd\ne\nf"),
    "marks of direction": ("a\u202eb\u2066\u200f", "a\\u202eb\\u2066\\u200f"),
    "no characters": ("\ufffe\uffff\ufdd0\U0010ffff", "\\ufffe\\uffff\\ufdd0\\U0010ffff"),
    "a mark of byte order": ("\ufeffa", "\\ufeffa"),
    "the end of CDATA": ("]]>", "]]>"),
    "markup": ("<script>&amp;|`*_[a](b)", "<script>&amp;|`*_[a](b)"),
    "emoji and letters": ("\N{WOMAN}\u200d\N{PERSONAL COMPUTER} \u0645\u0631\u062d\u0628\u0627 e\u0301", None),
    "white space": ("a\tb\n c\N{NO-BREAK SPACE}", None),
}


@pytest.mark.parametrize("name", NASTY)
def test_a_text_of_others_is_written_down_as_text(name: str) -> None:
    text, expected = NASTY[name]
    assert sanitized(text) == (expected if expected is not None else text)


@given(ANY)
def test_what_is_written_down_can_be_in_every_report(text: str) -> None:
    told = sanitized(text)
    assert sanitized(told) == told
    assert not [c for c in told if unicodedata.category(c) in {"Cc", "Cs"} and c not in "\t\n"]
    element = Xml.Element("a", b=told)
    element.text = told
    read = Xml.fromstring(Xml.tostring(element, encoding="utf-8"))
    assert (read.text or "") == told
    assert json.loads(json.dumps(told, ensure_ascii=False).encode()) == told


@given(ANY)
def test_any_text_can_be_encoded(text: str) -> None:
    assert isinstance(encoded(text).decode(), str)


def test_long_texts_keep_their_beginning_and_their_end() -> None:
    line = sanitized("a" + "x" * 5_000_000 + "b")
    assert (len(line), line[0], line[-1]) == (LINE, "a", "b")
    lines = sanitized("first\n" + "x" * 100 + "\n" + "y\n" * 5_000_000 + "last")
    assert len(lines) <= LONGEST
    assert (lines.splitlines()[0], lines.splitlines()[-1]) == ("first", "last")
    assert sanitized(lines) == lines


def test_data_is_text_all_the_way_down() -> None:
    deep: object = "\0"
    for _ in range(100):
        deep = [deep]
    assert sanitized_data({"a\0": ["\0", ("\0", 1, None)]}) == {"a\\x00": ["\\x00", ["\\x00", 1, None]]}
    assert "\0" not in json.dumps(sanitized_data(deep))


SECRETS = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXkt\n-----END OPENSSH PRIVATE KEY-----",
    "https://user:hunter22hunter@registry.invalid/x",
    "Authorization: Bearer abcdefghijklmnop.qrstuv",
    "glpat-abcdefghij0123456789",
    "client-key-data: TFMwdExTMUNSVWRKVGlCU1UwRWdVRkpKVmtGVVJTQkxSVmt0TFMwdExRbz0=",
    "the token is t0psecr3tvalue",
)


@pytest.mark.parametrize("text", SECRETS)
def test_what_looks_like_a_secret_is_masked(text: str) -> None:
    scrub = scrubber({"SOME_TOKEN": "t0psecr3tvalue", "PATH": "/usr/bin"})
    found = scrub(f"before {text} after")
    assert "[masked]" in found
    assert not any(word in found for word in ("b3Blbn", "hunter22", "qrstuv", "abcdefghij", "TFMwd", "t0psecr3t"))
