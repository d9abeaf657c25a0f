"""URLs and addresses that people give, judged before anybody opens them."""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

WEB = ("http", "https")
PORTS = range(1, 65536)


def wrong_url(text: str, schemes: Collection[str] = WEB) -> str:
    """Return what is wrong with a URL, "" when nothing is."""
    if not text.strip():
        return "it is empty"
    if any(c.isspace() or not c.isprintable() for c in text):
        return "it contains a blank or a control character"
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname
    except ValueError as error:
        return str(error)
    if parts.scheme not in schemes:
        return f"it must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}"
    if not host:
        return "it names no host"
    if port == 0:
        return "port 0 cannot be connected to"
    return wrong_host(host)


def wrong_host(host: str) -> str:
    """Return what is wrong with a host's name or address, "" when nothing is."""
    try:
        ip_address(host)
    except ValueError:
        return wrong_name(host)
    return ""


def wrong_name(host: str) -> str:
    """Return what is wrong with a host's name, "" when nothing is (RFC 1123, with the underscore that some have)."""
    labels = host.removesuffix(".").split(".")
    if len(host) > 253 or not all(0 < len(label) <= 63 for label in labels):
        return f"{host!r} is not a host name: its parts have 1 to 63 characters"
    if not all(c.isalnum() or c in "-_" for label in labels for c in label):
        return f"{host!r} is not a host name"
    if labels[-1].isdecimal():
        return f"{host!r} is not an address: an IPv4 address has four numbers up to 255"
    return ""


def wrong_address(text: str, *, port_needed: bool = True) -> str:
    """Return what is wrong with HOST:PORT, "" when nothing is; a literal IPv6 address stands in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or (text.startswith("[") and text.endswith("]")):
        if port_needed:
            return "it must be HOST:PORT"
        host, port = text, "1"
    if not (port.isascii() and port.isdecimal() and int(port) in PORTS):
        return f"{port!r} is not a port: a number from 1 to 65535"
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        return "an IPv6 address stands in brackets: [::1]:8080"
    if not host:
        return "it names no host"
    return wrong_host(host)


def joined(host: str, port: int | str) -> str:
    """Return HOST:PORT as URLs have it."""
    return f"{in_url(host)}:{port}"


def in_url(host: str) -> str:
    """Return a host's name or address as URLs have it: an IPv6 address stands in brackets."""
    return f"[{host}]" if ":" in host else host


def wrong_token(text: str) -> str:
    """Return what is wrong with a token that goes into a header, "" when nothing is."""
    return "" if text.isascii() and text.isprintable() and " " not in text else "it has a blank or a strange character"


# Names of registries, repositories and images: https://github.com/distribution/reference (grammar at its top)
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_REGISTRY_HOST = rf"(?P<host>{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]+\])(?::(?P<port>[0-9]{{1,5}}))?"
_COMPONENT = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
REGISTRY = re.compile(rf"{_REGISTRY_HOST}(?:/{_COMPONENT})*/?")
TAG = re.compile(_TAG)
IMAGE = re.compile(rf"(?:{_REGISTRY_HOST}/)?{_COMPONENT}(?:/{_COMPONENT})*(?::{_TAG})?(?:@sha256:[0-9a-f]{{64}})?")
LONGEST_NAME = 255  # characters of an image's name without its tag
LONGEST_PORT = 65535


def is_registry(text: str) -> bool:
    """Tell whether a text is HOST[:PORT][/PATH] of a registry that could exist."""
    return _fits(REGISTRY, text)


def is_image(text: str) -> bool:
    """Tell whether a text names an image: [HOST[:PORT]/]PATH[:TAG][@DIGEST]."""
    return _fits(IMAGE, text)


def is_tag(text: str) -> bool:
    """Tell whether a text can be the tag of an image."""
    return TAG.fullmatch(text) is not None


def _fits(pattern: re.Pattern[str], text: str) -> bool:
    found = pattern.fullmatch(text)
    port = found["port"] if found is not None else None
    return found is not None and len(text) <= LONGEST_NAME and (port is None or 0 < int(port) <= LONGEST_PORT)
