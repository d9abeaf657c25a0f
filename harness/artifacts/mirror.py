"""The mirror: programs and disk images from the cache over plain HTTP, for machines that reach nothing else.

    GET /healthz                          "ok"
    GET /bin/NAME/VERSION/FILE            one file of an artifact
    GET /bin/NAME/VERSION/NAME.tar        all its files at top level, mode 0755, made while it is sent
    GET /images/FILE                      a disk image
    GET /images/NAME.qcow2                the newest disk image of that name, for people
    GET /images/NAME.json                 what it was made for, for runs that cannot make it
    GET /files/KEY/PATH                   a file of a product, as the index KEY in the cache says where it lies
    GET /client                           the address that the request came from

Whatever else is asked for is refused, and nothing that is sent is kept. No link leads out of the cache; what an index
names may lie anywhere, and is served only as long as it is what it was when the index was written.

Run as `python -m harness.artifacts.mirror --listen HOST:PORT --root CACHE`. It imports nothing but the standard
library: it starts in a blink and stays small. It never makes an artifact; what is not in the cache is not found.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import socket
import sys
import tarfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

KEY = re.compile(r"[0-9a-f]{16}")
DIGEST = re.compile(r"-[0-9a-f]{12}")  # how the file of a disk image ends, after its name
DISK, RECORD = ".qcow2", ".json"
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
IDLE_SECONDS = 60.0  # without a byte from or to a guest
UNREAD_BYTES = 65536  # of a body that is refused
Piece = bytes | Path


@dataclass(frozen=True)
class Body:
    """What is sent: pieces in order (bytes, or files to copy), and their total length in bytes."""

    pieces: Sequence[Piece]
    length: int


def find(root: Path, url_path: str) -> Body | None:
    """Return what a path of the mirror means; None when there is nothing.

    Args:
        root: the cache directory (with `artifacts` and `images` in it).
        url_path: the path of a request, percent-encoded.
    """
    words = unquote(urlsplit(url_path).path).strip("/").split("/")
    if words[0] == "files" and len(words) > 2 and KEY.fullmatch(words[1]):
        return _listed(root / "files" / f"{words[1]}.json", "/".join(words[2:]))
    if not all(WORD.fullmatch(word) for word in words):
        return None
    match words:
        case ["healthz"]:
            return Body([b"ok\n"], 3)
        case ["images", name]:
            images = root / "images"
            kind = RECORD if name.endswith(RECORD) else DISK
            return _file(images / name, images) or _newest(name.removesuffix(kind), kind, images)
        case ["bin", name, version, file]:
            artifacts = root / "artifacts"
            files = artifacts / name / version / "current" / "files"
            return _file(files / file, artifacts) or (archive_of(files, artifacts) if file == f"{name}.tar" else None)
        case _:
            return None


def _listed(index: Path, path: str) -> Body | None:
    """Return a file or a text of an index; None when it has none of that path, or the file has changed since."""
    if not index.is_file():
        return None
    known = json.loads(index.read_text(encoding="utf-8"))
    if path in known["texts"]:
        raw = known["texts"][path].encode()
        return Body([raw], len(raw))
    entry = known["files"].get(path)
    if entry is None:
        return None
    source = Path(entry["source"])
    status = source.stat() if source.is_file() else None
    if status is None or (status.st_size, status.st_mtime_ns) != (entry["size"], entry["changed"]):
        print(f"{source} is gone or has changed: run vmatrix again", file=sys.stderr, flush=True)  # noqa: T201 - a log
        return None
    return Body([source], status.st_size)


def _inside(path: Path, root: Path) -> bool:
    """Tell whether a path is a file below a folder, links followed."""
    return path.is_file() and path.resolve().is_relative_to(root.resolve())


def _file(path: Path, root: Path) -> Body | None:
    return Body([path], path.stat().st_size) if _inside(path, root) else None


def _newest(name: str, kind: str, images: Path) -> Body | None:
    """Return the disk image of a name that was made last, or its record."""
    disks = [path for path in images.glob(f"{name}-*{kind}") if DIGEST.fullmatch(path.stem.removeprefix(name))]
    return _file(max(disks, key=lambda path: path.stat().st_mtime_ns), images) if disks else None


def archive_of(folder: Path, root: Path) -> Body | None:
    """Describe a tar archive of a folder without reading its files: headers and padding as bytes, contents as files."""
    if not folder.is_dir():
        return None
    pieces: list[Piece] = []
    total = 0
    for path in sorted(path for path in folder.iterdir() if _inside(path, root)):
        entry = tarfile.TarInfo(path.name)
        entry.mode, entry.size = 0o755, path.stat().st_size
        header = entry.tobuf(tarfile.USTAR_FORMAT)
        padding = bytes(-entry.size % tarfile.BLOCKSIZE)
        pieces += [header, path, padding]
        total += len(header) + entry.size + len(padding)
    end = bytes(tarfile.BLOCKSIZE * 2)
    return Body([*pieces, end], total + len(end))


class MirrorHandler(BaseHTTPRequestHandler):
    """Answers GET and HEAD."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    root: Path

    def do_GET(self) -> None:
        """Answer with headers, and a GET with a body."""
        own = f"{self.client_address[0]}\n".encode()
        body = Body([own], len(own)) if self.path == "/client" else find(self.root, self.path)
        status = HTTPStatus.OK if body is not None else HTTPStatus.NOT_FOUND
        text = f"nothing at {urlsplit(self.path).path}\n".encode()
        body = body if body is not None else Body([text], len(text))
        self.send_response(status)
        self.send_header("Content-Length", str(body.length))
        self.send_header("Content-Type", "application/octet-stream")
        self.end_headers()
        if self.command == "GET":
            for piece in body.pieces:
                self._send(piece)

    do_HEAD = do_GET  # noqa: N815 - http.server's name

    def refuse(self) -> None:
        """Answer that the mirror only reads, and end the connection: what was to be written may still be coming.

        A short body is read first: a connection that is closed with something unread is reset, and the answer lost.
        """
        length = self.headers.get("Content-Length", "")
        if length.isdigit() and "Expect" not in self.headers:
            self.rfile.read(min(int(length), UNREAD_BYTES))
        text = f"{self.command} is not allowed: this mirror only serves files, by GET and HEAD\n".encode()
        self.send_response(HTTPStatus.METHOD_NOT_ALLOWED)
        for name, value in (("Allow", "GET, HEAD"), ("Connection", "close"), ("Content-Length", str(len(text)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Return what answers any other method: http.server looks for `do_` and its name."""
        if name.startswith("do_"):
            return self.refuse
        raise AttributeError(name)

    def handle_expect_100(self) -> bool:
        """Refuse a body before it is sent."""
        if self.command in {"GET", "HEAD"}:
            return super().handle_expect_100()
        self.refuse()
        return False

    def _send(self, piece: Piece) -> None:
        if isinstance(piece, bytes):
            self.wfile.write(piece)
            return
        self.wfile.flush()
        with piece.open("rb") as content:
            self.connection.sendfile(content)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log what was not found; what was found is not news."""
        if code != HTTPStatus.OK:
            super().log_request(code, size)


class MirrorServer(ThreadingHTTPServer):
    """A server whose threads do not keep it from ending, and which takes a client that went away for what it is."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Say in one line what went wrong with a connection."""
        print(f"{client_address}: {sys.exception()!r}", file=sys.stderr, flush=True)  # noqa: T201 - a service's log


class MirrorServerOfIPv6(MirrorServer):
    """The same at an IPv6 address."""

    address_family = socket.AF_INET6


def server(address: str, root: Path) -> MirrorServer:
    """Return a mirror that is bound to `address` and not serving yet. Raises OSError when it is taken.

    Args:
        address: host:port; an IPv6 address stands in brackets.
    """
    host, _, port = address.rpartition(":")
    handler = type("CacheHandler", (MirrorHandler,), {"root": root})
    kind = MirrorServerOfIPv6 if host.startswith("[") else MirrorServer
    return kind((host.strip("[]"), int(port)), handler)


def mirror_argv(address: str, root: Path) -> tuple[str, ...]:
    """Return the command that serves a cache directory at `address` (host:port) until SIGTERM."""
    return (sys.executable, "-P", "-m", "harness.artifacts.mirror", "--listen", address, "--root", str(root))


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="mirror", description="serve artifacts and disk images over HTTP")
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    parser.add_argument("--root", required=True, type=Path, metavar="CACHE")
    options = parser.parse_args(argv)
    try:
        mirror = server(options.listen, options.root)
    except OSError as error:
        print(f"cannot listen on {options.listen}: {error}", file=sys.stderr)  # noqa: T201 - a service's log
        return 1

    def end(number: int, _frame: object) -> None:
        threading.Thread(target=mirror.shutdown, daemon=True).start()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    with mirror:
        mirror.serve_forever(poll_interval=0.2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
