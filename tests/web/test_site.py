"""The documentation's site, built as the pipeline builds it, in a real browser."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harness import proc
from harness.paths import project_dir
from tests.unit import pages
from tests.web.page import PHONE, Page

ROOT = project_dir()
BUILD_SECONDS = 600.0  # a busy machine needs long
SHOWN = ("", "tutorial/", "troubleshooting/", "reference/commands/", "reference/settings/", "decisions/", "report/")
MADE = "<!-- made from the code: "  # what a page has in its place is not in its file
PROSE = re.compile(r"^ *(?:[-*]|\d+\.) ")


def build(folder: Path, **environment: str) -> proc.Completed:
    """Build the site strictly."""
    argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    return proc.run(argv, timeout=BUILD_SECONDS, cwd=ROOT, check=False, env=environment)


class Silent(SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site."""
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def address(built: Path) -> Iterator[str]:
    """Where the site is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(built)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def opened(page: Page, url: str) -> None:
    """Open a page of the site in an empty browser."""
    page.driver.get("about:blank")
    page.requests()
    page.driver.get(url)


@pytest.mark.parametrize("path", SHOWN)
def test_a_page_asks_its_own_host_only(page: Page, address: str, path: str) -> None:
    opened(page, address + path)
    assert page.one("article h1").is_displayed()
    asked = [urlsplit(one) for one in page.requests()]
    foreign = [
        one.geturl() for one in asked if one.scheme in ("http", "https") and not address.endswith(f"{one.netloc}/")
    ]
    assert foreign == []
    assert len(asked) > 3


def test_nothing_in_the_site_is_loaded_from_elsewhere(built: Path) -> None:
    loaded = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=["']?(https?:)?//""")
    styles = re.compile(r"""url\(\s*["']?(https?:)?//|@import\s+["'](https?:)?//""")
    html, css = list(built.rglob("*.html")), list(built.rglob("*.css"))
    assert len(html) > 80
    assert css
    assert [str(one) for one in html if loaded.search(one.read_text(encoding="utf-8"))] == []
    assert [str(one) for one in css if styles.search(one.read_text(encoding="utf-8"))] == []


def test_the_search_finds_a_message(page: Page, address: str) -> None:
    opened(page, address)
    page.js("document.querySelector('[data-md-component=search-query]').focus()")
    page.press(*"cloud-init failed")
    page.appears(".md-search-result__item a")
    assert any("troubleshooting" in str(one) for one in page.each(".md-search-result__item a", "e.href"))


def items(text: str) -> int:
    """Return how many items the lists of a page have."""
    return sum(not line.code and PROSE.match(line.text) is not None for line in pages.lines(text))


@pytest.mark.parametrize("page_file", [*sorted((ROOT / "docs").rglob("*.md"))], ids=lambda one: one.stem)
def test_every_list_of_a_page_is_a_list_in_the_site(built: Path, page_file: Path) -> None:
    place = page_file.relative_to(ROOT / "docs").with_suffix("")
    html = (built / place / "index.html").read_text(encoding="utf-8")
    article = html.split("<article", 1)[1].split("</article>", 1)[0]
    text = page_file.read_text(encoding="utf-8")
    listed = article.count("<li>")
    assert listed >= items(text) if MADE in text else listed == items(text)
    tables = len(re.findall(r"^\|[-| :]+\|$", text, flags=re.MULTILINE))
    assert article.count("<table>") >= tables


def test_every_schema_has_an_address_of_its_own(built: Path) -> None:
    for schema in (ROOT / "docs/schemas").glob("*.json"):
        assert (built / "schemas" / schema.name).read_bytes() == schema.read_bytes()


def test_every_page_can_be_reached_from_the_first(built: Path) -> None:
    seen, todo = set(), [built / "index.html"]
    while todo:
        file = todo.pop()
        if file in seen or not file.is_file():
            continue
        seen.add(file)
        links = re.findall(r"""<a\b[^>]*?\bhref=["']?([^"'#> ]+)""", file.read_text(encoding="utf-8"))
        inside = [(file.parent / one).resolve() for one in links if not re.match(r"[a-z]+:", one)]
        todo += [one / "index.html" if one.is_dir() else one for one in inside if one.suffix in ("", ".html")]
    every = {one for one in built.resolve().rglob("*.html") if one.name != "404.html"}
    assert {str(one.relative_to(built.resolve())) for one in every - {one.resolve() for one in seen}} == set()


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    listed = proc.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], timeout=60, cwd=ROOT)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    page = copy / "docs/how-to.md"
    page.write_text(page.read_text(encoding="utf-8") + "\n[there](report.md#nowhere)\n", encoding="utf-8")
    argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = proc.run(argv, timeout=BUILD_SECONDS, cwd=copy, check=False)
    assert done.returncode != 0
    assert "report.md#nowhere" in done.stderr


def test_a_telephone_scrolls_in_one_direction_only(page: Page, address: str) -> None:
    page.size(*PHONE)
    for path in SHOWN:
        opened(page, address + path)
        width, inner = page.js("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert width <= inner, path
