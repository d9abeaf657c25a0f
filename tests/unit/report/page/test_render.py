"""The page as text: what a browser would be given. What a browser makes of it is tested in tests/web."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from harness.report import page
from harness.report.page import MOST_BYTES, policy, render
from tests.web.documents import Document, document, replace_texts

PAYLOAD = "</script></style><script>owned()</script><!-- \u2028 \ud800 {{ 7 * 7 }} & ' \""


class Elements(HTMLParser):
    """Collects the elements of a page, and what is in its scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Write an element down."""
        self.tags.append(tag)
        self.attributes += attrs
        if tag in self.raw:
            self.raw[tag].append("")

    def handle_data(self, data: str) -> None:
        """Write down what is in a script or a style."""
        if self.cdata_elem in self.raw:
            self.raw[self.cdata_elem][-1] += data


def unpacked(page: str) -> Document:
    """Return the document that a page carries."""
    found = re.search(r'<script type="text/plain" id="document">([A-Za-z0-9+/=]*)</script>', page)
    assert found is not None
    result: Document = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return result


def test_the_page_carries_the_whole_document() -> None:
    sample = document()
    carried = unpacked(render(sample))
    assert carried.pop("left_out") == []
    assert carried == sample


def test_the_policy_names_the_script_and_the_style_by_their_hashes_and_allows_nothing_else() -> None:
    found = Elements(render(document()))
    content = dict(found.attributes)["content"]
    policies = [value for name, value in found.attributes if name == "content" and value and "default-src" in value]
    assert content is not None
    assert policies == [policy(found.raw["style"][0], found.raw["script"][1])]
    digest = base64.b64encode(hashlib.sha256(found.raw["script"][1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policies[0]
    assert policies[0].startswith("default-src 'none'; ")
    assert "unsafe" not in policies[0]


def test_hostile_texts_add_no_element_and_no_handler() -> None:
    plain = Elements(render(document()))
    hostile = Elements(
        render(replace_texts(document(), lambda key, old: old if key in ("outcomes", "blames") else PAYLOAD))
    )
    assert hostile.tags == plain.tags
    assert [name for name, _ in hostile.attributes if name.startswith("on")] == []
    assert hostile.raw["script"][1] == plain.raw["script"][1]


def test_a_page_is_utf_8_whatever_a_text_holds() -> None:
    sample = document()
    sample["title"] = "\ud800 \x00 night"
    assert "? \x00 night" in render(sample).encode("utf-8").decode()


def test_no_file_of_the_page_reaches_outside() -> None:
    for name in ("page.html.j2", "page.css", *(f"{part}.js" for part in page.SCRIPTS)):
        text = (page.ASSETS / name).read_text(encoding="utf-8")
        addresses = set(re.findall(r"https?://[^\s\"'/]+", text))
        assert addresses <= {"http://www.w3.org"}, name
        assert "innerHTML" not in text, name
        assert "@import" not in text, name


def test_every_script_of_the_page_is_put_into_it() -> None:
    names = {entry.name.removesuffix(".js") for entry in page.ASSETS.iterdir() if entry.name.endswith(".js")}
    assert names == set(page.SCRIPTS)


@pytest.mark.parametrize("text", ["a </SCRIPT> b", "a </style> b", "a <!-- b"])
def test_a_file_that_would_end_its_element_is_refused(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "page.css").write_text(text)
    monkeypatch.setattr(page, "ASSETS", tmp_path)
    with pytest.raises(ValueError, match=r"page\.css holds"):
        page._asset("page.css")


def test_the_same_document_gives_the_same_page() -> None:
    sample = document()
    assert render(sample) == render(sample)


def incompressible(length: int) -> str:
    """Return text that no compression makes short."""
    digests = (hashlib.sha256(str(number).encode()).hexdigest() for number in range(length // 64 + 1))
    return "".join(digests)[:length]


def crowded(messages: int, length: int) -> Document:
    """Return a document with many long messages, all different; the first nights' failures use them."""
    sample = document()
    text = incompressible(length + messages)
    sample["messages"] = [f"first line {number}\n{text[number : number + length]}" for number in range(messages)]
    return sample


def test_long_messages_are_cut_and_say_so() -> None:
    carried = unpacked(render(crowded(4, 20_000)))
    assert all(len(message) <= page.LONG + len(page.CUT) for message in carried["messages"])
    assert carried["messages"][0].startswith("first line 0\n")
    assert carried["messages"][0].endswith(page.CUT)
    assert carried["left_out"] == []


def test_what_does_not_fit_is_left_out_and_the_page_says_what() -> None:
    sample = document()
    sample["messages"] = [incompressible(8_000 + n)[n:] + str(n) for n in range(4)]
    whole = len(page.pack(sample, MOST_BYTES))
    packed = page.pack(sample, whole - 1)
    carried = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert len(packed) < whole
    assert f"messages are cut to {page.SHORTER} characters" in carried["left_out"][0]
    assert carried["cells"] == sample["cells"]


def test_when_little_fits_the_newest_stays() -> None:
    sample = document()
    carried = json.loads(gzip.decompress(base64.b64decode(page.pack(sample, 1))))
    oldest = len(sample["nights"]) - page.FAILURE_NIGHTS
    flaky, newest = carried["cells"][3], carried["cells"][1]
    assert [failure["night"] for failure in flaky["failures"]] == [
        failure["night"] for failure in sample["cells"][3]["failures"] if failure["night"] >= oldest
    ]
    assert newest["failures"] == sample["cells"][1]["failures"]
    assert [cell["outcomes"] for cell in carried["cells"]] == [cell["outcomes"] for cell in sample["cells"]]
    assert "only the outcome is kept" in carried["left_out"][1]


def test_older_nights_lose_their_steps_first() -> None:
    step = {"name": "deploy", "seconds": [float(n) for n in range(100)], "trend": None}
    recent = page._recent(step, "seconds")
    assert recent["seconds"][: 100 - page.STEP_NIGHTS] == [None] * (100 - page.STEP_NIGHTS)
    assert recent["seconds"][-1] == 99.0
    assert len(recent["seconds"]) == 100


def test_the_plain_table_has_every_cell_the_failed_ones_first() -> None:
    page = render(document())
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</th><td>(.*?)</td>", page)
    assert [outcome for _, outcome in rows] == ["✕ failed"] * 4 + ["Q failed, in quarantine", " not run"] + [
        "✓ passed"
    ] * 3


def test_an_empty_history_is_a_page() -> None:
    sample = document()
    sample |= {"nights": [], "cells": []}
    sample["summary"] |= {"outcomes": {}}
    assert "Nothing ran." in render(sample)
