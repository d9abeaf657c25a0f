"""A controller that does what the API says of Ingresses passes; each way of doing otherwise is a finding."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from harness.kube import Cluster, Resource
from harness.kube.resources import INGRESS, INGRESS_CLASS, SECRET, SERVICE
from harness.kube.serving import begun
from harness.validate.topics import ingress
from harness.validate.topics import ingress as cases
from harness.validate.topics.ingress import (
    BLUE,
    FIRST,
    IDLE,
    RED,
    SECOND,
    Given,
    Page,
    Pages,
    PathRule,
    PublishedIngresses,
    WebAnswer,
    get_page,
)
from tests.unit.playbooks.mirror import serving
from tests.unit.validate.guests import NOWHERE, Json

NODES = {"cp-0": "10.0.0.2", "w-0": "10.0.0.3"}
Fits = Callable[[PathRule, str], bool]


def by_elements(rule: PathRule, path: str) -> bool:
    """Tell whether a rule is for a path, as the API has it."""
    path = path.partition("?")[0]
    if rule.kind == cases.EXACT:
        return path == rule.path
    prefix = rule.path.rstrip("/").split("/")
    return path.split("/")[: len(prefix)] == prefix


def controller(
    ingresses: Sequence[Given] = cases.INGRESSES, *, default: bool = True, fits: Fits = by_elements, idle: int = 503
) -> ingress.Ask:
    """Return a controller that answers as the API says."""
    own = [one for one in ingresses if one.class_name == cases.CLASS or (one.class_name is None and default)]

    def ask(_: str, page: Page) -> WebAnswer:
        rules = [rule for one in own for rule in one.rules if rule.host == page.host and fits(rule, page.path)]
        if not rules:
            return WebAnswer(404, "404 page not found")
        best = max(rules, key=lambda rule: (rule.kind == cases.EXACT, len(rule.path)))
        return WebAnswer(idle, "no available server") if best.service == IDLE else WebAnswer(200, best.service)

    return ask


ALL: Mapping[str, Pages] = {
    "hosts": cases.HOST_PAGES,
    "paths": cases.PATH_PAGES,
    "secure": cases.SECURE_PAGES,
    "empty": cases.EMPTY_PAGES,
    "classes": cases.class_pages(default=True),
}


@pytest.mark.parametrize("name", ALL)
def test_a_controller_that_does_as_the_api_says_passes(name: str) -> None:
    assert ingress.misrouted(ALL[name], NODES, controller()) == []


def test_without_a_default_class_an_ingress_that_names_none_is_not_served() -> None:
    pages = cases.class_pages(default=False)
    assert ingress.misrouted(pages, NODES, controller(default=False)) == []
    assert ingress.misrouted(pages, NODES, controller(default=True)) != []
    assert ingress.misrouted(ALL["classes"], NODES, controller(default=False)) != []


@pytest.mark.parametrize(("what", "given", "pages"), cases.CHANGES, ids=[what for what, _, __ in cases.CHANGES])
def test_each_change_is_seen_in_some_page(what: str, given: Given | None, pages: Pages) -> None:
    others = [one for one in cases.INGRESSES if one.name != "hosts"]
    assert ingress.misrouted(pages, NODES, controller([*others, given] if given else others)) == []
    if given is not cases.HOSTS:
        assert ingress.misrouted(pages, NODES, controller()) != []


@pytest.mark.parametrize(
    ("name", "fits", "page"),
    [
        ("paths", lambda rule, path: path.startswith(rule.path), "/docsx"),  # also Exact as Prefix
        ("paths", lambda rule, path: by_elements(replace(rule, kind=cases.PREFIX), path), "/only/more"),
        ("paths", lambda rule, path: by_elements(replace(rule, kind=cases.EXACT), path), "/docs/other"),
        ("paths", lambda rule, path: by_elements(rule, path.rstrip("/")), "/only/"),
        ("paths", lambda rule, path: by_elements(rule, path.lower()), "/Docs"),
        ("hosts", lambda _, __: False, "/"),
    ],
)
def test_a_controller_that_takes_paths_otherwise_is_found(name: str, fits: Fits, page: str) -> None:
    found = ingress.misrouted(ALL[name], NODES, controller(fits=fits))
    assert any(one.where.endswith(page) for one in found)


def test_a_controller_that_gives_up_services_without_endpoints_is_found() -> None:
    (found, _) = ingress.misrouted(cases.EMPTY_PAGES, NODES, controller(idle=404))
    assert (found.expected, found.seen) == ("503", "404: no available server")


def test_one_that_serves_every_class_is_found() -> None:
    taken = [replace(one, class_name=cases.CLASS) for one in cases.INGRESSES]
    assert ingress.misrouted(ALL["classes"], NODES, controller(taken))[0].seen == "200: red"


def test_one_node_of_two_is_found_and_asked_once_if_it_does_not_answer() -> None:
    asked: list[str] = []

    def ask(address: str, page: Page) -> WebAnswer:
        asked.append(address)
        return WebAnswer(error="port 80 is refused") if address == NODES["w-0"] else controller()(address, page)

    (found,) = ingress.misrouted(cases.HOST_PAGES, NODES, ask)
    assert found.where.startswith("outside -> w-0 (10.0.0.3), http://first.")
    assert found.seen == "port 80 is refused"
    assert asked.count(NODES["w-0"]) == 1


def test_no_page_and_no_node_prove_nothing() -> None:
    assert ingress.misrouted({}, NODES, controller()) != []
    assert ingress.misrouted(cases.HOST_PAGES, {}, controller()) != []
    assert ingress.foreign_certificates({}, NODES, controller()) != []
    assert ingress.wrong_statuses({}, {}, [], controller()) != []


def pem(host: str) -> bytes:
    return begun("ca", [host], datetime.now(UTC)).certificate


def showing(certificates: Mapping[str, bytes]) -> ingress.Ask:
    der = {host: x509.load_pem_x509_certificate(one).public_bytes(Encoding.DER) for host, one in certificates.items()}
    return lambda _, page: WebAnswer(200, RED, der.get(page.host, b""))


def test_the_certificate_of_each_secret_passes_and_any_other_is_found() -> None:
    own = {FIRST: pem(FIRST), SECOND: pem(SECOND)}
    assert ingress.foreign_certificates(own, NODES, showing(own)) == []
    (found, _) = ingress.foreign_certificates(own, NODES, showing({**own, FIRST: pem("default.example")}))
    assert FIRST in found.where
    assert FIRST in found.expected
    assert "default.example" in found.seen
    renewed = {**own, FIRST: pem(FIRST)}
    assert len(ingress.foreign_certificates(renewed, NODES, showing(own))) == len(NODES)
    assert ingress.foreign_certificates(own, NODES, showing({SECOND: own[SECOND]}))[0].seen == "no certificate"


def test_a_node_that_does_not_speak_tls_is_found_once() -> None:
    own = {FIRST: pem(FIRST), SECOND: pem(SECOND)}
    found = ingress.foreign_certificates(own, NODES, lambda *_: WebAnswer(error="cut off: no TLS"))
    assert [one.seen for one in found] == ["cut off: no TLS"] * len(NODES)


SERVED = {"hosts": Page(FIRST, "/"), "empty": Page(cases.EMPTY, "/")}


def test_a_status_with_an_address_that_serves_passes() -> None:
    shown = {"hosts": ["10.0.0.3"], "empty": ["10.0.0.3"], "foreign": []}
    assert ingress.wrong_statuses(shown, SERVED, ["foreign"], controller()) == []


@pytest.mark.parametrize(
    ("shown", "ask", "words"),
    [
        ({"hosts": [], "empty": ["10.0.0.3"]}, controller(), "none"),
        ({"empty": ["10.0.0.3"]}, controller(), "none"),
        ({"hosts": ["10.0.0.9"], "empty": []}, lambda *_: WebAnswer(error="nothing came back"), "nothing came back"),
        ({"hosts": ["10.0.0.9"], "empty": []}, lambda *_: WebAnswer(404, "who?"), "404: who?"),
        ({"hosts": ["a"], "empty": ["a"], "foreign": ["10.0.0.3"]}, controller(), "10.0.0.3"),
    ],
)
def test_a_wrong_status_is_found(shown: Mapping[str, list[str]], ask: ingress.Ask, words: str) -> None:
    assert words in ingress.wrong_statuses(shown, SERVED, ["foreign"], ask)[0].seen


class Api(Cluster):
    """An API that keeps what it is given."""

    def __init__(self) -> None:
        super().__init__(NOWHERE)
        self.there: dict[tuple[str, str], Json] = {}

    def create(self, resource: Resource, body: Json, **_: Any) -> Json:
        assert (resource.kind, body["metadata"]["name"]) not in self.there
        self.there[resource.kind, body["metadata"]["name"]] = body
        return body

    def replace(self, resource: Resource, body: Json, **_: Any) -> Json:
        assert (resource.kind, body["metadata"]["name"]) in self.there
        self.there[resource.kind, body["metadata"]["name"]] = body
        return body

    def get(self, resource: Resource, name: str, *_: Any, **__: Any) -> Json | None:
        return self.there.get((resource.kind, name))

    def delete(self, resource: Resource, name: str, *_: Any, **__: Any) -> bool:
        return self.there.pop((resource.kind, name), None) is not None

    def merge(self, resource: Resource, name: str, patch: Json, *_: Any, **__: Any) -> Json:
        self.there[resource.kind, name]["spec"].update(patch["spec"])
        return self.there[resource.kind, name]

    def list(self, resource: Resource, *_: Any, **__: Any) -> Any:
        items = [body for (kind, _), body in self.there.items() if kind == resource.kind]
        return SimpleNamespace(items=items)


def test_an_ingress_is_made_changed_and_taken_away() -> None:
    api = Api()
    published = PublishedIngresses(api)
    for given in (cases.HOSTS, cases.SHORTENED):
        published.give(given)
    spec = api.there[INGRESS.kind, "hosts"]["spec"]
    assert [rule["host"] for rule in spec["rules"]] == [SECOND]
    assert spec["ingressClassName"] == cases.CLASS
    assert {one["secretName"] for one in spec["tls"]} == set(cases.HOSTS.secrets.values())
    assert published.addresses() == {"hosts": []}
    api.there[INGRESS.kind, "hosts"]["status"] = {"loadBalancer": {"ingress": [{"ip": "10.0.0.3"}, {"hostname": "a"}]}}
    assert published.addresses() == {"hosts": ["10.0.0.3", "a"]}
    published.take("hosts")
    assert api.there == {}


def test_paths_of_one_host_are_in_one_rule_and_no_class_is_none() -> None:
    api = Api()
    for given in cases.INGRESSES:
        PublishedIngresses(api).give(given)
    (rule,) = api.there[INGRESS.kind, "paths"]["spec"]["rules"]
    assert [path["pathType"] for path in rule["http"]["paths"]] == ["Prefix", "Prefix", "Exact"]
    assert "ingressClassName" not in api.there[INGRESS.kind, "classless"]["spec"]


def test_a_renewed_certificate_is_the_one_that_is_expected() -> None:
    api = Api()
    published = PublishedIngresses(api)
    published.certify(FIRST)
    before = published.certificates[FIRST]
    published.certify(FIRST)
    assert published.certificates[FIRST] != before
    assert set(api.there) == {(SECRET.kind, "first-certificate")}


def test_another_pod_can_stand_behind_a_service() -> None:
    api = Api()
    api.create(SERVICE, ingress._service(IDLE))
    PublishedIngresses(api).stand_behind(IDLE, BLUE)
    assert api.there[SERVICE.kind, IDLE]["spec"]["selector"] == {"app": BLUE}


def test_what_is_not_in_the_namespace_is_removed_too() -> None:
    api = Api()
    api.create(INGRESS_CLASS, ingress._other_class())
    ingress.remove(api, None)  # type: ignore[arg-type]
    assert api.there == {}


SECONDS = 5.0


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serve one connection; give the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def once() -> None:
            with server.accept()[0] as connection:
                serve(connection)

        thread = threading.Thread(target=once)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def test_a_page_is_asked_of_its_host() -> None:
    asked: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        asked.append(connection.recv(4096))
        connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nnone\n")

    with listening(serve) as port:
        answer = get_page("127.0.0.1", Page("one.example", "/a?b=c"), SECONDS, port)
    assert answer == WebAnswer(404, "none")
    assert asked[0].startswith(b"GET /a?b=c HTTP/1.1\r\n")
    assert b"\r\nHost: one.example\r\n" in asked[0]


def test_a_page_over_tls_comes_with_the_certificate_of_the_named_host(tmp_path: Path) -> None:
    made, named = begun("ca", ["one.example"], datetime.now(UTC)), []
    (tmp_path / "pair").write_bytes(made.certificate + made.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pair")
    context.sni_callback = lambda _, name, __: named.append(name)

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as wrapped:
            wrapped.recv(4096)
            wrapped.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nred\n")

    with listening(serve) as port:
        answer = get_page("127.0.0.1", Page("one.example", "/", secure=True), SECONDS, port)
    assert (answer.status, answer.text, named) == (200, "red", ["one.example"])
    assert x509.load_der_x509_certificate(answer.certificate) == x509.load_pem_x509_certificate(made.certificate)


def test_without_an_answer_the_reason_is_told() -> None:
    page = Page("one.example", "/")
    assert get_page("127.0.0.1", page, SECONDS, 1).error == "port 1 is refused"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert get_page("127.0.0.1", page, 0.1, silent.getsockname()[1]).error == "nothing came back in 0.1 s"
    with listening(lambda connection: connection.close()) as port:
        assert get_page("127.0.0.1", page, SECONDS, port).error.startswith("cut off: ")


def test_what_speaks_no_tls_is_cut_off() -> None:
    with serving(lambda _: True, b"plain") as place:
        port = int(place.rpartition(":")[2])
        assert get_page("127.0.0.1", Page("one.example", "/", secure=True), SECONDS, port).error.startswith("cut off: ")
