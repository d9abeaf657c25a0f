"""Which address of a mirror stands for which address of an image."""

from __future__ import annotations

from datetime import date

import pytest

from harness.spec.image_mirror import ImageMirror
from harness.spec.models import BuildSource, DiskImage, UrlSource
from harness.spec.settings import Settings

FOLDER = "https://cloud.example.org/images/trixie"
IMAGE = f"{FOLDER}/latest/a.qcow2"


def image(source: UrlSource | BuildSource) -> DiskImage:
    return DiskImage(name="a", os="d", version="1", source=source, user="u", size_gib=1, end_of_life=date(2030, 1, 1))


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        ("https://mirror", "https://mirror/cloud.example.org/images/trixie/latest/a.qcow2"),
        ("https://mirror:8443/x/", "https://mirror:8443/x/cloud.example.org/images/trixie/latest/a.qcow2"),
        (f"{FOLDER}/latest=http://mirror/images", "http://mirror/images/a.qcow2"),
        (f"{FOLDER}/=http://mirror/t", "http://mirror/t/latest/a.qcow2"),
        (f"https://m/all, {FOLDER}=https://m/t, https://cloud.example.org=https://m/c", "https://m/t/latest/a.qcow2"),
        ("https://other.example.org=https://m", IMAGE),
        ("https://cloud.example.org/images/tri=https://m", IMAGE),
    ],
)
def test_the_longest_beginning_that_fits_is_replaced(setting: str, wanted: str) -> None:
    assert ImageMirror.parse(setting).address(IMAGE) == wanted


def test_what_an_image_is_stays_the_same_and_the_mirrors_login_takes_the_place_of_its_own() -> None:
    pinned = "sha256:" + "a" * 64
    source = UrlSource(kind="url", url=IMAGE, checksum=pinned, credentials="theirs", certificates="theirs")
    found = ImageMirror.parse("https://m", "login", "ca").image(image(source)).source
    assert isinstance(found, UrlSource)
    assert (found.checksum, found.credentials, found.certificates) == (pinned, "login", "ca")
    assert found.url == "https://m/cloud.example.org/images/trixie/latest/a.qcow2"


def test_the_list_of_checksums_comes_from_the_mirror_too() -> None:
    listed = UrlSource(kind="url", url=IMAGE, checksum_url=f"{FOLDER}/latest/SUMS")
    found = ImageMirror.parse(f"{FOLDER}=https://m").image(image(listed)).source
    assert isinstance(found, UrlSource)
    assert found.checksum_url == "https://m/latest/SUMS"


def test_an_image_that_no_rule_fits_or_that_is_built_here_stays_as_it_is() -> None:
    other = image(UrlSource(kind="url", url=IMAGE, checksum_url=f"{FOLDER}/SUMS", credentials="theirs"))
    built = image(BuildSource(kind="build", recipe="r"))
    mirror = ImageMirror.parse("https://else.example.org=https://m", "login")
    assert mirror.image(other) == other
    assert ImageMirror.parse("https://m").image(built) == built


@pytest.mark.parametrize("wrong", ["mirror", "ftp://m", "https://a=", "a=https://m", "https://m,", "=https://m"])
def test_what_is_no_address_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="neither URL nor PREFIX=URL"):
        Settings(image_mirror=wrong)
