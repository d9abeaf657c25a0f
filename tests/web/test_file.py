"""The page is one file: without network, without server, without scripts if it must be; quick and small."""

from __future__ import annotations

import sys
import time

import pytest

from harness.report.page import MOST_BYTES
from tests.unit.history import synthetic
from tests.web.documents import Document
from tests.web.page import Page

YEAR, CELLS = 365, 60
HUNG_SECONDS = 30.0  # the time is printed, not judged: this only tells a page that hangs from one on a busy machine


@pytest.fixture(scope="module")
def year() -> Document:
    """A made-up year."""
    return synthetic.document(YEAR, CELLS)


def test_nothing_but_the_file_is_asked_for(page: Page, sample: Document) -> None:
    page.requests()
    page.show(sample)
    page.choose("#show", "90")
    page.one("#attention-rows .cell-name").click()
    asked = [address for address in page.requests() if not address.startswith(("data:", "about:", "blob:"))]
    assert asked == [(page.directory / "index.html").as_uri()]


def test_the_console_stays_empty(page: Page, sample: Document) -> None:
    page.show(sample)
    for fragment in ("#show=90", "#cell=k1363-d13-slower-000006", "#state=failing&sort=flaky", "#rows=os&columns=os"):
        page.js("location.hash = arguments[0]", fragment)
        page.js("return new Promise((done) => setTimeout(done, 50))")
    assert page.complaints() == []


def test_without_scripts_there_is_the_last_night(page: Page, sample: Document) -> None:
    path = page.write(sample)
    page.scripts(on=False)
    page.driver.get(path.as_uri())
    page.scripts(on=True)  # for the driver's own questions; the page's script has had its chance
    assert page.js("return document.documentElement.dataset.state") is None
    rows = [" ".join(text.split()) for text in page.texts("main.plain tbody tr")]
    assert len(rows) == 9
    assert rows[0].startswith(
        "k1363-d13-always-fails-000002 ✕ failed product known network: test_dns_answers: no route"
    )
    assert any(row.startswith("k1363-d13-absent-000007 not run") for row in rows)
    assert not page.one("main.app").is_displayed()
    assert "Scripts are off" in page.text("noscript")


def test_with_scripts_the_plain_table_is_out_of_sight(shown: Page) -> None:
    assert not shown.one("main.plain").is_displayed()
    assert not shown.one("#trouble").is_displayed()


def test_a_damaged_page_says_so_and_shows_the_last_night(page: Page, sample: Document) -> None:
    path = page.write(sample)
    text = path.read_text()
    packed = text.split('id="document">')[1].split("</script>")[0]
    path.write_text(text.replace(packed, packed[: len(packed) // 2]))
    page.driver.get(path.as_uri())
    assert page.drawn() == "failed"
    assert "could not be displayed" in page.text("#trouble")
    assert len(page.all("main.plain tbody tr")) == 9
    assert page.one("main.plain").is_displayed()
    page.complaints()


@pytest.mark.parametrize("fragment", ["", "#show=90"])
def test_a_year_of_sixty_cells_is_small_and_opens(
    page: Page, year: Document, capsys: pytest.CaptureFixture[str], fragment: str
) -> None:
    path = page.write(year)
    assert path.stat().st_size < MOST_BYTES
    page.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    begun = time.monotonic()
    page.open(path, fragment)
    took = time.monotonic() - begun
    metrics = {
        one["name"]: one["value"] for one in page.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    }
    page.driver.execute_cdp_cmd("Performance.disable", {})
    with capsys.disabled():
        sys.stdout.write(
            f"\n{YEAR} nights x {CELLS} cells {fragment}: {path.stat().st_size} bytes, drawn after {took:.2f} s, "
            f"{metrics['TaskDuration']:.2f} s of processor time of the page's thread\n"
        )
    assert page.js("return document.querySelectorAll('#grid tbody tr').length") == len(year["cells"]) >= CELLS
    assert took < HUNG_SECONDS
    assert page.complaints() == []


def test_every_night_of_a_year_can_be_reached(page: Page, year: Document) -> None:
    page.show(year, "#show=90")
    for _ in range(4):
        page.one("#older").click()
    assert not page.one("#older").is_enabled()
    first = page.js("return document.querySelector('#grid tbody td.at').dataset.night")
    assert first == "0"
    assert len(page.all("#grid tbody tr:first-child td.at")) == 90
    page.show(year, page.fragment())
    assert page.js("return document.querySelector('#grid tbody td.at').dataset.night") == "0"
