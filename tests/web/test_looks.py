"""On a telephone, in the dark, without colours, on paper, with little motion: it can be read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.documents import Document
from tests.web.page import PHONE, Page

READABLE = 4.5  # contrast of text, WCAG 2.2, 1.4.3
TAPPABLE = 24  # CSS px of a target, WCAG 2.2, 2.5.8
CONTRASTS = """
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const parse = (text) => {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
};
const ground = (e) => {
  for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 0.99) return c; }
  return [255, 255, 255, 1];
};
const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const light = (c) => c.slice(0, 3).map((v) => linear(v / 255))
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const worst = {};
for (const e of document.querySelectorAll("body *")) {
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  if (!own || !e.getClientRects().length || e.disabled || e.closest(".spoken, .skip, svg, :disabled")) continue;
  const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05), key = `${e.tagName.toLowerCase()}.${e.className}`;
  if (!(worst[key] <= ratio)) worst[key] = ratio;
}
return worst;
"""


def wider(page: Page) -> list[str]:
    """Return what makes the page wider than its window."""
    width, inner = page.js("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert inner == PHONE[0]
    if width <= inner:
        return []
    ends = page.each("body *", "[e.getBoundingClientRect().right, e.outerHTML.slice(0, 90)]")
    return [outer for right, outer in ends if right > inner]


@pytest.mark.parametrize(
    "fragment", ["", "#show=90", "#cell=k1363-d13-newly-broken-000001", "#state=failing&axis.os=debian-12"]
)
def test_a_telephone_scrolls_in_one_direction_only(page: Page, sample: Document, fragment: str) -> None:
    page.size(*PHONE)
    page.show(sample, fragment)
    assert wider(page) == []


def test_long_unbroken_texts_do_not_widen_the_page(page: Page, sample: Document) -> None:
    page.size(*PHONE)
    sample["messages"] = ["x" * 500] * len(sample["messages"])
    sample["checks"] = ["y" * 500] * len(sample["checks"])
    sample["cells"][1]["id"] = "z" * 200
    page.show(sample)
    assert wider(page) == []


def test_the_newest_nights_are_in_sight_on_a_telephone(page: Page, sample: Document) -> None:
    page.size(*PHONE)
    page.show(sample)
    last = page.js(
        "return [...document.querySelectorAll('#grid tbody tr:first-child td.at')].pop().getBoundingClientRect().right"
    )
    assert last <= PHONE[0]
    assert 5 <= len(page.all("#grid tbody tr:first-child td.at")) <= 10


def test_targets_can_be_tapped(page: Page, sample: Document) -> None:
    page.size(*PHONE)
    page.show(sample)
    found = page.each("button, select, input, #grid td.at", "[e.offsetWidth, e.offsetHeight, e.outerHTML.slice(0, 80)]")
    shown = [(width, height, outer) for width, height, outer in found if width and height]
    assert len(shown) > 50
    assert [outer for width, height, outer in shown if min(width, height) < TAPPABLE] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "fragment", ["", "#cell=k1363-d13-slower-000006", "#cell=k1363-d13-newly-broken-000001&state=failing"]
)
def test_all_text_stands_out_from_its_ground(page: Page, sample: Document, scheme: str, fragment: str) -> None:
    page.emulate(prefers_color_scheme=scheme)
    page.show(sample, fragment)
    contrasts: dict[str, float] = page.js(CONTRASTS)
    assert len(contrasts) > 20
    assert {where: round(ratio, 2) for where, ratio in contrasts.items() if ratio < READABLE} == {}


def test_dark_is_dark(page: Page, sample: Document) -> None:
    page.emulate(prefers_color_scheme="dark")
    page.show(sample)
    ground: Any = page.js("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert max(ground) < 64


def test_every_outcome_has_a_sign_of_its_own(page: Page, sample: Document) -> None:
    """Nothing is said by colour alone."""
    sample["cells"][0]["outcomes"] = "pfqiucn." * 5
    sample["cells"][0]["blames"] = (" p" + " " * 6) * 5
    page.show(sample, "#show=90")
    legend = page.texts("#legend li")
    signs = page.texts("#legend i")
    assert len(set(signs)) == len(signs)
    assert {"passed", "failed (product)", "interrupted"} <= {text.split("\n")[-1].lstrip("✓P!") for text in legend}
    said = page.each("#grid td.at", "[e.textContent, e.getAttribute('aria-label').split(': ')[1]]")
    assert {words for sign, words in said if not sign} == {"not run"}


def test_nothing_moves_for_those_who_asked_for_that(shown: Page) -> None:
    assert shown.js("return getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    shown.emulate(prefers_reduced_motion="no-preference")
    assert shown.js("return getComputedStyle(document.documentElement).scrollBehavior") == "smooth"


def test_paper_has_the_answers_and_no_controls(shown: Page) -> None:
    shown.medium("print")
    assert not shown.one("#filter").is_displayed()
    assert not shown.one("nav").is_displayed()
    assert shown.one("#attention-table").is_displayed()
    assert shown.one("#grid").is_displayed()
