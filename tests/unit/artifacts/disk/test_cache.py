"""Published images: good, damaged, cut off, absent, too large; from a web site on loopback."""

from __future__ import annotations

import hashlib
import struct
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import pytest

from harness.artifacts.disk import ImageCache
from harness.errors import InfraError, InfraRetriable
from harness.spec.models import DiskImage, UrlSource
from tests.unit.artifacts.disk.conftest import Site

GIB = 1 << 30


PATH = "/a.qcow2"


def _qcow2(size: int) -> bytes:
    """Return something with the header of a qcow2 image of that virtual size."""
    return b"QFI\xfb" + struct.pack(">IQIIQ", 3, 0, 0, 16, size) + bytes(1000)


def _image(site: Site, *, checksum: str | None = None, checksum_url: str | None = None, size_gib: int = 4) -> DiskImage:
    source = UrlSource(kind="url", url=site.url + PATH, checksum=checksum, checksum_url=checksum_url)
    return DiskImage(
        name="a",
        os="debian",
        version="13",
        source=source,
        user="debian",
        size_gib=size_gib,
        end_of_life=date(2030, 1, 1),
    )


def _sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _left(cache: ImageCache) -> list[str]:
    return sorted(path.name for path in cache.root.iterdir() if not path.name.startswith(".lock-"))


@pytest.fixture
def cache(tmp_path: Path) -> ImageCache:
    return ImageCache(recipes=tmp_path / "recipes", root=tmp_path / "images", mirror="")


def test_a_good_image_is_kept_under_its_own_checksum(site: Site, cache: ImageCache) -> None:
    site.files[PATH] = _qcow2(3 * GIB)
    made = cache.ensure(_image(site, checksum=_sha256(site.files[PATH])))
    assert made.virtual_size == 3 * GIB
    assert cache.path(made).read_bytes() == site.files[PATH]
    assert _left(cache) == [f"a-{made.sha256[:12]}.json", f"a-{made.sha256[:12]}.qcow2"]


def test_a_kept_image_is_not_downloaded_again(site: Site, cache: ImageCache) -> None:
    site.files[PATH] = _qcow2(GIB)
    image = _image(site, checksum=_sha256(site.files[PATH]))
    assert cache.ensure(image) == cache.ensure(image)
    assert site.requests == [PATH]


def test_parallel_callers_download_once(site: Site, cache: ImageCache) -> None:
    site.files[PATH] = _qcow2(GIB)
    image = _image(site, checksum=_sha256(site.files[PATH]))
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: cache.ensure(image), range(4)))
    assert len({m.file for m in made}) == 1
    assert site.requests == [PATH]


def test_a_damaged_cache_is_filled_again(site: Site, cache: ImageCache) -> None:
    site.files[PATH] = _qcow2(GIB)
    image = _image(site, checksum=_sha256(site.files[PATH]))
    cache.path(cache.ensure(image)).write_bytes(b"cut")
    assert cache.path(cache.ensure(image)).read_bytes() == site.files[PATH]


def test_the_checksum_is_read_from_the_list_beside_the_image(site: Site, cache: ImageCache) -> None:
    site.files[PATH] = _qcow2(GIB)
    digest = hashlib.sha512(site.files[PATH]).hexdigest()
    site.files["/SHA512SUMS"] = f"{'0' * 128}  b.qcow2\n{digest}  a.qcow2\n".encode()
    image = _image(site, checksum_url=f"{site.url}/SHA512SUMS")
    assert cache.ensure(image).key == f"sha512:{digest}"


def test_a_wrong_checksum_says_both_and_keeps_nothing(site: Site, cache: ImageCache) -> None:
    site.files[PATH] = _qcow2(GIB)
    promised, seen = _sha256(b"something else"), _sha256(site.files[PATH])
    with pytest.raises(InfraError, match=f"wrong checksum: expected {promised}, got {seen}"):
        cache.ensure(_image(site, checksum=promised))
    assert _left(cache) == []


def test_a_truncated_download_says_how_much_came_and_keeps_nothing(site: Site, cache: ImageCache) -> None:
    site.files[PATH] = _qcow2(GIB)
    site.announce[PATH] = 5000
    with pytest.raises(InfraRetriable, match="was cut off: 1032 of 5000 bytes received"):
        cache.ensure(_image(site, checksum=_sha256(site.files[PATH])))
    assert _left(cache) == []


def test_an_image_larger_than_its_disk_says_what_would_fit(site: Site, cache: ImageCache) -> None:
    site.files[PATH] = _qcow2(5 * GIB)
    with pytest.raises(InfraError, match=r"larger than its disk: 5\.0 GiB do not fit into 4 GiB") as caught:
        cache.ensure(_image(site, checksum=_sha256(site.files[PATH])))
    assert "size_gib: 5" in caught.value.hint
    assert _left(cache) == []


def test_something_that_is_no_disk_image_is_refused(site: Site, cache: ImageCache) -> None:
    site.files[PATH] = b"<html>log in to the proxy first</html>"
    with pytest.raises(InfraError, match="not a qcow2 image"):
        cache.ensure(_image(site, checksum=_sha256(site.files[PATH])))
    assert _left(cache) == []


def test_an_image_that_is_not_there_is_an_error_and_not_worth_a_retry(site: Site, cache: ImageCache) -> None:
    with pytest.raises(InfraError, match="answered 404") as caught:
        cache.ensure(_image(site, checksum=_sha256(b"")))
    assert not isinstance(caught.value, InfraRetriable)
