"""Any text of a product, a machine or a check can be in every report, and is text there: no tag, link or reference."""

from __future__ import annotations

import re
import xml.etree.ElementTree as Xml
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.history.lines import History
from harness.report import junit, page
from harness.report.output.document import document
from harness.report.results import load
from tests.unit.report.test_output import CELL, VIEWS, analysed
from tests.unit.report.written import Written

TEXTS = {
    "bytes that are no UTF-8": "caf\udce9 \ud800 x",
    "control characters": "a\x00b\x01\x08",
    "sequences of a terminal": "\x1b[31mred\x1b[0m \x1b]8;;http://x\x07l",
    "marks of direction": "a\u202eb\u2066c",
    "what XML ends with": "]]> <![CDATA[ </failure> & &amp; &#0;",
    "no characters": "\uffff\ufffe\U0001ffff",
    "Markdown": "**b** [x](http://e) ![i](u) [r][s] | a | `c` ```\n# h\n- [ ] t\n| a |",
    "HTML": "<script>alert(1)</script><img src=x onerror=1> <details> <!-- x",
    "GitLab": '@all #1 !2 ~label ~"a b" %ms $3 &4 [[wiki]]\n/close\n/assign @me',
    "line ends of others": "a\r\nb\rc\x85d\u2028e",
    "backticks": "`" * 5000,
    "fences": "~~~\n```\n`````",
    "nothing": "",
    "white space": "  \n ",
    "templates": "${x} $(y) {{ z }} $[[ inputs.x ]]",
    "a long line": "x" * 10_000_000,
}
# By place in the results: what a check's event says there.
PLACES: Mapping[str, Callable[[str], dict[str, object]]] = {
    "name": lambda text: {"name": f"test_a[{text}]"},
    "suite": lambda text: {"suite": text},
    "stage": lambda text: {"stage": text},
    "error": lambda text: {"error": text, "text": text},
    "detail": lambda text: {"detail": text},
    "claim": lambda text: {"claim": text, "findings": [{"where": text, "seen": text, "expected": text}]},
}
FENCED = re.compile(r"^(`{3,})\w*\n.*?^\1$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)")
# What none of a Markdown report's prose may have from others.
ALIVE = re.compile(
    r"<script|<img|<details>\s*<!--|<!-- x|(?<!\\)\]\(http://e|^/(?:close|assign)"
    r"|(?<!\\)(?:@all|@me|#1|!2|~label|~\"a|%ms|\$3|&4|\[\[wiki)",
    re.MULTILINE,
)


def written(folder: Path, text: str, place: str) -> None:
    run = Written(folder).start(CELL).step(CELL, "provision")
    if place == "step":
        run.fails(CELL, "deploy", summary=text, blame="product", code=1)
    else:
        run.step(CELL, "deploy")
        given: dict[str, Any] = {"name": "test_a", "outcome": "failed", "blame": "product", **PLACES[place](text)}
        run.check(CELL, **given)
    run.gone(CELL).end(1)


@pytest.mark.parametrize("place", ["step", *PLACES])
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_of_others_is_text_in_every_report(text: str, place: str, tmp_path: Path) -> None:
    written(tmp_path, TEXTS[text], place)
    shown = {name: view(tmp_path) for name, view in VIEWS.items()}
    for name, told in shown.items():
        assert told.encode().decode() == told, name
        assert max(map(len, told.splitlines()), default=0) < 100_000, name
    for name in ("summary.md", "note"):
        assert ALIVE.search(SPAN.sub("", FENCED.sub("", shown[name]))) is None, shown[name]
    assert Xml.fromstring(junit.render(load(tmp_path))).tag == "testsuites"
    whole = page.render(document(analysed(tmp_path), History()))
    assert whole.encode().decode() == whole
    assert "<script>alert" not in whole
    assert "<img src=x" not in whole
