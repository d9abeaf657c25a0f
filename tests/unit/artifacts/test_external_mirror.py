"""What somebody else's mirror and registry have already: asked by HEAD, and believed only where they answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from harness.artifacts import external_mirror, mirror
from harness.artifacts.disk.cache import CachedImage
from harness.artifacts.recipe import Ref
from harness.model import Mirror
from tests.unit.artifacts.served import served_by

MADE = CachedImage("debian-13", "debian-13-0123456789ab.qcow2", "recipe:one", "0123456789ab" * 5, 10, 20, 1.0)
NOWHERE = "127.0.0.1:1"
PROGRAM, OTHER = Ref("containerd", "2.4.2"), Ref("runc", "1.4.0")
IMAGE, OTHER_IMAGE = Ref("image/pause", "3.10"), Ref("image/coredns", "v1.12.0")
EVERYTHING = [PROGRAM, OTHER, IMAGE, OTHER_IMAGE]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Return a cache with a program and a disk image."""
    files = tmp_path / "artifacts" / PROGRAM.name / PROGRAM.version / "gomod-0123456789ab" / "files"
    files.mkdir(parents=True)
    (files / "containerd").write_bytes(b"c")
    (files.parent.parent / "current").symlink_to("gomod-0123456789ab")
    images = tmp_path / "images"
    images.mkdir()
    (images / MADE.file).write_bytes(b"q" * 10)
    (images / "debian-13-0123456789ab.json").write_text(json.dumps(asdict(MADE)), encoding="utf-8")
    return tmp_path


@pytest.fixture
def address(cache: Path) -> Iterator[str]:
    yield from served_by(mirror.server("127.0.0.1:0", cache))


@pytest.fixture
def registry() -> Iterator[str]:
    """Serve what a registry with one image answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            known = self.path == "/v2/pause/manifests/3.10"
            self.send_response(200 if known else 404)
            if known:
                self.send_header("Docker-Content-Digest", "sha256:0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            return

    yield from served_by(ThreadingHTTPServer(("127.0.0.1", 0), Handler))


def test_only_what_they_lack_is_left(address: str, registry: str) -> None:
    assert external_mirror.missing_artifacts(Mirror(f"http://{address}", registry), EVERYTHING) == [OTHER, OTHER_IMAGE]


def test_those_that_do_not_answer_have_nothing(address: str, registry: str) -> None:
    assert external_mirror.missing_artifacts(Mirror(f"http://{NOWHERE}", NOWHERE), EVERYTHING) == EVERYTHING
    assert external_mirror.missing_artifacts(Mirror(f"http://{address}", NOWHERE), EVERYTHING) == [
        OTHER,
        IMAGE,
        OTHER_IMAGE,
    ]
    assert external_mirror.missing_artifacts(Mirror(f"http://{NOWHERE}", registry), EVERYTHING) == [
        PROGRAM,
        OTHER,
        OTHER_IMAGE,
    ]


def test_a_disk_image_counts_if_it_was_made_of_the_same_recipe(address: str) -> None:
    images = f"http://{address}/images"
    assert external_mirror.disk_image(images, "debian-13", "recipe:one") == MADE
    assert external_mirror.disk_image(images, "debian-13", "recipe:two") is None
    assert external_mirror.disk_image(images, "debian-12", "recipe:one") is None
    assert external_mirror.disk_image(f"http://{NOWHERE}/images", "debian-13", "recipe:one") is None


def test_a_site_without_records_has_no_disk_image(address: str, cache: Path) -> None:
    (cache / "images" / "debian-13-0123456789ab.json").write_text("[]", encoding="utf-8")
    assert external_mirror.disk_image(f"http://{address}/images", "debian-13", "recipe:one") is None
