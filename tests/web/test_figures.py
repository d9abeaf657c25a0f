"""How fast clusters are: plots by the values of an axis, and what is slower in words."""

from __future__ import annotations

from selenium.webdriver.support.select import Select

from tests.web.documents import Document
from tests.web.page import Page


def test_each_figure_has_a_plot_for_each_value_of_the_axis(shown: Page) -> None:
    assert shown.texts("#figures-table thead th") == ["figure", "1.35.4"]
    rows = shown.texts("#figures-table tbody th")
    assert "SLO 5 s" in rows[0]
    assert "more is better" in rows[1]
    assert len(shown.all("#figures-table tbody tr:first-child svg")) == 1
    assert "8123 /s" in shown.text("#figures-table tbody tr:nth-child(2)")


def test_another_axis_has_other_columns(shown: Page) -> None:
    Select(shown.one("#figures-axis")).select_by_visible_text("topology")
    assert shown.texts("#figures-table thead th") == ["figure", "all-in-one"]
    assert "figures=topology" in shown.driver.current_url


def test_what_is_slower_or_over_its_slo_is_said(shown: Page) -> None:
    assert "1 of 4 compared figures is slower than usual" in shown.text("#figures-said")
    assert "2.10 times the usual 2.95 s" in shown.text("#figures-slower")
    assert "over the SLO: Pod start, p99 (w-0) 6.2 s" in shown.text("#figures-over")


def test_without_figures_nothing_is_said_of_them(page: Page, sample: Document) -> None:
    sample["figures"] = {"kinds": [], "slower": [], "over": [], "compared": 0, "young": 0}
    for cell in sample["cells"]:
        cell["figures"] = []
    page.show(sample)
    assert not page.one("#figures").is_displayed()
    assert page.complaints() == []
