"""A browser outside: an answer, a refusal, silence and what is cut off are told apart; certificates are taken along."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from harness.kube.serving import begun
from harness.validate.facts.ingress_cases import Page
from harness.validate.remote.web import WebAnswer, fetched
from tests.unit.playbooks.mirror import serving

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
        answer = fetched("127.0.0.1", Page("one.example", "/a?b=c"), SECONDS, port)
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
        answer = fetched("127.0.0.1", Page("one.example", "/", secure=True), SECONDS, port)
    assert (answer.status, answer.text, named) == (200, "red", ["one.example"])
    assert x509.load_der_x509_certificate(answer.certificate) == x509.load_pem_x509_certificate(made.certificate)


def test_without_an_answer_the_reason_is_told() -> None:
    page = Page("one.example", "/")
    assert fetched("127.0.0.1", page, SECONDS, 1).error == "port 1 is refused"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert fetched("127.0.0.1", page, 0.1, silent.getsockname()[1]).error == "nothing came back in 0.1 s"
    with listening(lambda connection: connection.close()) as port:
        assert fetched("127.0.0.1", page, SECONDS, port).error.startswith("cut off: ")


def test_what_speaks_no_tls_is_cut_off() -> None:
    with serving(lambda _: True, b"plain") as place:
        port = int(place.rpartition(":")[2])
        assert fetched("127.0.0.1", Page("one.example", "/", secure=True), SECONDS, port).error.startswith("cut off: ")
