"""Pruning disk images: one version of each declared image stays, and whatever is being made."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict
from datetime import date
from pathlib import Path

import pytest

from harness.artifacts.disk import CachedImage, ImageCache, prune
from harness.artifacts.disk import recipe as recipes
from harness.spec.models import BuildSource, DiskImage, UrlSource

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
def cache(tmp_path: Path) -> ImageCache:
    (tmp_path / "recipes" / "r").mkdir(parents=True)
    (tmp_path / "recipes" / "r" / "recipe.yml").write_text("suite: trixie\n")
    (tmp_path / "images").mkdir()
    return ImageCache(recipes=tmp_path / "recipes", root=tmp_path / "images", mirror="")


def put(cache: ImageCache, name: str, version: str, *, key: str, age: int) -> str:
    """Lay an image of `age` seconds into the cache; return its file's name."""
    file = f"{name}-{version}.qcow2"
    (cache.root / file).write_bytes(b"x" * 10)
    made = CachedImage(name=name, file=file, key=key, sha256=version, size=10, virtual_size=10, seconds=1)
    record = cache.root / f"{name}-{version}.json"
    record.write_text(json.dumps(asdict(made)))
    os.utime(record, (2_000_000_000 - age,) * 2)
    (cache.root / f".lock-{name}").touch()
    return file


def images(cache: ImageCache) -> list[str]:
    return sorted(path.name for path in cache.root.glob("*.qcow2"))


def recipe_key(cache: ImageCache) -> str:
    return f"recipe:{recipes.load(cache.recipes, 'r').key(size_gib=4)}"


def test_the_version_that_fits_the_recipe_stays_even_when_another_is_newer(cache: ImageCache) -> None:
    fits = put(cache, "built", "1", key=recipe_key(cache), age=50)
    put(cache, "built", "2", key="recipe:another", age=10)
    (gone,) = prune(cache, [BUILT])
    assert images(cache) == [fits]
    assert not (cache.root / "built-2.json").exists()
    assert gone.size > 10
    assert prune(cache, [BUILT]) == ()


def test_without_one_that_fits_the_newest_stays(cache: ImageCache) -> None:
    put(cache, "built", "1", key="recipe:old", age=50)
    newest = put(cache, "built", "2", key="recipe:new", age=10)
    prune(cache, [BUILT])
    assert images(cache) == [newest]


def test_of_a_published_image_the_newest_stays_and_nobody_is_asked(cache: ImageCache) -> None:
    put(cache, "built-cloud", "1", key="sha256:1", age=50)
    newest = put(cache, "built-cloud", "2", key="sha256:2", age=10)
    prune(cache, [PUBLISHED])
    assert images(cache) == [newest]


def test_an_image_that_is_declared_no_more_goes_and_one_with_a_longer_name_stays(cache: ImageCache) -> None:
    put(cache, "built", "1", key="recipe:old", age=50)
    stays = put(cache, "built-cloud", "2", key="sha256:2", age=10)
    prune(cache, [PUBLISHED])
    assert images(cache) == [stays]


def test_a_dry_run_removes_nothing_and_tells_the_same(cache: ImageCache) -> None:
    put(cache, "built", "1", key="recipe:old", age=50)
    told = prune(cache, [], dry_run=True)
    assert images(cache) == ["built-1.qcow2"]
    assert prune(cache, []) == told


def test_a_killed_build_goes_and_one_under_way_stays(cache: ImageCache) -> None:
    work = cache.root / ".tmp-built-4711"
    (work / "root").mkdir(parents=True)
    (work / "root" / "file").write_bytes(b"x" * 100)
    with (cache.root / ".lock-built").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert prune(cache, [BUILT]) == ()
    (gone,) = prune(cache, [BUILT])
    assert (gone.size, work.exists()) == (100, False)


def test_a_build_of_an_image_with_a_longer_name_is_not_this_ones(cache: ImageCache) -> None:
    (cache.root / ".tmp-built-cloud-4711").mkdir()
    (cache.root / ".tmp-built-4712").mkdir()
    (cache.root / ".lock-built").touch()
    prune(cache, [BUILT])
    assert [path.name for path in cache.root.glob(".tmp-*")] == [".tmp-built-cloud-4711"]
