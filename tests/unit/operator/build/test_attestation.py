"""What an image is made of, and how it was built."""

from __future__ import annotations

import gzip
import io
import tarfile

import pytest

from harness.operator.build import attestation, oci
from harness.operator.build.attestation import Contents, Package
from harness.until import Deadline
from tests.unit.operator.build.registries import Registry, played

DPKG = (
    "Package: bash\nStatus: install ok installed\nVersion: 5.2-1\n\nPackage: old\nStatus: not-installed\nVersion: 1\n"
)
APK = "P:musl\nV:1.2.5\n\nP:busybox\nV:1.37\n"


def layer(files: dict[str, str], *, compressed: bool = False) -> bytes:
    """Return a layer."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as stream:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            stream.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(raw.getvalue()) if compressed else raw.getvalue()


SOURCES = {
    "Debian": ({"var/lib/dpkg/status": DPKG}, ["pkg:deb/bash@5.2-1"]),
    "Debian without a shell": ({"./var/lib/dpkg/status.d/bash": DPKG}, ["pkg:deb/bash@5.2-1"]),
    "Alpine": ({"lib/apk/db/installed": APK}, ["pkg:apk/busybox@1.37", "pkg:apk/musl@1.2.5"]),
    "Python": (
        {"usr/lib/python3/dist-packages/a_b-1.0.dist-info/METADATA": "Name: A_b\nVersion: 1.0+x\n\nVersion: 9\n"},
        ["pkg:pypi/a-b@1.0%2Bx"],
    ),
    "nothing": ({"etc/passwd": "x"}, []),
}


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("source", SOURCES)
def test_packages_are_found(source: str, compressed: bool) -> None:
    files, expected = SOURCES[source]
    contents = Contents()
    contents.add(layer(files, compressed=compressed))
    assert [one.purl for one in contents.all()] == expected


UPPER = {
    "replaced": ({"lib/apk/db/installed": "P:a\nV:2\n"}, ["a@2", "b@1"]),
    "removed": ({"lib/apk/db/.wh.installed": ""}, ["b@1"]),
    "removed with its folder": ({"srv/.wh.b-1.dist-info": ""}, ["a@1"]),
    "hidden": ({"srv/.wh..wh..opq": ""}, ["a@1"]),
}


@pytest.mark.parametrize("case", UPPER)
def test_an_upper_layer_changes_what_is_below(case: str) -> None:
    files, expected = UPPER[case]
    contents = Contents()
    below = {"lib/apk/db/installed": "P:a\nV:1\n", "srv/b-1.dist-info/METADATA": "Name: b\nVersion: 1\n"}
    for each in (below, files):
        contents.add(layer(each))
    assert [f"{one.name}@{one.version}" for one in contents.all()] == expected


def test_a_layer_that_cannot_be_read_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = played(monkeypatch, Registry())
    repository = oci.Repository("r.test", "app", Deadline.after(60))
    good = layer({"lib/apk/db/installed": APK})
    for content in (good, b"zstd"):
        repository.put_blob(content)
    manifest = {"layers": [oci.descriptor("x", good), oci.descriptor("x", b"zstd")]}
    contents = attestation.contents_of(repository, manifest)
    assert registry.requests
    assert contents.unread == [oci.digest_of(b"zstd")]
    assert len(contents.all()) == 2
    bom = attestation.sbom(contents, f"r.test/app@{oci.digest_of(good)}", "2026-01-01T00:00:00Z")
    assert bom["metadata"]["properties"] == [{"name": "vmatrix:unread-layer", "value": oci.digest_of(b"zstd")}]
    assert bom["metadata"]["timestamp"] == "2026-01-01T00:00:00Z"


def test_an_image_of_several_platforms_is_described_by_its_first(monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch, Registry())
    repository = oci.Repository("r.test", "app", Deadline.after(60))
    content = layer({"lib/apk/db/installed": APK})
    repository.put_blob(content)
    raw = oci.document({"mediaType": oci.MANIFEST, "layers": [oci.descriptor("x", content)]})
    inner = oci.digest_of(raw)
    repository.put_content(inner, raw, oci.MANIFEST)
    index = {"mediaType": oci.INDEX, "manifests": [{"digest": inner}]}
    assert len(attestation.contents_of(repository, index).all()) == 2


def test_provenance_names_the_revision_and_the_base_images() -> None:
    base = f"r.test/base:1@sha256:{'b' * 64}"
    asked = {"source": {"git": "https://git.test/app"}, "build": {"image": "r.test/app"}}
    image = f"r.test/app@sha256:{'a' * 64}"
    made = attestation.provenance(image, asked=asked, revision="1" * 40, bases=[base], made="2026-01-01T00:00:00Z")
    assert made["subject"] == [{"name": "r.test/app", "digest": {"sha256": "a" * 64}}]
    git, below = made["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert git == {"uri": "git+https://git.test/app", "digest": {"gitCommit": "1" * 40}}
    assert below == {"uri": "pkg:docker/r.test/base:1", "digest": {"sha256": "b" * 64}}


def test_a_purl_has_no_character_of_its_own() -> None:
    assert Package("deb", "g++", "1:2~3").purl == "pkg:deb/g%2B%2B@1%3A2~3"
