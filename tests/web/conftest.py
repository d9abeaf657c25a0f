"""A real browser for the report's page: one for all tests, in its first state for each.

Without Debian's Chromium these tests fail and say what to install; `tox -e web` installs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome

from tests.web import browser
from tests.web.documents import Document, document
from tests.web.page import DESKTOP, Page


@pytest.fixture(scope="session")
def driver() -> Iterator[Chrome]:
    """A browser."""
    programs = browser.find()
    if programs is None:
        pytest.fail(f"no browser: apt-get install {' '.join(browser.PACKAGES)}", pytrace=False)
    started = browser.start(programs)
    yield started
    started.quit()


@pytest.fixture
def page(driver: Chrome, tmp_path: Path) -> Iterator[Page]:
    """The browser, as a desktop in light colours with scripts on; afterwards nothing may stand in its console."""
    opened = Page(driver, tmp_path)
    opened.scripts(on=True)
    opened.medium("")
    opened.emulate(prefers_color_scheme="light", prefers_reduced_motion="reduce")
    opened.size(*DESKTOP)
    opened.complaints()
    opened.requests()
    yield opened
    driver.get("about:blank")


@pytest.fixture
def sample() -> Document:
    """A document with one cell for everything that the page shows."""
    return document()


@pytest.fixture
def shown(page: Page, sample: Document) -> Page:
    """The page of that document."""
    page.show(sample)
    return page
