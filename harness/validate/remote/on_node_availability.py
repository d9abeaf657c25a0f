"""Runs on a guest's machine: asks addresses again and again, and prints one JSON line per answer until it is ended.

Each question has a connection of its own and a thread of its own, so that one that hangs does not hold up the others.
Ends by itself when its output is no longer read, or after `seconds`.
"""

from __future__ import annotations

import http.client
import json
import ssl
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

OK = 200
output = threading.Lock()
ended = threading.Event()


def tell(row: Mapping[str, Any]) -> None:
    """Print a line at once; end everything when nobody reads it."""
    with output:
        try:
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()
        except OSError:
            ended.set()


def answer(url: str, cafile: str, timeout: float) -> str:
    """Ask once; return "" for a 200, else in words what came instead."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    link: http.client.HTTPConnection
    try:
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=cafile)
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


def ask(question: Mapping[str, Any], started: float) -> None:
    """Ask until everything ends. Times are seconds since `started`, by a clock that is never set."""
    while not ended.is_set():
        began = time.monotonic()
        why = answer(question["url"], question.get("cafile", ""), question["timeout"])
        took = time.monotonic() - began
        tell({"of": question["name"], "at": round(began - started, 3), "took": round(took, 3), "why": why})
        ended.wait(max(0.0, question["interval"] - took))


def main(argv: Sequence[str]) -> None:
    """Ask everything.

    Args:
        argv: one JSON object: `seconds` after which to end, and `questions`, each with name, url, cafile (for https),
            timeout and interval in seconds.
    """
    asked = json.loads(argv[0])
    started = time.monotonic()
    tell({"started": time.time()})
    threads = [threading.Thread(target=ask, args=(q, started), daemon=True) for q in asked["questions"]]
    for thread in threads:
        thread.start()
    ended.wait(asked["seconds"])
    ended.set()


if __name__ == "__main__":
    main(sys.argv[1:])
