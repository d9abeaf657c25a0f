"""Building disk images for real, from recipes small enough for a test."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from harness import paths, proc
from harness.artifacts.disk import ImageCache, build, load
from harness.artifacts.disk.cache import virtual_size
from harness.embedded.machines import disk as machine_disk
from harness.errors import InfraError
from harness.infra.host import preflight
from harness.spec.models import BuildSource, DiskImage
from harness.until import Deadline, NotYet, until

SMALL = """
suite: trixie
packages: [{package}]
mask: [apt-daily.timer]
exclude: [/usr/share/doc/*, /usr/share/locale/*]
remove: [/var/lib/apt/lists/*]
"""


@pytest.fixture(autouse=True)
def needs_root_and_programs() -> None:
    """Fail, with what is missing, rather than skip."""
    if os.geteuid() != 0:
        pytest.fail("building disk images needs root")
    missing = preflight.unmet([*preflight.PROGRAMS, *preflight.BUILDERS])
    if missing:
        pytest.fail("\n".join(f"{item.what} is missing: {item.remedy}" for item in missing))


def _image(size_gib: int = 2) -> DiskImage:
    template = load(paths.project_dir() / "matrix" / "images.yml").find("debian-13")
    source = BuildSource(kind="build", recipe="small")
    return template.model_copy(update={"name": "small", "source": source, "size_gib": size_gib})


def _cache(folder: Path, package: str) -> ImageCache:
    recipe = folder / "recipes" / "small"
    (recipe / "files" / "etc").mkdir(parents=True, exist_ok=True)
    (recipe / "recipe.yml").write_text(SMALL.format(package=package))
    (recipe / "files" / "etc" / "marker").write_text("ours\n")
    return ImageCache(recipes=folder / "recipes", root=folder / "images", mirror="")


def _left(cache: ImageCache) -> list[str]:
    return sorted(path.name for path in cache.root.iterdir() if path.name.startswith(".tmp-"))


def _mounts(folder: Path) -> list[str]:
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f"{folder}/" in line]


def test_a_build_makes_a_disk_with_the_recipes_files_and_is_done_once(tmp_path: Path) -> None:
    cache, said = _cache(tmp_path, "kmod"), list[str]()
    made = cache.ensure(_image(), said.append)
    assert [line.partition(":")[0] for line in said] == ["small"] * 3
    assert virtual_size(cache.path(made)) == made.virtual_size == 2 << 30
    assert made.file == f"small-{made.sha256[:12]}.qcow2"
    raw, root = tmp_path / "raw", tmp_path / "root"
    proc.run(["qemu-img", "convert", "-O", "raw", cache.path(made), raw], timeout=60)
    root.mkdir()
    machine_disk.mount(raw, machine_disk.root_partition(raw), root)
    try:
        assert (root / "etc/marker").read_text() == "ours\n"
        assert (root / "etc/marker").stat().st_uid == 0
        assert os.readlink(root / "etc/systemd/system/apt-daily.timer") == "/dev/null"
        assert (root / "etc/machine-id").read_text() == ""
        assert list((root / "var/lib/apt/lists").iterdir()) == []
        assert (root / "usr/bin/kmod").exists()
    finally:
        proc.run(["umount", root], timeout=20)
    assert (_left(cache), _mounts(tmp_path)) == ([], [])
    said.clear()
    assert cache.ensure(_image(), said.append) == made
    assert said == []


def test_a_root_that_does_not_fit_its_disk_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    with (tmp_path / "root/big").open("wb") as handle:
        for _ in range(11):
            handle.write(os.urandom(100 << 20))
    ids = build.DiskIds.of("x")
    with pytest.raises(proc.CommandFailed, match="mke2fs"):
        build.raw_disk(tmp_path / "root", tmp_path / "raw", size_gib=1, ids=ids, log=tmp_path / "log")
    assert "Could not allocate block" in (tmp_path / "log").read_text()
    (tmp_path / "root/big").unlink()


def test_a_killed_build_leaves_no_process_and_the_next_one_clears_up_and_says_why_it_fails_itself(
    tmp_path: Path,
) -> None:
    cache = _cache(tmp_path, "kmod")
    code = (
        "import sys; from tests.embedded.disk.test_build import _cache, _image; from pathlib import Path;"
        "_cache(Path(sys.argv[1]), 'kmod').ensure(_image())"
    )
    env = {"PYTHONPATH": str(paths.project_dir())}
    service = proc.spawn([sys.executable, "-c", code, str(tmp_path)], log=tmp_path / "out", env=env)
    try:
        until(
            lambda: True if list(tmp_path.glob("images/.tmp-*/root/usr")) else NotYet("nothing is unpacked yet"),
            deadline=Deadline.after(120),
            what="the build is under way",
            interval=0.1,
        )
    finally:
        os.kill(service.pid, signal.SIGKILL)
    until(
        lambda: NotYet("mmdebstrap runs on") if _builders(tmp_path) else True,
        deadline=Deadline.after(20),
        what="the installation has ended with its starter",
        interval=0.1,
    )
    assert _mounts(tmp_path) == []
    assert _left(cache) != []
    _next_build_fails_and_clears_up(tmp_path)


def _next_build_fails_and_clears_up(folder: Path) -> None:
    cache = _cache(folder, "there-is-no-such-package")
    with pytest.raises(InfraError, match="disk image small could not be built") as caught:
        cache.ensure(_image())
    assert "there-is-no-such-package" in caught.value.detail
    assert [path.name for path in caught.value.paths] == ["small.log"]
    assert "there-is-no-such-package" in caught.value.paths[0].read_text()
    assert (_left(cache), _mounts(folder)) == ([], [])


def _builders(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words and "mmdebstrap" in words:
            found.append(words)
    return found
