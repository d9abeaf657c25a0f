"""A browser outside of the cluster: asks one machine for a page of a named host, over HTTP or TLS."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException

from harness.validate.facts.ingress_cases import Page

HTTP, HTTPS = 80, 443


@dataclass(frozen=True)
class WebAnswer:
    """What a server answered, and the certificate that it showed (DER); `error` where it did not answer.

    error: says whether nobody listens (refused), nothing came back, or it was cut off.
    """

    status: int = 0
    text: str = ""
    certificate: bytes = b""
    error: str = ""


def fetched(address: str, page: Page, seconds: float, port: int = 0) -> WebAnswer:
    """Ask an address for a page on a connection of its own. Certificates are taken as they are, to be judged.

    Args:
        port: another than the usual one of HTTP or HTTPS.
    """
    port = port or (HTTPS if page.secure else HTTP)
    try:
        with socket.create_connection((address, port), timeout=seconds) as plain:
            if not page.secure:
                return _asked(plain, page, b"")
            with _undemanding().wrap_socket(plain, server_hostname=page.host) as wrapped:
                return _asked(wrapped, page, wrapped.getpeercert(binary_form=True) or b"")
    except ConnectionRefusedError:
        return WebAnswer(error=f"port {port} is refused")
    except TimeoutError:
        return WebAnswer(error=f"nothing came back in {seconds:g} s")
    except (OSError, HTTPException) as error:
        return WebAnswer(error=f"cut off: {error or type(error).__name__}")


def _asked(connection: socket.socket, page: Page, certificate: bytes) -> WebAnswer:
    client = HTTPConnection(page.host)
    client.sock = connection
    client.request("GET", page.path, headers={"Connection": "close"})
    answer = client.getresponse()
    return WebAnswer(answer.status, answer.read().decode(errors="replace").strip(), certificate)


def _undemanding() -> ssl.SSLContext:
    """Return a context that believes every certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
