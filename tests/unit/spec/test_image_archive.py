"""Archives of images: what they say of themselves, and what is wrong with broken ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from harness.spec.image_archive import look
from tests.image_archives import docker_files, oci_files, write_layout, write_tar

NAME, REF = "io.containerd.image.name", "org.opencontainers.image.ref.name"


@pytest.mark.parametrize(
    ("tags", "name"),
    [
        (["registry.example:5000/our/agent:1.2"], "our/agent:1.2"),
        (["docker.io/library/nginx:1"], "library/nginx:1"),
        (["our/agent:1.2"], "our/agent:1.2"),
        (["agent:1.2"], "agent:1.2"),
        ([], ""),
        (["a:1", "b:1"], ""),
    ],
)
def test_a_docker_archive_says_what_its_image_is_called(tmp_path: Path, tags: list[str], name: str) -> None:
    found = look(write_tar(tmp_path / "a.tar", docker_files(*tags)))
    assert (found.form, found.name, found.digest) == ("docker", name, "")


@pytest.mark.parametrize(
    ("notes", "name"),
    [({NAME: "docker.io/our/agent:1.2", REF: "1.2"}, "our/agent:1.2"), ({REF: "1.2"}, ""), ({REF: "a/b:1"}, "a/b:1")],
)
def test_an_oci_layout_says_it_in_its_index(tmp_path: Path, notes: dict[str, str], name: str) -> None:
    files = oci_files(notes)
    packed, folder = look(write_tar(tmp_path / "a.tar", files)), look(write_layout(tmp_path / "layout", files))
    assert (packed.form, folder.form) == ("oci", "layout")
    assert packed.name == folder.name == name
    assert packed.digest == folder.digest
    assert packed.digest.startswith("sha256:")


def test_names_in_an_archive_may_begin_with_a_dot(tmp_path: Path) -> None:
    files = {f"./{name}": content for name, content in oci_files({REF: "a:1"}).items()}
    assert look(write_tar(tmp_path / "a.tar", files)).name == "a:1"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"x": b""}, "is broken: it lacks index.json"),
        ({"manifest.json": b"{"}, "manifest.json is no JSON"),
        (docker_files("a:1", images=2), "has 2 images; it needs to have one"),
        (
            {k: v for k, v in docker_files("a:1").items() if k != "layer.tar"},
            "lacks layer.tar, which manifest.json names",
        ),
        (oci_files(more=[{}]), "has 2 images"),
        (oci_files(kind="application/vnd.oci.image.index.v1+json"), "for several platforms"),
        ({"index.json": oci_files()["index.json"]}, "it lacks blobs/sha256/"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, files: dict[str, bytes], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        look(write_tar(tmp_path / "a.tar", files))


def test_what_is_no_archive_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        look(tmp_path / "none.tar")
    (tmp_path / "text.tar").write_text("text")
    with pytest.raises(ValueError, match="is no uncompressed tar archive"):
        look(tmp_path / "text.tar")
    packed = write_tar(tmp_path / "a.tar", docker_files("a:1"))
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(packed.read_bytes()))
    with pytest.raises(ValueError, match="is no uncompressed tar archive"):
        look(tmp_path / "a.tar.gz")
