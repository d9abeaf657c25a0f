"""Ways to an API: by a proxy or directly, by what the environment and the kubeconfig say, as kubectl goes."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

NAME, ADDRESS, SIX = "https://api.example.test:6443", "https://192.0.2.10:6443", "https://[2001:db8::10]:6443"


@dataclass(frozen=True)
class Route:
    """An API's server, variables of the environment, and whether a proxy leads to it. proxy: the file's `proxy-url`."""

    server: str
    environment: Mapping[str, str] = field(default_factory=dict)
    by_proxy: bool = False
    proxy: str = ""

    def __str__(self) -> str:
        """Return the id of the test."""
        words = " ".join(f"{name}={value}" for name, value in self.environment.items())
        return f"{self.server} {words} {self.proxy}".replace("/", "|")


def excepted(server: str, words: str) -> Route:
    """Return a way that NO_PROXY makes direct."""
    return Route(server, {"HTTPS_PROXY": "$PROXY", "NO_PROXY": words})


def proxied(server: str, words: str) -> Route:
    """Return a way that stays one by a proxy in spite of NO_PROXY."""
    return Route(server, {"HTTPS_PROXY": "$PROXY", "NO_PROXY": words}, by_proxy=True)


ROUTES = (
    Route(NAME),
    Route(NAME, {"HTTPS_PROXY": "$PROXY"}, by_proxy=True),
    Route(NAME, {"https_proxy": "$PROXY"}, by_proxy=True),
    Route(NAME, {"HTTPS_PROXY": "$PROXY", "https_proxy": "http://192.0.2.1:9"}, by_proxy=True),
    Route(NAME, {"HTTPS_PROXY": "", "https_proxy": "$PROXY"}, by_proxy=True),
    Route(NAME, {"HTTPS_PROXY": "$PORT"}, by_proxy=True),  # HOST:PORT without http://
    Route(NAME, {"HTTP_PROXY": "$PROXY"}),
    Route(NAME, {"ALL_PROXY": "$PROXY"}),
    Route(NAME, {"HTTPS_PROXY": "$PROXY", "no_proxy": "example.test"}),
    Route(NAME, {"HTTPS_PROXY": "$PROXY", "NO_PROXY": "other.test", "no_proxy": "example.test"}, by_proxy=True),
    Route(NAME, {"HTTPS_PROXY": "$PROXY", "NO_PROXY": "", "no_proxy": "example.test"}),
    Route(NAME, {"NO_PROXY": "*"}, by_proxy=True, proxy="$PROXY"),
    Route(NAME, {"NO_PROXY": "api.example.test"}, by_proxy=True, proxy="$PROXY"),
    Route(NAME, {"HTTPS_PROXY": "http://192.0.2.1:9"}, by_proxy=True, proxy="$PROXY"),
    Route(NAME, {"HTTPS_PROXY": "$PROXY"}, by_proxy=True, proxy="$LOGIN"),
    *(excepted(NAME, words) for words in ("*", "api.example.test", "example.test", ".example.test", "*.example.test")),
    *(excepted(NAME, words) for words in ("API.Example.Test", "a, *", " example.test ", "a,,test", "*.test")),
    *(excepted(NAME, words) for words in ("example.test:6443", ".example.test:6443", "api.example.test:6443", "test:")),
    *(proxied(NAME, words) for words in ("example.test:443", "xample.test", ".api.example.test", "*.api.example.test")),
    *(proxied(NAME, words) for words in ("api", "api.*", "*example.test", "0.0.0.0/0", "example.test.")),
    *(excepted(ADDRESS, words) for words in ("192.0.2.10", "192.0.2.10:6443", "192.0.2.0/24", "0.0.0.0/0", "*")),
    *(excepted(ADDRESS, words) for words in ("192.0.2.99/24", "10.0.0.0/8,192.0.2.8/29", "192.000.002.000/24")),
    *(excepted(ADDRESS, words) for words in ("::ffff:192.0.2.10",)),
    *(proxied(ADDRESS, words) for words in ("192.0.2.10:443", "192.0.2.1", "192.0.2.0", "192.0.2.", ".2.10", "2.10")),
    *(proxied(ADDRESS, words) for words in ("192.0.2.0/33", "192.0.2.0/255.255.0.0", "192.0.2.*", "192.0.2.0/24:6443")),
    *(excepted(SIX, words) for words in ("2001:db8::10", "[2001:db8::10]:6443", "2001:db8::/32", "2001:DB8:0::10")),
    *(proxied(SIX, words) for words in ("[2001:db8::10]", "[2001:db8::10]:443", "2001:db9::/32")),
    Route("https://localhost:9", {"HTTPS_PROXY": "$PROXY"}),
    Route("https://127.8.8.8:9", {"HTTPS_PROXY": "$PROXY"}),
    Route("https://[::1]:9", {"HTTPS_PROXY": "$PROXY"}),
    Route("https://LOCALHOST:9", {"HTTPS_PROXY": "$PROXY"}, by_proxy=True),
    Route("https://localhost:9", by_proxy=True, proxy="$PROXY"),
    Route("https://127.0.0.1:9", {"NO_PROXY": "127.0.0.1"}, by_proxy=True, proxy="$PROXY"),
)


@dataclass
class RecordingProxy:
    """A proxy that leads every connection to one port of this host. asked: what for.  logins: by whom."""

    leads_to: int
    port: int = 0
    asked: list[str] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)

    def fill(self, text: str) -> str:
        """Return a text with this proxy's addresses in it."""
        address = f"127.0.0.1:{self.port}"
        named = {"$PROXY": f"http://{address}", "$PORT": address, "$LOGIN": f"http://me:p%40ss@{address}"}
        for name, value in named.items():
            text = text.replace(name, value)
        return text


@contextmanager
def proxy(leads_to: int, *, socks: bool = False) -> Iterator[RecordingProxy]:
    """Run a proxy: of HTTP, or of SOCKS5."""
    made = RecordingProxy(leads_to)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        made.port = listening.getsockname()[1]

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listening.accept()
                    threading.Thread(target=_carry, args=(made, client, socks), daemon=True).start()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield made
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def _carry(made: RecordingProxy, client: socket.socket, socks: bool) -> None:
    with client, suppress(OSError):
        (_socks if socks else _connect)(made, client)
        with socket.create_connection(("127.0.0.1", made.leads_to)) as server:
            client.sendall(bytes.fromhex("05000001000000000000") if socks else b"HTTP/1.1 200 OK\r\n\r\n")
            ends = {client: server, server: client}
            while True:
                for ready in select.select(list(ends), [], [])[0]:
                    content = ready.recv(65536)
                    if not content:
                        return
                    ends[ready].sendall(content)


def _connect(made: RecordingProxy, client: socket.socket) -> None:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += client.recv(1)
    first, *lines = head.decode().split("\r\n")
    made.asked.append(first.split()[1])
    made.logins += [line.partition(": ")[2] for line in lines if line.lower().startswith("proxy-authorization")]


def _socks(made: RecordingProxy, client: socket.socket) -> None:
    methods = client.recv(client.recv(2)[1])
    client.sendall(b"\x05" + methods[:1])
    if methods[0] == 2:
        client.recv(1)
        words = [client.recv(client.recv(1)[0]).decode() for _ in range(2)]
        made.logins.append(":".join(words))
        client.sendall(b"\x01\x00")
    kind = client.recv(4)[3]
    host = client.recv(client.recv(1)[0]).decode() if kind == 3 else socket.inet_ntop(socket.AF_INET, client.recv(4))
    made.asked.append(f"{host}:{int.from_bytes(client.recv(2), 'big')}")
