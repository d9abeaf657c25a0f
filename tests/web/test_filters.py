"""Filters by text, state, blame and axis; the address keeps them."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.keys import Keys

from tests.web.documents import Document
from tests.web.page import Page


def cells(page: Page) -> set[str]:
    """Return the cells in the grid."""
    return {name.split("-d13-")[1].rsplit("-", 1)[0] for name in page.ids("#grid tbody th button")}


def test_without_a_filter_all_cells_are_shown(shown: Page) -> None:
    assert len(cells(shown)) == 9
    assert shown.text("#shown") == "all 9 cells shown"


def test_text_is_looked_for_in_names_values_and_messages(shown: Page) -> None:
    box = shown.one("input[name=q]")
    box.send_keys("ADDRESS in")
    assert cells(shown) == {"infra-fails"}
    assert shown.text("#shown") == "1 of 9 cells shown"
    box.clear()
    box.send_keys("cp3-w2 absent")
    assert cells(shown) == set()
    assert shown.text("#grid-empty") == "No cell matches the filter."


@pytest.mark.parametrize(
    ("state", "left"),
    [
        ("failing", {"newly-broken", "always-fails", "sometimes", "infra-fails"}),
        ("new", {"newly-broken", "sometimes", "infra-fails"}),
        ("known", {"always-fails"}),
        ("fixed", {"mended"}),
        ("sometimes", {"sometimes"}),
        ("slower", {"slower"}),
        ("notrun", {"absent"}),
        ("quarantined", {"excused"}),
    ],
)
def test_state_leaves_the_cells_in_it(shown: Page, state: str, left: set[str]) -> None:
    shown.choose("select[name=state]", state)
    assert cells(shown) == left
    assert shown.fragment() == f"#state={state}"


def test_blame_leaves_whose_failures_they_are(shown: Page) -> None:
    shown.choose("select[name=blame]", "infra")
    assert cells(shown) == {"infra-fails"}


def test_an_axis_leaves_the_cells_with_the_value(shown: Page, sample: Document) -> None:
    shown.choose("select[data-axis=topology]", "cp3-w2")
    expected = sum(cell["values"][2] == 2 for cell in sample["cells"])
    assert len(cells(shown)) == expected
    assert shown.text("#axes-count") == "Axes (1 chosen)"


def test_an_axis_with_one_value_is_not_offered(shown: Page) -> None:
    assert shown.js("return [...document.querySelectorAll('#axes select')].map((s) => s.dataset.axis)") == [
        "kubernetes",
        "os",
        "topology",
    ]


def test_a_filter_goes_for_every_part_of_the_page(shown: Page) -> None:
    shown.choose("select[name=state]", "slower")
    assert shown.text("#attention-empty") == "No cell that matches the filter failed in the last night."
    assert not shown.one("#flaky").is_displayed()
    assert shown.one("#slower").is_displayed()
    assert len(shown.all("#versus-table .chip")) == 1


def test_the_address_brings_a_filter_back(page: Page, sample: Document) -> None:
    page.show(sample, "#q=k1363&state=failing&blame=product&axis.os=debian-12&show=14&sort=id")
    assert page.one("select[name=state]").get_attribute("value") == "failing"
    assert page.one("select[data-axis=os]").get_attribute("value") == "debian-12"
    assert len(page.all("#grid thead tr:last-child th")) == 1 + 14 + 2
    expected = {"newly-broken"}
    assert cells(page) == expected


def test_a_foreign_address_does_no_harm(page: Page, sample: Document) -> None:
    page.show(sample, "#night=none&cell=none&show=-5&sort=x&rows=__proto__&axis.nothing=1&state=&%E0%A4%A")
    assert len(cells(page)) == 9
    assert page.complaints() == []


def test_a_count_is_a_filter_and_undoes_itself(shown: Page) -> None:
    button = shown.one("#counts button[data-state=known]")
    button.click()
    assert cells(shown) == {"always-fails"}
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert len(cells(shown)) == 9


def test_clear_takes_all_filters_away(shown: Page) -> None:
    shown.one("input[name=q]").send_keys("mended", Keys.TAB)
    shown.one("#clear").click()
    assert len(cells(shown)) == 9
    assert shown.fragment() == ""
    assert not shown.one("#clear").is_displayed()


def test_the_grid_can_be_ordered(shown: Page) -> None:
    shown.choose("#sort", "flaky")
    assert "sometimes" in shown.ids("#grid tbody th button")[0]
    shown.choose("#sort", "id")
    names = shown.ids("#grid tbody th button")
    assert names == sorted(names)


def test_one_night_by_two_axes_of_choice(shown: Page) -> None:
    shown.choose("#rows", "os")
    shown.choose("#columns", "kubernetes")
    assert shown.texts("#versus-table thead th")[1:] == ["1.35.4", "1.36.3"]
    assert shown.texts("#versus-table tbody th") == ["debian-13", "debian-12"]
    shown.one("#night-before").click()
    assert "night=1038" in shown.fragment()
    assert len(shown.all("#versus-table .chip.o-failed")) == 2


def test_nights_of_one_date_are_told_apart_by_their_time(page: Page, sample: Document) -> None:
    before, last = sample["nights"][-2:]
    before |= {"date": last["date"], "started": f"{last['date']}T03:15:00Z"}
    page.show(sample)
    options = page.texts("#night option")[:3]
    assert options[1].endswith(", 03:15")
    assert len(set(options)) == 3
    assert not options[2].endswith(":15")
