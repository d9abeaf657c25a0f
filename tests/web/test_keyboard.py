"""Everything can be reached and read with the keyboard alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from selenium.webdriver.common.keys import Keys

from tests.web.page import Page

DOWN, UP, LEFT, RIGHT = Keys.ARROW_DOWN, Keys.ARROW_UP, Keys.ARROW_LEFT, Keys.ARROW_RIGHT


def enter_grid(page: Page) -> None:
    """Put the focus where the Tab key enters the grid."""
    page.js("document.querySelector('#grid td[tabindex=\"0\"]').focus()")


def place(page: Page) -> tuple[int, int]:
    """Return row and column of the focus in the grid, both from 0."""
    row, column = page.js("const at = document.activeElement; return [at.parentElement.rowIndex - 2, at.cellIndex - 1]")
    return row, column


def nights(page: Page) -> int:
    return len(page.all("#grid tbody tr:first-child td.at"))


def test_the_first_stop_leads_past_the_head_to_what_failed(shown: Page) -> None:
    shown.press(Keys.TAB)
    assert shown.focused() == "Skip to what failed"
    assert shown.one(".skip").rect["x"] >= 0
    shown.press(Keys.ENTER)
    assert shown.js("return document.activeElement.id") == "attention"
    assert shown.fragment() == ""


def test_the_grid_is_one_stop(shown: Page) -> None:
    assert len(shown.all("#grid [tabindex='0']")) == 1
    focusable = shown.js("return [...document.querySelectorAll('#grid *')].filter((e) => e.tabIndex >= 0).length")
    assert focusable == 1
    enter_grid(shown)
    shown.press(Keys.TAB)
    assert shown.js("return document.activeElement.closest('#grid') === null")


def test_arrows_home_and_end_move_in_the_grid_and_stop_at_its_edges(shown: Page) -> None:
    enter_grid(shown)
    last = nights(shown) - 1
    assert place(shown) == (0, last)
    shown.press(DOWN, DOWN, LEFT)
    assert place(shown) == (2, last - 1)
    shown.press(UP, RIGHT, RIGHT, RIGHT)
    assert place(shown) == (1, last)
    shown.press(Keys.HOME)
    assert place(shown) == (1, 0)
    shown.press(Keys.PAGE_DOWN, Keys.END)
    assert place(shown) == (8, last)
    shown.press(Keys.PAGE_UP)
    assert place(shown) == (0, last)


def test_beyond_the_left_edge_are_the_older_nights(shown: Page) -> None:
    enter_grid(shown)
    shown.press(Keys.HOME)
    night = int(shown.js("return document.activeElement.dataset.night"))
    assert night > 0
    shown.press(LEFT)
    assert int(shown.js("return document.activeElement.dataset.night")) == night - 1
    shown.press(RIGHT)
    assert int(shown.js("return document.activeElement.dataset.night")) == night


def test_every_place_in_the_grid_says_night_and_outcome(shown: Page) -> None:
    enter_grid(shown)
    assert shown.focused().endswith(": failed (product)")
    names = shown.js("return [...document.querySelectorAll('#grid td.at')].map((e) => e.getAttribute('aria-label'))")
    assert all(": " in name for name in names)
    assert shown.js("return document.activeElement.closest('tr').querySelector('th').scope") == "row"


def test_enter_opens_a_cell_and_escape_brings_back_to_its_place(shown: Page) -> None:
    enter_grid(shown)
    shown.press(DOWN, LEFT)
    before = place(shown)
    shown.press(Keys.ENTER)
    assert shown.one("#cell").is_displayed()
    assert shown.js("return document.getElementById('cell').contains(document.activeElement)")
    shown.press(Keys.ESCAPE)
    assert not shown.one("#cell").is_displayed()
    assert place(shown) == before


def test_the_focus_stays_in_an_open_cell(shown: Page) -> None:
    enter_grid(shown)
    shown.press(Keys.ENTER)
    for _ in range(60):
        shown.press(Keys.TAB)
        assert shown.js(
            "const e = document.activeElement;return e === document.body || document.getElementById('cell').contains(e)"
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_focus_can_be_seen_wherever_the_tab_key_stops(shown: Page, scheme: str) -> None:
    shown.emulate(prefers_color_scheme=scheme)
    seen = set()
    for _ in range(40):
        shown.press(Keys.TAB)
        what, style, width = shown.js(
            "const e = document.activeElement, s = getComputedStyle(e);"
            "return [e.tagName + (e.id || e.className), s.outlineStyle, parseFloat(s.outlineWidth)]"
        )
        if what == "BODY":
            break
        seen.add(what)
        assert style != "none", what
        assert width >= 1, what
    assert len(seen) > 8


def test_what_a_filter_leaves_is_announced(shown: Page) -> None:
    assert shown.one("#shown").get_attribute("aria-live") == "polite"
    shown.one("input[name=q]").send_keys("mended")
    assert shown.text("#shown") == "1 of 9 cells shown"


def test_every_control_has_a_name(shown: Page) -> None:
    named = "e.getAttribute('aria-label') || e.textContent.trim() || (e.labels && e.labels.length > 0)"
    controls = shown.each("button, select, input, a[href], summary", f"[Boolean({named}), e.outerHTML]")
    assert len(controls) > 30
    assert [outer for has_name, outer in controls if not has_name] == []


def test_headings_name_the_parts_in_order(shown: Page) -> None:
    levels = [level for level in shown.each("h1, h2, h3, h4", "e.offsetParent && Number(e.tagName[1])") if level]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
