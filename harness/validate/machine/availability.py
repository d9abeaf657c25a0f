"""Sends HTTP requests to addresses again and again, and prints one JSON line per request until it is stopped.

Each address has its own thread, and each request its own connection, so that one that hangs does not delay others.
Stops by itself when its output is no longer read, or after `seconds`.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import ssl
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from harness.validate.machine.library import trusting

OK = 200
PORTS = {"http": 80, "https": 443}
output = threading.Lock()
ended = threading.Event()


def tell(row: Mapping[str, Any]) -> None:
    """Print a line at once; stop everything when nobody reads it."""
    with output:
        try:
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()
        except OSError:
            ended.set()


def answer(url: str, cafile: str, timeout: float) -> str:
    """Send one request; return "" for a 200, else what came instead."""
    parts = urlsplit(url)
    # without a port, http.client takes one from the end of an IPv6 address
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    link: http.client.HTTPConnection
    try:
        if parts.scheme == "https":
            context = trusting_file(cafile)
            link = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
        else:
            link = http.client.HTTPConnection(host, port, timeout=timeout)
        try:
            link.request("GET", parts.path)
            status = link.getresponse().status
        finally:
            link.close()
    except (OSError, http.client.HTTPException) as error:
        return f"{type(error).__name__}: {error}"[:200]
    return "" if status == OK else f"status {status}"


def trusting_file(cafile: str) -> ssl.SSLContext:
    """Return what trusts a CA: that of a file of certificates, or the one that a kubeconfig holds."""
    with open(cafile, encoding="utf-8", errors="replace") as file:
        held = re.search(r"certificate-authority-data:\s*(\S+)", file.read())
    if held is None:
        return trusting(cafile=cafile)
    return trusting(cadata=base64.b64decode(held.group(1)).decode())


def repeat(request: Mapping[str, Any], started: float) -> None:
    """Send requests until everything stops. Times are seconds since `started`, on the monotonic clock."""
    while not ended.is_set():
        began = time.monotonic()
        why = answer(request["url"], request.get("cafile", ""), request["timeout"])
        took = time.monotonic() - began
        tell({"of": request["name"], "at": round(began - started, 3), "took": round(took, 3), "why": why})
        ended.wait(max(0.0, request["interval"] - took))


def main(argv: Sequence[str]) -> None:
    """Send all requests.

    Args:
        argv: one JSON object: `seconds` after which to stop, and `requests`, each with name, url, cafile (for https),
            timeout and interval in seconds.
    """
    options = json.loads(argv[0])
    started = time.monotonic()
    tell({"started": time.time()})
    threads = [threading.Thread(target=repeat, args=(r, started), daemon=True) for r in options["requests"]]
    for thread in threads:
        thread.start()
    ended.wait(options["seconds"])
    ended.set()


if __name__ == "__main__":
    main(sys.argv[1:])
