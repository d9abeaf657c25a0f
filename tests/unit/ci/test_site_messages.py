"""The troubleshooting page against the code: what it explains can be said, and every hint is found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import harness
from ci.site import messages
from ci.site.constants import ANYTHING
from ci.site.hints import Advice, advice
from ci.site.tables import shown
from harness.paths import project_dir

PAGE = project_dir() / "docs/troubleshooting.md"
HARNESS = Path(harness.__file__).parent
# Hints that only a running program knows; each is made of what is named here.
MADE_THERE = {
    "'; then: '.join(remedies(blocking))": "the remedies of all findings",
    "hint": "the room that a node has, by words of the scheduler",
    "event.get('hint', '')": "what results.jsonl has of an error",
    "self.plan.cleanup": "the command that deletes the run's cells",
    "known": "the phases of the run's cells",
    "observed": "what a finding as data has of an error",
    "reason": "the same of what was not judged",
    "remedy": "what a judgement of a field says after its semicolon",
}


@pytest.fixture(scope="module")
def found() -> list[Advice]:
    """Every place of the code with a hint."""
    return list(advice(HARNESS))


def test_every_hint_of_the_code_is_found(found: list[Advice]) -> None:
    assert len(found) > 400
    lost = {one.source: f"{one.path}:{one.line}" for one in found if not one.hints and not one.passed_on}
    assert set(lost) <= set(MADE_THERE), "say in MADE_THERE what these are made of, or write them as texts"
    assert set(MADE_THERE) <= set(lost), "these are texts now"


def test_no_hint_is_given_in_a_way_that_is_not_looked_for(found: list[Advice]) -> None:
    """Each `hint=` of the sources is one of the places: what is counted in the text is counted in the tree."""
    written = sum(len(re.findall(r"[(,]\s*hint=", file.read_text(encoding="utf-8"))) for file in HARNESS.rglob("*.py"))
    assert 0 < written <= len(found)


def test_every_hint_is_on_the_page_as_the_site_has_it(found: list[Advice]) -> None:
    page = messages.text(found).replace("&#124;", "").replace("\\|", "")
    for one in found:
        for hint in one.hints if not one.passed_on else ():
            assert shown(hint).replace("|", "") in page, f"{one.path}:{one.line}"
    assert "<!-- made from the code: messages -->" in PAGE.read_text(encoding="utf-8")


def headings() -> list[str]:
    """Return the messages that the page explains."""
    return re.findall(r"^### `(.+)`$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.mark.parametrize("heading", headings())
def test_what_the_page_explains_is_what_the_code_says(found: list[Advice], heading: str) -> None:
    assert any(heading in one.summaries for one in found)


def test_the_page_explains_what_happens_most(found: list[Advice]) -> None:
    assert len(headings()) >= 25
    blames = {one.blame for one in found for said in one.summaries if said in headings()}
    assert blames >= {"user", "infra", "product", "harness"}


@pytest.mark.parametrize(
    ("code", "hints"),
    [
        ('def f(a):\n    raise E("x", hint=f"do {a}")\n', [f"do {ANYTHING}"]),
        ('HOW = "do it"\ndef f():\n    raise E("x", hint=HOW)\n', ["do it"]),
        ('def f(way):\n    raise E("x", hint=way)\nf("do this")\nf(way="do that")\n', ["do this", "do that"]),
        ('def g():\n    return "do" if 1 else "leave"\ndef f():\n    raise E("x", hint=g())\n', ["do", "leave"]),
        ('T = {1: (E, "do")}\ndef f(a):\n    error, hint = T[a]\n    raise error("x", hint=hint)\n', ["do"]),
        ("def f(x):\n    raise E('x', hint=x.y())\n", []),
    ],
)
def test_a_hint_is_followed_to_its_text(tmp_path: Path, code: str, hints: list[str]) -> None:
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "one.py").write_text(code, encoding="utf-8")
    assert [list(one.hints) for one in advice(folder)] == [hints]


def test_a_constant_of_another_module_is_followed(tmp_path: Path) -> None:
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "one.py").write_text('HINT = "do it"\n', encoding="utf-8")
    (folder / "two.py").write_text('HINT = "not this"\n', encoding="utf-8")
    text = 'from package import one\nfrom package.one import HINT as H\nE("x", hint=one.HINT)\nE("y", hint=H)\n'
    (folder / "use.py").write_text(text, encoding="utf-8")
    assert [one.hints for one in advice(folder)] == [("do it",), ("do it",)]
