"""Build a Debian disk image from a recipe: install packages, arrange the root, pack it as a compressed qcow2.

Runs as root. The installation happens in mount and process namespaces that die with this process, so a
killed build leaves no mount behind.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from glob import glob
from pathlib import Path

from harness import proc
from harness.artifacts.disk.recipe import DiskRecipe
from harness.errors import BadInput

Say = Callable[[str], None]
INSTALL_SECONDS = 60.0  # expected
PACK_SECONDS = 25.0  # expected
PACK_LIMIT = 600.0  # twenty times as long: for a slow disk
TABLE_LIMIT = 60.0  # a partition table, written at once
MIB = 1 << 20
ROOT_TYPE = "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"  # Discoverable Partitions Specification: root, x86-64
NAMESPACE = uuid.UUID("0c2a8a5e-3b0e-4d53-9d0c-6a3c8d1f7b42")
# SIGKILL reaches the installation when this process dies: as parent death signal, and as the end of its pid namespace.
ISOLATED = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"),
)


def build(recipe: DiskRecipe, *, size_gib: int, work: Path, log: Path, say: Say, mirror: str, seconds: float) -> Path:
    """Build an image.

    Args:
        work: an empty folder on a file system with 2 GiB free; the caller removes it.
        mirror: a Debian archive's URL; "" for mmdebstrap's own default.
        seconds: how long the installation of Debian may take.

    Returns: the qcow2 file inside `work`.

    Raises:
        BadInput: not root.  InfraError: a step failed, with its last lines and the log's path.
    """
    if os.geteuid() != 0:
        raise BadInput("building a disk image needs root", hint="run it as root")
    root, raw, image = work / "root", work / "disk.raw", work / "disk.qcow2"
    hint = "check that this machine can install Debian packages (apt-get update) and has free disk space (df -h)"
    with proc.failing_as_infra(f"disk image {recipe.name} could not be built", hint=hint):
        say(f"installing {len(recipe.packages)} packages and their dependencies (about {INSTALL_SECONDS:.0f} s)")
        root_file_system(recipe, root, log, mirror=mirror, seconds=seconds)
        say(f"packing the disk (about {PACK_SECONDS:.0f} s)")
        raw_disk(root, raw, size_gib=size_gib, identity=recipe.key(size_gib=size_gib), log=log)
        compressed: list[str | Path] = ["-f", "raw", "-O", "qcow2", "-c", "-m", "4", "-W", raw, image]
        proc.run(["qemu-img", "convert", *compressed], timeout=PACK_LIMIT, log=log)
    return image


def root_file_system(recipe: DiskRecipe, root: Path, log: Path, *, mirror: str, seconds: float) -> None:
    """Install a recipe's packages below a folder that is not there yet, and arrange it as the recipe says.

    Raises:
        CommandFailed: the packages could not be installed.
    """
    _install(recipe, root, log, mirror, seconds)
    _arrange(recipe, root)


def _install(recipe: DiskRecipe, root: Path, log: Path, mirror: str, seconds: float) -> None:
    options = [
        "--mode=root",
        "--variant=apt",
        f"--include={','.join(recipe.packages)}",
        *[f"--dpkgopt=path-exclude={pattern}" for pattern in recipe.exclude],
    ]
    target = [recipe.suite, str(root), *([mirror] if mirror else [])]
    env = {"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", "TMPDIR": str(root.parent)}
    proc.run([*ISOLATED, "mmdebstrap", *options, *target], timeout=seconds, log=log, env=env)


def _arrange(recipe: DiskRecipe, root: Path) -> None:
    """Copy the recipe's files, mask its units, remove what must not be in an image."""
    for tree in recipe.files:
        shutil.copytree(tree, root, dirs_exist_ok=True)
        for copied in (root / path.relative_to(tree) for path in tree.rglob("*")):
            os.chown(copied, 0, 0)
    for unit in recipe.mask:
        link = root / "etc/systemd/system" / unit
        link.unlink(missing_ok=True)
        link.symlink_to("/dev/null")
    for pattern in recipe.remove:
        for path in matching(root, pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    (root / "etc/machine-id").write_text("", encoding="utf-8")
    (root / "etc/hostname").unlink(missing_ok=True)
    _mark_up_to_date(root)


def matching(root: Path, pattern: str) -> list[Path]:
    """Return what a pattern (absolute in the image) names below a root, links that lead nowhere on this host too:
    Path.glob would leave those out."""
    return [root / found for found in glob(pattern.lstrip("/"), root_dir=root, recursive=True, include_hidden=True)]


def _mark_up_to_date(root: Path) -> None:
    """Tell systemd that /etc and /var fit /usr, or every first boot rebuilds caches that are fresh."""
    stamp = (root / "usr").stat().st_mtime_ns
    for marker in (root / "etc/.updated", root / "var/.updated"):
        marker.write_text(f"TIMESTAMP_NSEC={stamp}\n", encoding="utf-8")
        os.utime(marker, ns=(stamp, stamp))


def raw_disk(root: Path, raw: Path, *, size_gib: int, identity: str, log: Path) -> None:
    """Pack a root directory as the ext4 file system of a raw disk with a GPT; its ids follow from `identity`."""
    size = size_gib * 1024 * MIB
    with raw.open("wb") as handle:
        handle.truncate(size)
    disk_id, part_id, fs_id, seed = (uuid.uuid5(NAMESPACE, f"{identity} {i}") for i in range(4))
    table = f"label: gpt\nlabel-id: {disk_id}\nstart=2048, type={ROOT_TYPE}, uuid={part_id}, name=root\n"
    proc.run(["sfdisk", "--quiet", raw], timeout=TABLE_LIMIT, log=log, stdin=table)
    # The first MiB is the partition table's, the last its copy's.
    blocks = (size - 2 * MIB) // 1024
    features = f"offset={MIB},assume_storage_prezeroed=1,hash_seed={seed}"
    options = ("-q", "-t", "ext4", "-L", "root", "-m", "0", "-U", str(fs_id), "-E", features)
    proc.run(["mke2fs", *options, "-d", root, raw, f"{blocks}k"], timeout=PACK_LIMIT, log=log)
