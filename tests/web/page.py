"""What the tests of the page do with it: open it, look at it, press keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from harness.report.page import render

DRAWN_SECONDS = 60.0  # a busy machine needs long to start a page; what it took is printed, not judged
DESKTOP = (1280, 900)
PHONE = (360, 740)


@dataclass(frozen=True)
class Page:
    """A page in a browser, in a directory of its own."""

    driver: Chrome
    directory: Path

    def write(self, document: Mapping[str, Any], name: str = "index.html") -> Path:
        """Write a document's page into the directory."""
        path = self.directory / name
        path.write_text(render(document), encoding="utf-8")
        return path

    def show(self, document: Mapping[str, Any], fragment: str = "") -> None:
        """Write a document's page and open it from its file."""
        self.open(self.write(document), fragment)

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file, anew even if only the fragment differs, and wait until it is drawn."""
        self.driver.get("about:blank")
        self.driver.get(path.as_uri() + fragment)
        self.drawn()

    def drawn(self) -> str:
        """Wait until the page says that it is drawn, or that it cannot be; return which."""
        waiting = WebDriverWait(self.driver, DRAWN_SECONDS, poll_frequency=0.05)
        return str(waiting.until(lambda _: self.js("return document.documentElement.dataset.state || ''")))

    def js(self, code: str, *arguments: Any) -> Any:
        """Run code in the page and return what it returns."""
        return self.driver.execute_script(code, *arguments)

    def all(self, selector: str) -> list[WebElement]:
        """Return the elements that a selector finds."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        """Return the first element that a selector finds."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """Return what an element shows."""
        return self.one(selector).text

    def texts(self, selector: str) -> list[str]:
        """Return what each element shows."""
        return [str(text) for text in self.each(selector, "e.innerText")]

    def each(self, selector: str, expression: str) -> list[Any]:
        """Return the value of an expression of `e` for each element that a selector finds."""
        return list(self.js(f"return [...document.querySelectorAll(arguments[0])].map((e) => {expression})", selector))

    def appears(self, selector: str) -> None:
        """Wait until there is such an element: what is folded away is made when it is opened."""
        WebDriverWait(self.driver, DRAWN_SECONDS, poll_frequency=0.05).until(lambda _: self.all(selector))

    def ids(self, selector: str) -> list[str]:
        """Return the id, as the command line has it, of the cell that each button opens."""
        return [str(name) for name in self.each(selector, "e.title")]

    def choose(self, selector: str, value: str) -> None:
        """Choose a value of a select, as a person's choice reaches the page."""
        self.js(
            "const s = document.querySelector(arguments[0]); s.value = arguments[1];"
            "s.dispatchEvent(new Event('change', {bubbles: true}));",
            selector,
            value,
        )

    def press(self, *keys: str) -> None:
        """Press keys, where the focus is."""
        for key in keys:
            ActionChains(self.driver, duration=0).send_keys(key).perform()

    def focused(self) -> str:
        """Return what has the focus: its name for screen readers, else its text."""
        return str(
            self.js("const e = document.activeElement; return e.getAttribute('aria-label') || e.textContent.trim()")
        )

    def fragment(self) -> str:
        """Return the address after the #."""
        return str(self.js("return decodeURIComponent(location.hash)"))

    def emulate(self, **features: str) -> None:
        """Set media features, underscores for hyphens: prefers_color_scheme="dark"."""
        chosen = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": chosen})

    def medium(self, medium: str) -> None:
        """Set the medium, such as print; empty for the screen."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": medium})

    def size(self, width: int, height: int) -> None:
        """Set the window's size in CSS pixels; below 500 px as a telephone."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def scripts(self, *, on: bool) -> None:
        """Turn the page's scripts on or off."""
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not on})

    def _log(self, kind: str) -> list[dict[str, Any]]:
        return list(self.driver.get_log(kind))  # type: ignore[no-untyped-call]

    def complaints(self) -> list[str]:
        """Return what the console said since the last call."""
        return [entry["message"] for entry in self._log("browser")]

    def requests(self) -> list[str]:
        """Return the addresses that were asked for since the last call."""
        events = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
