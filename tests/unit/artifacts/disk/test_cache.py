"""The cache of disk images: made, fetched, pruned."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import date
from pathlib import Path

import pytest

from harness.artifacts.disk import CachedImage, ImageCache
from harness.artifacts.disk import catalogue as recipes
from harness.artifacts.disk.cache import from_mirror, prune, published_checksum
from harness.artifacts.download import trouble
from harness.errors import BadInput, InfraError, InfraRetriable
from harness.spec.models import BuildSource, DiskImage, UrlSource
from harness.spec.settings import ImageMirror
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


def test_a_list_without_the_image_is_an_error(site: Site) -> None:
    site.files["/SUMS"] = b"0123  other.qcow2\n"
    source = UrlSource(kind="url", url=site.url + PATH, checksum_url=f"{site.url}/SUMS")
    with pytest.raises(BadInput, match=r"/SUMS lists no checksum of a.qcow2; it has no SHA-256 or SHA-512 checksum"):
        published_checksum(source)


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
        published_checksum(source)
    assert said in refused.value.summary
    assert "a.qcow2" in refused.value.summary
    assert f"{site.url}/SUMS" in refused.value.summary
    assert refused.value.exit_code == 2


def test_of_one_name_in_several_folders_the_urls_own_counts(site: Site) -> None:
    site.files["/SUMS"] = f"{'a' * 64}  ./x/a.qcow2\n{'b' * 64}  ./y/a.qcow2\n".encode()
    source = UrlSource(kind="url", url=f"{site.url}/images/y/a.qcow2", checksum_url=f"{site.url}/SUMS")
    assert published_checksum(source) == f"sha256:{'b' * 64}"


def test_a_site_that_does_not_answer_is_worth_a_retry(tmp_path: Path) -> None:
    source = UrlSource(kind="url", url="http://127.0.0.1:9/a.qcow2", checksum_url="http://127.0.0.1:9/SUMS")
    with pytest.raises(InfraRetriable, match="cannot be reached"):
        published_checksum(source)


def _published(source: UrlSource) -> DiskImage:
    return DiskImage(name="a", os="d", version="1", source=source, user="u", size_gib=1, end_of_life=date(2030, 1, 1))


UPSTREAM = UrlSource(kind="url", url="https://up.invalid/i/a.qcow2", checksum_url="https://up.invalid/i/SUMS")


def test_a_mirror_is_asked_for_the_image_and_its_list_and_the_upstream_site_is_not(site: Site) -> None:
    site.files |= {"/m/a.qcow2": b"image", "/m/SUMS": b"a" * 64 + b"  a.qcow2\n"}
    found = from_mirror(ImageMirror.parse(f"https://up.invalid/i={site.url}/m"), _published(UPSTREAM))
    assert isinstance(found.source, UrlSource)
    assert found.source.url == f"{site.url}/m/a.qcow2"
    assert published_checksum(found.source) == f"sha256:{'a' * 64}"


@pytest.mark.parametrize("there", ["/m/a.qcow2", "/m/SUMS"])
def test_a_mirror_without_a_file_is_one_clear_error(site: Site, there: str) -> None:
    site.files[there] = b"x"
    with pytest.raises(BadInput, match=r"image_mirror lacks a file of image a: http://\S+ answers 404") as caught:
        from_mirror(ImageMirror.parse(f"https://up.invalid/i={site.url}/m"), _published(UPSTREAM))
    assert "image_mirror" in caught.value.hint


def test_a_mirror_that_only_the_infra_cluster_reaches_is_left_to_it() -> None:
    pinned = UrlSource(kind="url", url="https://up.invalid/i/a.qcow2", checksum="sha256:" + "a" * 64)
    found = from_mirror(ImageMirror.parse("http://127.0.0.1:9"), _published(pinned))
    assert isinstance(found.source, UrlSource)
    assert found.source.url == "http://127.0.0.1:9/up.invalid/i/a.qcow2"
    assert "cannot be reached" in str(trouble(found.source.url))


def test_the_login_of_netrc_is_sent_to_its_site(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    site.files["/SUMS"] = b"a" * 64 + b"  a.qcow2\n"
    source = UrlSource(kind="url", url=site.url + PATH, checksum_url=f"{site.url}/SUMS")
    assert published_checksum(source)
    assert site.logins == ["Basic bWU6c2VjcmV0"]


BUILT = DiskImage(
    name="built",
    os="debian",
    version="13",
    source=BuildSource(kind="build", recipe="r"),
    user="debian",
    size_gib=4,
    end_of_life=date(2030, 1, 1),
)


PUBLISHED = BUILT.model_copy(
    update={
        "name": "built-cloud",
        "source": UrlSource(kind="url", url="http://none.invalid/a", checksum="sha256:" + "0" * 64),
    }
)


@pytest.fixture
def full_cache(tmp_path: Path) -> ImageCache:
    (tmp_path / "recipes" / "r").mkdir(parents=True)
    (tmp_path / "recipes" / "r" / "recipe.yml").write_text("suite: trixie\n")
    (tmp_path / "images").mkdir()
    return ImageCache(recipes=tmp_path / "recipes", root=tmp_path / "images", mirror="")


def put(full_cache: ImageCache, name: str, version: str, *, key: str, age: int) -> str:
    """Lay an image of `age` seconds into the cache; return its file's name."""
    file = f"{name}-{version}.qcow2"
    (full_cache.root / file).write_bytes(b"x" * 10)
    made = CachedImage(name=name, file=file, key=key, sha256=version, size=10, virtual_size=10, seconds=1)
    record = full_cache.root / f"{name}-{version}.json"
    record.write_text(json.dumps(asdict(made)))
    os.utime(record, (2_000_000_000 - age,) * 2)
    (full_cache.root / f".lock-{name}").touch()
    return file


def images(full_cache: ImageCache) -> list[str]:
    return sorted(path.name for path in full_cache.root.glob("*.qcow2"))


def recipe_key(full_cache: ImageCache) -> str:
    return f"recipe:{recipes.load_recipe(full_cache.recipes, 'r').key(size_gib=4)}"


def test_the_version_that_fits_the_recipe_stays_even_when_another_is_newer(full_cache: ImageCache) -> None:
    fits = put(full_cache, "built", "1", key=recipe_key(full_cache), age=50)
    put(full_cache, "built", "2", key="recipe:another", age=10)
    (gone,) = prune(full_cache, [BUILT])
    assert images(full_cache) == [fits]
    assert not (full_cache.root / "built-2.json").exists()
    assert gone.size > 10
    assert prune(full_cache, [BUILT]) == ()


def test_without_one_that_fits_the_newest_stays(full_cache: ImageCache) -> None:
    put(full_cache, "built", "1", key="recipe:old", age=50)
    newest = put(full_cache, "built", "2", key="recipe:new", age=10)
    prune(full_cache, [BUILT])
    assert images(full_cache) == [newest]


def test_of_a_published_image_the_newest_stays_and_nobody_is_asked(full_cache: ImageCache) -> None:
    put(full_cache, "built-cloud", "1", key="sha256:1", age=50)
    newest = put(full_cache, "built-cloud", "2", key="sha256:2", age=10)
    prune(full_cache, [PUBLISHED])
    assert images(full_cache) == [newest]


def test_an_image_that_is_declared_no_more_goes_and_one_with_a_longer_name_stays(full_cache: ImageCache) -> None:
    put(full_cache, "built", "1", key="recipe:old", age=50)
    stays = put(full_cache, "built-cloud", "2", key="sha256:2", age=10)
    prune(full_cache, [PUBLISHED])
    assert images(full_cache) == [stays]


def test_a_dry_run_removes_nothing_and_tells_the_same(full_cache: ImageCache) -> None:
    put(full_cache, "built", "1", key="recipe:old", age=50)
    told = prune(full_cache, [], dry_run=True)
    assert images(full_cache) == ["built-1.qcow2"]
    assert prune(full_cache, []) == told


def test_a_killed_build_goes_and_one_under_way_stays(full_cache: ImageCache) -> None:
    work = full_cache.root / ".tmp-built-4711"
    (work / "root").mkdir(parents=True)
    (work / "root" / "file").write_bytes(b"x" * 100)
    with (full_cache.root / ".lock-built").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert prune(full_cache, [BUILT]) == ()
    (gone,) = prune(full_cache, [BUILT])
    assert (gone.size, work.exists()) == (100, False)


def test_a_build_of_an_image_with_a_longer_name_is_not_this_ones(full_cache: ImageCache) -> None:
    (full_cache.root / ".tmp-built-cloud-4711").mkdir()
    (full_cache.root / ".tmp-built-4712").mkdir()
    (full_cache.root / ".lock-built").touch()
    prune(full_cache, [BUILT])
    assert [path.name for path in full_cache.root.glob(".tmp-*")] == [".tmp-built-cloud-4711"]
