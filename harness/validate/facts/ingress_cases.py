"""Ingresses that checks create, and what each page of their hosts must be: of which backend, or which refusal.

A path of type Exact and a shorter Prefix of the same host do not meet here: Traefik prefers the longer rule, which is
the one of the Prefix, where the API prefers the Exact one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

CLASS, OTHER_CLASS = "traefik", "nobodys"
RED, BLUE = "red", "blue"  # backends: pods that answer with their name, and the Services in front of them
IDLE = "idle"  # a Service that no pod is behind
PREFIX, EXACT = "Prefix", "Exact"
NOT_FOUND, UNAVAILABLE = 404, 503
FIRST, SECOND, PATHS, EMPTY, FOREIGN, CLASSLESS, UNKNOWN = (
    f"{name}.ingress.example" for name in ("first", "second", "paths", "empty", "foreign", "classless", "unknown")
)


@dataclass(frozen=True, order=True)
class Page:
    """What is asked for: a path of a host, at the port of TLS if `secure`."""

    host: str
    path: str
    secure: bool = False

    def __str__(self) -> str:
        """Return it as an address."""
        return f"http{'s' if self.secure else ''}://{self.host}{self.path}"


Wanted = str | int  # the backend whose answer it is, or the status
Pages = Mapping[Page, Wanted]


@dataclass(frozen=True)
class PathRule:
    """One path of a host, and the Service that it leads to."""

    host: str
    path: str
    service: str
    kind: str = PREFIX


@dataclass(frozen=True)
class Given:
    """An Ingress: its rules, its class (none: it names none), and the Secret of each host that has TLS."""

    name: str
    rules: Sequence[PathRule]
    class_name: str | None = CLASS
    secrets: Mapping[str, str] = field(default_factory=dict)


HOSTS = Given(
    "hosts",
    [PathRule(FIRST, "/", RED), PathRule(SECOND, "/", BLUE)],
    secrets={FIRST: "first-certificate", SECOND: "second-certificate"},
)
INGRESSES: Sequence[Given] = (
    HOSTS,
    Given(
        "paths",
        [
            PathRule(PATHS, "/docs", RED),
            PathRule(PATHS, "/docs/deep", BLUE),
            PathRule(PATHS, "/only", BLUE, EXACT),
        ],
    ),
    Given("empty", [PathRule(EMPTY, "/", IDLE)]),
    Given("foreign", [PathRule(FOREIGN, "/", RED)], class_name=OTHER_CLASS),
    Given("classless", [PathRule(CLASSLESS, "/", RED)], class_name=None),
)
SWAPPED = Given("hosts", [PathRule(FIRST, "/", BLUE), PathRule(SECOND, "/", BLUE)], secrets=HOSTS.secrets)
SHORTENED = Given("hosts", [PathRule(SECOND, "/", BLUE)], secrets=HOSTS.secrets)

HOST_PAGES: Pages = {
    Page(FIRST, "/"): RED,
    Page(SECOND, "/"): BLUE,
    Page(SECOND, "/any/where?of=it"): BLUE,
    Page(UNKNOWN, "/"): NOT_FOUND,
}
PATH_PAGES: Pages = {
    Page(PATHS, "/docs"): RED,
    Page(PATHS, "/docs/"): RED,
    Page(PATHS, "/docs/other"): RED,
    Page(PATHS, "/docs/deeper"): RED,
    Page(PATHS, "/docs/deep"): BLUE,  # the longest prefix
    Page(PATHS, "/docs/deep/down"): BLUE,
    Page(PATHS, "/docsx"): NOT_FOUND,  # prefixes end where elements of a path end
    Page(PATHS, "/Docs"): NOT_FOUND,
    Page(PATHS, "/only"): BLUE,
    Page(PATHS, "/only/"): NOT_FOUND,
    Page(PATHS, "/only/more"): NOT_FOUND,
    Page(PATHS, "/"): NOT_FOUND,
}
SECURE_PAGES: Pages = {Page(FIRST, "/", secure=True): RED, Page(SECOND, "/", secure=True): BLUE}
EMPTY_PAGES: Pages = {Page(EMPTY, "/"): UNAVAILABLE}


def class_pages(*, default: bool) -> Pages:
    """Return what becomes of hosts whose Ingress is of another class, or names none: `default` says who gets that."""
    return {Page(FIRST, "/"): RED, Page(FOREIGN, "/"): NOT_FOUND, Page(CLASSLESS, "/"): RED if default else NOT_FOUND}


# What the Ingress `hosts` becomes, one after the other (None: it is taken away), and what its pages are then.
CHANGES: Sequence[tuple[str, Given | None, Pages]] = (
    ("a rule leads to another Service", SWAPPED, {Page(FIRST, "/"): BLUE, Page(SECOND, "/"): BLUE}),
    ("a rule is gone", SHORTENED, {Page(FIRST, "/"): NOT_FOUND, Page(SECOND, "/"): BLUE}),
    ("the Ingress is gone", None, {Page(FIRST, "/"): NOT_FOUND, Page(SECOND, "/"): NOT_FOUND}),
    ("the Ingress is back", HOSTS, HOST_PAGES),
)
