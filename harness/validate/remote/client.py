"""A client outside of the cluster: this process, where it reaches the machines' network by itself."""

from __future__ import annotations

from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException

OK = 200


@dataclass(frozen=True)
class OutsideAnswer:
    """What a server answered, and the client's own address in that connection; `error` where it did not."""

    text: str = ""
    own: str = ""
    error: str = ""


def asked(address: str, port: int, path: str, seconds: float) -> OutsideAnswer:
    """Send one GET request on a connection of its own."""
    connection = HTTPConnection(address, port, timeout=seconds)
    try:
        connection.connect()
        own = str(connection.sock.getsockname()[0])
        connection.request("GET", f"/{path}")
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace").strip()
    except (OSError, HTTPException) as error:
        return OutsideAnswer(error=str(error) or type(error).__name__)
    finally:
        connection.close()
    if answer.status != OK:
        return OutsideAnswer(own=own, error=f"{answer.status}: {text[:200]}")
    return OutsideAnswer(text, own)
