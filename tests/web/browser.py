"""Debian's Chromium and its driver: found, installed when asked, started without a window.

`python -m tests.web.browser` installs what is missing (root), as tox does before the tests.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from harness import proc

PACKAGES = ("chromium", "chromium-driver")
INSTALL_SECONDS = 900.0
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",  # the tests run as root, and look at the project's own page only
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--hide-scrollbars",
)


@dataclass(frozen=True)
class Programs:
    """Where the browser and its driver are."""

    browser: str
    driver: str


def find() -> Programs | None:
    """Return the browser and its driver, None when either is missing."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    return Programs(browser, driver) if browser and driver else None


def start(programs: Programs) -> Chrome:
    """Start a browser that writes down its console and its requests. Nothing is ever downloaded for it."""
    options = ChromeOptions()
    options.binary_location = programs.browser
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return Chrome(options=options, service=Service(programs.driver))


def install() -> None:
    """Install the browser and its driver from the distribution, when they are missing."""
    if find() is None:
        for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]):
            proc.run(command, timeout=INSTALL_SECONDS, env={"DEBIAN_FRONTEND": "noninteractive"})


if __name__ == "__main__":
    install()
