"""Which proxy leads to an API, for its requests and its tunnels alike, by the rules of kubectl.

A kubeconfig's `proxy-url` counts whatever the environment says. Without one, HTTPS_PROXY and NO_PROXY count as Go reads
them (https://pkg.go.dev/golang.org/x/net/http/httpproxy): names in capitals first, and neither `localhost` nor a
loopback address ever by a proxy.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import unquote, urlsplit

from harness.kube.kubeconfig import PROXIES, KubeContext, unusable, without_login
from harness.urls import in_url, wrong_url

PORTS = {"http": 80, "https": 443, "socks5": 1080}
VARIABLES = {"https": ("HTTPS_PROXY", "https_proxy"), "http": ("HTTP_PROXY", "http_proxy")}
OF_A_NAME = "socks5h"  # in the environment: the proxy looks names up, which it does for `socks5` as well
EXCEPTIONS = ("NO_PROXY", "no_proxy")
Address = IPv4Address | IPv6Address


@dataclass(frozen=True)
class Proxy:
    """A proxy. scheme: http, https or socks5.  login: user and password, None where it wants none."""

    scheme: str
    host: str
    port: int
    login: tuple[str, str] | None = field(default=None, repr=False)

    @staticmethod
    def parse(url: str) -> Proxy:
        """Return the proxy of a URL that is one."""
        parts = urlsplit(url)
        scheme = "socks5" if parts.scheme == OF_A_NAME else parts.scheme
        login = None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
        return Proxy(scheme, str(parts.hostname), parts.port or PORTS[scheme], login)

    @property
    def url(self) -> str:
        """Return its URL without the login."""
        return f"{self.scheme}://{in_url(self.host)}:{self.port}"


def proxy_of(kubeconfig: KubeContext, environment: Mapping[str, str]) -> Proxy | None:
    """Return the proxy that leads to a kubeconfig's server, None where none does.

    Raises:
        BadInput: the environment's proxy is none.
    """
    server, given = (str(kubeconfig.cluster.content[key]) for key in ("server", "proxy-url"))
    if given:
        return Proxy.parse(given)
    scheme = urlsplit(server).scheme
    name, url = _first(VARIABLES[scheme], environment)
    if url and scheme == "http" and environment.get("REQUEST_METHOD"):  # https://httpoxy.org
        hint = "unset REQUEST_METHOD, or name the proxy in the file as `proxy-url`"
        raise unusable(kubeconfig.file, f"{name} does not count where REQUEST_METHOD is set, as for CGI", hint)
    if not url or not by_proxy(server, _first(EXCEPTIONS, environment)[1]):
        return None
    if "://" not in url:
        url = f"http://{url}"
    if wrong := wrong_url(url, (*PROXIES, OF_A_NAME)):
        why = f"the proxy {without_login(url)!r} of {name}: {wrong}"
        raise unusable(kubeconfig.file, why, f"correct {name}, or unset it; NO_PROXY names hosts that need none")
    return Proxy.parse(url)


def _first(names: tuple[str, ...], environment: Mapping[str, str]) -> tuple[str, str]:
    return next(((name, environment[name]) for name in names if environment.get(name)), (names[0], ""))


def by_proxy(server: str, exceptions: str) -> bool:
    """Tell whether a server is reached by a proxy of the environment.

    Args:
        exceptions: as in NO_PROXY, with commas: `*`; addresses and names, with a port or without; networks; `.NAME` and
            `*.NAME` for what is below a name, which NAME alone includes.
    """
    parts = urlsplit(server)
    host, port = _ascii(str(parts.hostname)), str(parts.port or PORTS[parts.scheme])
    address = _address(host)
    if (host == "localhost" and host in parts.netloc) or (address is not None and address.is_loopback):
        return False
    words = (word.strip().lower() for word in exceptions.split(","))
    return not any(_excepts(word, host, port, address) for word in words if word)


def _ascii(name: str) -> str:
    """Return a name as DNS has it."""
    with suppress(UnicodeError):
        return name if name.isascii() else name.encode("idna").decode()
    return name


def _address(text: str) -> Address | None:
    """Return an address, None when it is a name; one of IPv4 that is written as IPv6 is that of IPv4."""
    with suppress(ValueError):
        address = ip_address(text.partition("%")[0])
        return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
    return None


def _excepts(word: str, host: str, port: str, address: Address | None) -> bool:
    if word == "*":
        return True
    network, slash, bits = word.partition("/")
    if slash and bits.isascii() and bits.isdecimal() and _address(_plain(network)) is not None:
        return address is not None and _within(address, _plain(network), bits)
    name, only = _split(word)
    excepted = _address(name)
    if excepted is not None:
        return excepted == address and only in ("", port)
    if not name or address is not None:
        return False
    name = _ascii(name.removeprefix("*") if name.startswith("*.") else name)
    matches = host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")
    return matches and only in ("", port)


def _within(address: Address, network: str, bits: str) -> bool:
    with suppress(ValueError):
        return address in ip_network(f"{network}/{bits}", strict=False)
    return False


def _plain(address: str) -> str:
    """Return an IPv4 address without zeros that lead its numbers, which kubectl takes in networks."""
    return re.sub(r"\b0+(?=\d)", "", address) if ":" not in address else address


def _split(word: str) -> tuple[str, str]:
    """Return a name or address and its port, "" without one; an IPv6 address with a port stands in brackets."""
    matched = re.fullmatch(r"\[(.*)\]:(.*)|([^:\[\]]*):([^:]*)", word)
    if matched is None:
        return word, ""
    bracketed, first, plain, second = matched.groups()
    return (bracketed, first) if plain is None else (plain, second)


def by_socks5(connected: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    """Have a SOCKS5 proxy (RFC 1928) connect to a host, whose name it looks up itself.

    Args:
        connected: to the proxy, with a time-out.

    Raises:
        OSError: it refuses, or answers something else.
    """
    method = b"\x02" if proxy.login is not None else b"\x00"
    connected.sendall(b"\x05\x01" + method)
    if _read(connected, 2) != b"\x05" + method:
        raise OSError(f"the proxy {proxy.url} is not SOCKS5, or wants another login")
    if proxy.login is not None:  # RFC 1929
        connected.sendall(b"\x01" + b"".join(_counted(word.encode()) for word in proxy.login))
        if _read(connected, 2)[1:] != b"\x00":
            raise OSError(f"the proxy {proxy.url} does not take the user and password of its URL")
    address = _address(host)
    kind = b"\x03" if address is None else b"\x01" if address.version == 4 else b"\x04"
    name = _counted(host.encode("idna")) if address is None else address.packed
    connected.sendall(b"\x05\x01\x00" + kind + name + port.to_bytes(2, "big"))
    _, code, _, bound = _read(connected, 4)
    if code:
        raise OSError(f"the proxy {proxy.url} does not connect to {host}:{port}: {REPLIES.get(code, f'reply {code}')}")
    _read(connected, {1: 4, 4: 16}.get(bound) or _read(connected, 1)[0])
    _read(connected, 2)


REPLIES = {  # RFC 1928, 6
    1: "general failure",
    2: "not allowed",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "too many hops",
    7: "command not supported",
    8: "address type not supported",
}


def _counted(content: bytes) -> bytes:
    if len(content) > 255:
        raise OSError("SOCKS5 takes names and passwords of up to 255 bytes")
    return bytes([len(content)]) + content


def _read(connected: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        more = connected.recv(size - len(content))
        if not more:
            raise OSError("the proxy ended the connection")
        content += more
    return content
