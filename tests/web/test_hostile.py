"""No text of a history can become part of the page: it is shown as it is, nothing of it runs, nothing is fetched."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.web.documents import Document, replace_texts
from tests.web.page import Page

LISTED = "#attention-rows .cell-name"
# What the document's form itself is made of: letters of nights, dates, and words that the page compares.
FORM = {"outcomes", "blames", "history", "started", "finished", "generated", "last", "date", "until"}
MARKUP = (
    "<script>window.owned = 1</script>",
    "</script><script>window.owned = 1</script>",
    "<!--<script>window.owned = 1</script>",
    "<img src=x onerror='window.owned = 1'>",
    "<img src={beacon}>",
    "<svg onload=window.owned=1><style>@import '{beacon}';</style>",
    "<iframe srcdoc='<script>parent.owned = 1</script>'></iframe>",
    "<meta http-equiv=refresh content='0;url={beacon}'><base href={beacon}><link rel=stylesheet href={beacon}>",
    "' onmouseover='window.owned = 1' autofocus onfocus='window.owned = 1' x='",
    '" onmouseover="window.owned = 1" autofocus onfocus="window.owned = 1" x="',
    "</textarea></title></style></noscript></option></select><img src=x onerror=window.owned=1>",
    "{{ 7 * 7 }} {% include '/etc/passwd' %} ${window.owned = 1} #{window.owned}",
    "\u2028window.owned = 1\u2029//",
    "\x00<script\x00>window.owned = 1</script>",
    "\ud800 lone \udfff surrogates",
    "&lt;script&gt;window.owned = 1&lt;/script&gt; &#x3c;img src=x&#x3e;",
    "__proto__",
    "constructor",
    "\u202eright to left",
    "x" * 20_000,
)
ADDRESSES = (
    "javascript:window.owned=1",
    "JaVaScRiPt:window.owned=1",
    " javascript:window.owned=1",
    "java\nscript:window.owned=1",
    "\x01javascript:window.owned=1",
    "data:text/html,<script>window.owned=1</script>",
    "vbscript:x",
    "blob:null/1",
    "file:///etc/passwd",
    "//elsewhere.example/",
    "\\\\elsewhere.example\\share",
    "https:elsewhere.example",
    "http:///etc/passwd",
    "x:y",
    "",
)


class Beacon(BaseHTTPRequestHandler):
    """Counts who comes."""

    hits: list[str]

    def do_GET(self) -> None:
        """Write the visit down."""
        self.hits.append(self.path)
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def beacon() -> Iterator[tuple[str, list[str]]]:
    """A server's address, and who came: nobody may."""
    hits: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Counting", (Beacon,), {"hits": hits}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/seen", hits
    server.shutdown()
    server.server_close()


def hostile(document: Document, text: str) -> Document:
    """Return the document with this text in place of each of its own; cells stay distinct."""

    def put(key: str, old: str) -> str:
        if key in FORM:
            return old
        return text + old if key == "id" else text

    return dict(replace_texts(document, put))


def innocent(page: Page) -> None:
    """Check that the page has no elements, handlers or addresses but its own."""
    assert page.js("return window.owned") is None
    assert page.all("img, iframe, object, embed, base, textarea, meta[http-equiv=refresh]") == []
    assert len(page.all("script")) == 2
    names = {name for names in page.each("*", "e.getAttributeNames()") for name in names}
    assert {name for name in names if name.startswith("on")} == set()
    assert set(page.each("a[href]", "e.protocol")) <= {"http:", "https:", "file:"}
    addresses = page.each("a[href]", "e.getAttribute('href').toLowerCase()")
    absolute = [address for address in addresses if re.match(r"[a-z]*:|[/\\]{2}", address)]
    assert [address for address in absolute if not address.startswith(("https://", "http://"))] == []


@pytest.mark.parametrize("payload", MARKUP, ids=lambda text: ascii(text[:24]))
def test_markup_in_every_text_is_shown_and_does_nothing(
    page: Page, sample: Document, beacon: tuple[str, list[str]], payload: str
) -> None:
    address, hits = beacon
    text = payload.replace("{beacon}", address)
    page.show(hostile(sample, text))
    page.js("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    page.one(LISTED).click()
    page.js("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    innocent(page)
    visible = text.encode("utf-8", "replace").decode()[:1000]
    shown = page.js("return document.querySelector('#cell pre').textContent.startsWith(arguments[0])", visible)
    assert shown or "\ud800" in text, "the message is not shown as it is"
    assert page.js("return document.documentElement.dataset.state") == "drawn"
    assert hits == []
    assert [line for line in page.complaints() if "favicon" not in line] == []


@pytest.mark.parametrize("payload", MARKUP, ids=lambda text: ascii(text[:24]))
def test_markup_does_nothing_without_scripts_either(
    page: Page, sample: Document, beacon: tuple[str, list[str]], payload: str
) -> None:
    address, hits = beacon
    text = payload.replace("{beacon}", address)
    path = page.write(hostile(sample, text))
    page.scripts(on=False)
    page.driver.get(path.as_uri())
    page.scripts(on=True)
    innocent(page)
    assert len(page.all("main.plain tbody tr")) == 9
    assert hits == []


@pytest.mark.parametrize("address", ADDRESSES, ids=ascii)
def test_an_address_that_is_neither_web_nor_beside_the_page_is_no_link(
    page: Page, sample: Document, address: str
) -> None:
    keys = {"url", "project_url", "issue", "path", "quarantine"}
    page.show(replace_texts(sample, lambda key, old: address if key in keys else old), "#cell=k1363-d13-excused-000005")
    innocent(page)
    links = page.js(
        "return [...document.querySelectorAll('a[href]:not([data-go])')].map((a) => a.getAttribute('href'))"
    )
    assert [link for link in links if address and link.startswith(address[:6])] == []
    for anchor in page.all("#cell a[href]"):
        assert anchor.get_attribute("rel") == "noopener noreferrer"


def test_what_got_in_all_the_same_would_not_run(shown: Page, beacon: tuple[str, list[str]]) -> None:
    """The policy holds on its own: inline handlers, scripts, markup from text, requests."""
    address, hits = beacon
    tried = shown.js(
        """
        const errors = [];
        const attempt = (name, run) => { try { run(); } catch (error) { errors.push(name); } };
        attempt("innerHTML", () => { document.body.innerHTML += "<img src=x onerror='window.owned = 1'>"; });
        attempt("script text", () => {
          const script = document.createElement("script");
          script.textContent = "window.owned = 1";
          document.body.append(script);
        });
        attempt("handler", () => { document.body.setAttribute("onclick", "window.owned = 1"); document.body.click(); });
        new Image().src = arguments[0];
        const frame = document.createElement("iframe"); frame.src = arguments[0]; document.body.append(frame);
        return fetch(arguments[0]).catch(() => errors.push("fetch")).then(() => errors);
        """,
        address,
    )
    assert {"innerHTML", "fetch"} <= set(tried)
    assert shown.js("return window.owned") is None
    assert hits == []
    assert len(shown.complaints()) >= 3
