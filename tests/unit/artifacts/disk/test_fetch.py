"""The checksum of a published image, from the list beside it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from harness.artifacts.disk import fetch
from harness.artifacts.download import trouble
from harness.errors import BadInput, InfraRetriable
from harness.spec.image_mirror import ImageMirror
from harness.spec.models import DiskImage, UrlSource
from tests.unit.artifacts.disk.conftest import Site

PATH = "/a.qcow2"


def test_a_list_without_the_image_is_an_error(site: Site) -> None:
    site.files["/SUMS"] = b"0123  other.qcow2\n"
    source = UrlSource(kind="url", url=site.url + PATH, checksum_url=f"{site.url}/SUMS")
    with pytest.raises(BadInput, match=r"/SUMS lists no checksum of a.qcow2; it has no SHA-256 or SHA-512 checksum"):
        fetch.checksum(source)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("".join(f"{n:064x}  image-{n}.qcow2\n" for n in range(10)), "it has image-0.qcow2, image-1.qcow2, "),
        ("".join(f"{n:064x}  image-{n}.qcow2\n" for n in range(10)), "image-7.qcow2 and 2 more"),
        ("<html><title>Log in</title></html>", "it has no SHA-256 or SHA-512 checksum at all"),
        ("", "it has no SHA-256 or SHA-512 checksum at all"),
        (f"{'a' * 32}  a.qcow2\n", "it has no SHA-256 or SHA-512 checksum at all"),
        (f"{'a' * 64}  x/a.qcow2\n{'b' * 64}  y/a.qcow2\n", "several checksums of a.qcow2 that differ: x/a.qcow2, y/a"),
    ],
)
def test_a_list_that_does_not_say_it_is_the_users(site: Site, content: str, said: str) -> None:
    site.files["/SUMS"] = content.encode()
    source = UrlSource(kind="url", url=site.url + PATH, checksum_url=f"{site.url}/SUMS")
    with pytest.raises(BadInput) as refused:
        fetch.checksum(source)
    assert said in refused.value.summary
    assert "a.qcow2" in refused.value.summary
    assert f"{site.url}/SUMS" in refused.value.summary
    assert refused.value.exit_code == 2


def test_of_one_name_in_several_folders_the_urls_own_counts(site: Site) -> None:
    site.files["/SUMS"] = f"{'a' * 64}  ./x/a.qcow2\n{'b' * 64}  ./y/a.qcow2\n".encode()
    source = UrlSource(kind="url", url=f"{site.url}/images/y/a.qcow2", checksum_url=f"{site.url}/SUMS")
    assert fetch.checksum(source) == f"sha256:{'b' * 64}"


def test_a_site_that_does_not_answer_is_worth_a_retry(tmp_path: Path) -> None:
    source = UrlSource(kind="url", url="http://127.0.0.1:9/a.qcow2", checksum_url="http://127.0.0.1:9/SUMS")
    with pytest.raises(InfraRetriable, match="cannot be reached"):
        fetch.checksum(source)


def _image(source: UrlSource) -> DiskImage:
    return DiskImage(name="a", os="d", version="1", source=source, user="u", size_gib=1, end_of_life=date(2030, 1, 1))


UPSTREAM = UrlSource(kind="url", url="https://up.invalid/i/a.qcow2", checksum_url="https://up.invalid/i/SUMS")


def test_a_mirror_is_asked_for_the_image_and_its_list_and_the_upstream_site_is_not(site: Site) -> None:
    site.files |= {"/m/a.qcow2": b"image", "/m/SUMS": b"a" * 64 + b"  a.qcow2\n"}
    found = fetch.mirrored(ImageMirror.parse(f"https://up.invalid/i={site.url}/m"), _image(UPSTREAM))
    assert isinstance(found.source, UrlSource)
    assert found.source.url == f"{site.url}/m/a.qcow2"
    assert fetch.checksum(found.source) == f"sha256:{'a' * 64}"


@pytest.mark.parametrize("there", ["/m/a.qcow2", "/m/SUMS"])
def test_a_mirror_without_a_file_is_one_clear_error(site: Site, there: str) -> None:
    site.files[there] = b"x"
    with pytest.raises(BadInput, match=r"image_mirror lacks a file of image a: http://\S+ answers 404") as caught:
        fetch.mirrored(ImageMirror.parse(f"https://up.invalid/i={site.url}/m"), _image(UPSTREAM))
    assert "image_mirror" in caught.value.hint


def test_a_mirror_that_only_the_infra_cluster_reaches_is_left_to_it() -> None:
    pinned = UrlSource(kind="url", url="https://up.invalid/i/a.qcow2", checksum="sha256:" + "a" * 64)
    found = fetch.mirrored(ImageMirror.parse("http://127.0.0.1:9"), _image(pinned))
    assert isinstance(found.source, UrlSource)
    assert found.source.url == "http://127.0.0.1:9/up.invalid/i/a.qcow2"
    assert "cannot be reached" in str(trouble(found.source.url))


def test_the_login_of_netrc_is_sent_to_its_site(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    site.files["/SUMS"] = b"a" * 64 + b"  a.qcow2\n"
    source = UrlSource(kind="url", url=site.url + PATH, checksum_url=f"{site.url}/SUMS")
    assert fetch.checksum(source)
    assert site.logins == ["Basic bWU6c2VjcmV0"]
