"""A catalogue, and a release site on loopback that serves what a test puts into it and counts what is asked of it."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness.artifacts.catalogue import Catalogue

TIME = "2026-12-16T10:00:00Z"
Publish = Callable[..., None]


@dataclass
class Site:
    """What the site serves, by path; `announced` overrides the length it claims; `held` paths wait after half."""

    url: str
    content: dict[str, bytes] = field(default_factory=dict)
    announced: dict[str, int] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    release: threading.Event = field(default_factory=threading.Event)
    reached_half: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)

    def offer(self, path: str, content: bytes) -> None:
        """Serve a file and, as most release sites do, its digest beside it."""
        self.content[path] = content
        self.content[f"{path}.sha256"] = f"{hashlib.sha256(content).hexdigest()}  {path.rpartition('/')[2]}\n".encode()


@pytest.fixture
def catalogue() -> Catalogue:
    """Return one of a plain program, two programs of one archive, and one that no site publishes."""

    def gomod(*files: str) -> dict[str, Any]:
        return {"module": "none", "packages": {file: f"example.invalid/{file}" for file in files}, "seconds": 1}

    def etcd(*files: str) -> dict[str, Any]:
        return {
            "base": "https://hub.example/etcd-io",
            "url": "v{version}/etcd-v{version}-linux-{arch}.tar.gz",
            "checksum_url": "v{version}/SHA256SUMS",
            "members": {file: f"etcd-v{{version}}/{file}" for file in files},
        }

    tests = {"versions": "kubernetes", "gomod": gomod("e2e.test")}
    client = {
        "versions": "kubernetes",
        "gomod": gomod("kubectl"),
        "release": {
            "base": "https://dl.example",
            "url": "v{version}/{name}",
            "checksum_url": "v{version}/{name}.sha256",
            "bare": True,
        },
    }
    return Catalogue.model_validate(
        {
            "kubernetes": {
                "1.36.3": {"etcd": "3.6.8", "images": {"pause": "3.10.2"}},
                "1.36.1": {"etcd": "3.6.8", "images": {"pause": "3.10.2"}},
                "1.35.4": {"etcd": "3.6.6", "images": {"pause": "3.10.1"}},
            },
            "modules": {},
            "programs": {
                "e2e.test": tests,
                "ginkgo": tests,
                "kubectl": client,
                "kubelet": {**client, "gomod": gomod("kubelet")},
                "etcd": {"versions": ["3.6.8", "3.6.6"], "gomod": gomod("etcd", "etcdctl"), "release": etcd("etcd")},
                "etcdutl": {"versions": ["3.6.8", "3.6.6"], "gomod": gomod("etcdutl"), "release": etcd("etcdutl")},
                "flannel": {"versions": ["0.28.4"], "gomod": gomod("flanneld")},
            },
            "images": {
                "kube-proxy": {"tags": "kubernetes"},
                "pause": {"tags": {"3.10.2": "", "3.10.1": ""}},
                "coredns": {"tags": {"v1.14.2": ""}},
                "e2e-test-images/agnhost": {"tags": {"2.63.0": ""}},
            },
        }
    )


@pytest.fixture
def site() -> Iterator[Site]:
    """Yield a running site; it ends with the test."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200 if self.path in found.content else 404)
            self.end_headers()

        def do_GET(self) -> None:
            found.asked.append(self.path)
            content = found.content.get(self.path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(found.announced.get(self.path, len(content))))
            self.end_headers()
            half = len(content) // 2
            self.wfile.write(content[:half])
            if self.path in found.held:
                self.wfile.flush()
                found.reached_half.set()
                found.release.wait(30)
            self.wfile.write(content[half:])

        def log_message(self, *args: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            return

    with Server(("127.0.0.1", 0), Handler) as server:
        found = Site(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield found
        found.release.set()
        server.shutdown()
        thread.join()


def archive(members: dict[str, bytes]) -> bytes:
    """Return a gzipped tar archive."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as stream:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            stream.addfile(entry, io.BytesIO(content))
    return raw.getvalue()


@pytest.fixture
def small() -> Catalogue:
    """Return a catalogue of one plain file and one archive, from a site at http://site."""
    gomod = {"module": "none", "packages": {"tool": "example.invalid/tool"}, "seconds": 1}
    return Catalogue.model_validate(
        {
            "kubernetes": {},
            "modules": {},
            "images": {},
            "programs": {
                "tool": {
                    "versions": ["1.2.3"],
                    "gomod": gomod,
                    "release": {
                        "base": "http://site",
                        "url": "v{version}/{name}",
                        "checksum_url": "v{version}/{name}.sha256",
                    },
                },
                "pair": {
                    "versions": ["4.5.6"],
                    "gomod": gomod,
                    "release": {
                        "base": "http://site",
                        "url": "pair-{version}.tgz",
                        "checksum_url": "pair-{version}.tgz.sha256",
                        "members": {"left": "pair-{version}/bin/left", "right": "pair-{version}/bin/right"},
                    },
                },
            },
        }
    )


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Return what puts versions of a module into a module proxy of files, of which nobody else knows."""
    proxy = tmp_path / "proxy"
    monkeypatch.setenv("GOPROXY", proxy.as_uri())
    monkeypatch.setenv("GOSUMDB", "off")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def put(path: str, *versions: str, files: dict[Path, str] | None = None, time: str = TIME) -> None:
        folder = proxy / path / "@v"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "list").open("a", encoding="utf-8") as listing:
            for version in versions:
                listing.write(f"v{version}\n")
                (folder / f"v{version}.info").write_text(json.dumps({"Version": f"v{version}", "Time": TIME}))
                (folder / f"v{version}.mod").write_text(f"module {path}\n\ngo 1.21\n")
                with zipfile.ZipFile(folder / f"v{version}.zip", "w") as archive:
                    archive.writestr(f"{path}@v{version}/go.mod", f"module {path}\n\ngo 1.21\n")
                    for name, text in (files or {}).items():
                        archive.writestr(f"{path}@v{version}/{name}", text)

    return put
