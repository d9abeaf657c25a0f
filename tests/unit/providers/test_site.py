"""Where a site's disk images come from: whatever the provider is, from the mirror that the settings name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Literal

import pytest

from harness import paths, providers
from harness.artifacts import disk
from harness.artifacts.disk.cache import CachedImage, ImageCache
from harness.errors import BadInput
from harness.model import Mirror
from harness.spec.models import UrlSource
from harness.spec.settings import Settings

IMAGE = "debian-13-genericcloud"
MIRROR = Mirror("http://own-mirror", "registry:5000")
SHA512 = "b" * 128


@pytest.fixture
def shelf() -> Iterator[tuple[str, dict[str, bytes]]]:
    """Serve files on loopback: the address, and the files by path."""
    files: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            self.send_response(200 if self.path in files else 404)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(files.get(self.path, b""))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", files
    server.shutdown()
    server.server_close()
    thread.join()


def published() -> UrlSource:
    source = disk.load(paths.project_dir() / "matrix" / "images.yml").find(IMAGE).source
    assert isinstance(source, UrlSource)
    return source


def settings(url: str, provider: Literal["embedded", "kind", "kubeconfig"] = "kubeconfig") -> Settings:
    folder = published().url.rpartition("/")[0]
    return Settings(
        provider=provider, image_mirror=f"{folder}={url}", image_mirror_credentials="l", image_mirror_certificates="c"
    )


@pytest.mark.parametrize("provider", ["embedded", "kind", "kubeconfig"])
def test_an_image_is_imported_from_the_mirror_with_the_checksum_of_its_list(
    shelf: tuple[str, dict[str, bytes]], provider: Literal["embedded", "kind", "kubeconfig"]
) -> None:
    url, files = shelf
    name = published().url.rpartition("/")[2]
    files |= {f"/{name}": b"", "/SHA512SUMS": f"{SHA512}  {name}\n".encode()}
    found = providers.golden_image(settings(url, provider), IMAGE, MIRROR, progress=lambda _: None)
    assert (found.url, found.checksum) == (f"{url}/{name}", f"sha512:{SHA512}")
    assert (found.credentials, found.certificates) == ("l", "c")


def test_a_mirror_that_lacks_the_image_is_bad_input_before_anything_is_made(
    shelf: tuple[str, dict[str, bytes]],
) -> None:
    with pytest.raises(BadInput, match=f"image_mirror lacks a file of image {IMAGE}"):
        providers.golden_image(settings(shelf[0]), IMAGE, MIRROR, progress=lambda _: None)


def test_the_doctor_names_what_the_mirror_lacks_and_says_nothing_without_one(
    shelf: tuple[str, dict[str, bytes]],
) -> None:
    url, files = shelf
    files["/SHA512SUMS"] = b""
    found = providers.image_findings(settings(url))
    assert [(each.what.partition(" ")[2], each.fatal) for each in found] == [("answers 404 Not Found", False)]
    assert IMAGE in found[0].why
    assert providers.image_findings(Settings()) == []


def test_a_disk_image_that_vmatrix_builds_is_taken_from_somebody_elses_mirror(
    shelf: tuple[str, dict[str, bytes]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url, files = shelf
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    entry = disk.load(paths.project_dir() / "matrix" / "images.yml").find("debian-13")
    made = CachedImage(entry.name, "debian-13-0123456789ab.qcow2", ImageCache().key(entry), "0" * 64, 10, 20, 1.0)
    files["/images/debian-13.json"] = json.dumps(asdict(made)).encode()
    found = providers.golden_image(
        Settings(provider="kubeconfig"), entry.name, Mirror(url, "registry:5000"), progress=lambda _: None
    )
    assert found.url == f"{url}/images/debian-13-0123456789ab.qcow2"
    assert found.checksum == f"sha256:{'0' * 64}"
