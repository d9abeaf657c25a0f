"""Build a Debian disk image from a recipe: install packages, arrange the root, pack it as a compressed qcow2.

Runs as root. The installation happens in mount and process namespaces that die with this process, so a
killed build leaves no mount behind.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from glob import glob
from pathlib import Path

from harness import proc
from harness.artifacts.disk import boot
from harness.artifacts.disk.layout import PACK_LIMIT, BootLoader, DiskIds, raw_disk
from harness.artifacts.disk.recipe import DiskRecipe
from harness.errors import BadInput

Say = Callable[[str], None]
INSTALL_SECONDS = 60.0  # expected
PACK_SECONDS = 25.0  # expected
LOADER_SECONDS = 20.0  # expected
ENABLE_LIMIT = 30.0  # a few links
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
    if recipe.bootable:
        boot.require_architecture()
    ids = DiskIds.of(recipe.key(size_gib=size_gib))
    root, raw, image = work / "root", work / "disk.raw", work / "disk.qcow2"
    hint = "check that this machine can install Debian packages (apt-get update) and has free disk space (df -h)"
    with proc.failing_as_infra(f"disk image {recipe.name} could not be built", hint=hint):
        say(f"installing {len(recipe.packages)} packages and their dependencies (about {INSTALL_SECONDS:.0f} s)")
        root_file_system(recipe, root, log, mirror=mirror, seconds=seconds)
        loader = None
        if recipe.bootable:
            boot.configure(root, ids, recipe.kernel_arguments)
            say(f"making its boot loaders (about {LOADER_SECONDS:.0f} s)")
            loader = _boot_loader(recipe, ids, work, log, mirror=mirror, seconds=seconds)
        say(f"packing the disk (about {PACK_SECONDS:.0f} s)")
        raw_disk(root, raw, size_gib=size_gib, ids=ids, log=log, boot=loader)
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
    options = ["--variant=apt", *[f"--dpkgopt=path-exclude={pattern}" for pattern in recipe.exclude]]
    _mmdebstrap(options, recipe.packages, recipe.suite, root, log, mirror=mirror, seconds=seconds)


def _boot_loader(recipe: DiskRecipe, ids: DiskIds, work: Path, log: Path, *, mirror: str, seconds: float) -> BootLoader:
    """Unpack what makes boot loaders into a folder of its own, and make them."""
    tools = work / "boot-tools"
    _mmdebstrap(["--variant=extract"], boot.PACKAGES, recipe.suite, tools, log, mirror=mirror, seconds=seconds)
    return boot.BootTools(tools, log, ISOLATED).loader(ids)


def _mmdebstrap(
    options: Sequence[str], packages: Sequence[str], suite: str, target: Path, log: Path, *, mirror: str, seconds: float
) -> None:
    argv = ["mmdebstrap", "--mode=root", *options, f"--include={','.join(packages)}", suite, str(target)]
    env = {"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", "TMPDIR": str(target.parent)}
    proc.run([*ISOLATED, *argv, *([mirror] if mirror else [])], timeout=seconds, log=log, env=env)


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
    if recipe.enable:
        proc.run(["systemctl", f"--root={root}", "--quiet", "enable", *recipe.enable], timeout=ENABLE_LIMIT)
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
