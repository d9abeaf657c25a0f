"""Go's own caches, cut back after builds: what compilers left, and modules unpacked, are no artifacts.

Downloaded modules stay, packed, so that another build asks no site. Of what was compiled, the newest stays: what the
next version of the same programs shares with this one. Anything else is compiled or unpacked again if it is needed.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

from harness import paths
from harness.files import if_unlocked, shared

KEEP_MIB = 512  # of compiled packages: those that all programs share take about 200
ASIDE = "aside-"  # what Go does not look at any more, and is being removed


def folder() -> Path:
    """Return where Go keeps what it compiled (`build`) and its modules (`mod`)."""
    return paths.cache_dir() / "go"


@contextmanager
def building() -> Iterator[None]:
    """Keep what Go needs while the body builds, and note that there may be something to cut back."""
    with shared(folder() / "lock"):
        (folder() / "built").touch()
        yield


def modules() -> set[str]:
    """Return the wrapper modules of which programs were built since the caches were cut back."""
    return {path.name for path in _modules().glob("*")}


def learned(module: str) -> None:
    """Note that programs of a wrapper module were built: what they share with others of it is there."""
    _modules().mkdir(parents=True, exist_ok=True)
    (_modules() / module).touch()


def _modules() -> Path:
    return folder() / "modules"


def trim(keep_mib: int = KEEP_MIB, *, always: bool = False) -> int:
    """Cut Go's caches back; return how many bytes that freed.

    Nothing is done while somebody builds, nor (unless `always`) if nothing was built since the last time.

    Args:
        keep_mib: MiB of compiled packages that stay, the newest.
    """
    if not folder().is_dir() or not (always or (folder() / "built").exists()):
        return 0
    with if_unlocked(folder() / "lock") as free:
        if not free:
            return 0
        shutil.rmtree(_modules(), ignore_errors=True)
        freed = _unpacked(folder() / "mod") + _compiled(folder() / "build", keep_mib << 20)
        (folder() / "built").unlink(missing_ok=True)
    return freed


def _unpacked(modules: Path) -> int:
    """Remove modules' unpacked sources, which Go makes read-only; return their bytes.

    They are put aside first: where this is ended half-way, Go finds no module of which a part is missing.
    """
    entries = [entry for entry in modules.glob("*") if entry.name != "cache"]
    if entries:
        aside = Path(mkdtemp(prefix=ASIDE, dir=modules.parent))
        for entry in entries:
            entry.chmod(stat.S_IRWXU)
            entry.rename(aside / entry.name)
    freed = 0
    for old in modules.parent.glob(f"{ASIDE}*"):
        for directory, _, files in os.walk(old):
            os.chmod(directory, stat.S_IRWXU)
            freed += sum(os.lstat(os.path.join(directory, file)).st_size for file in files)
        shutil.rmtree(old)
    return freed


def _compiled(cache: Path, keep: int) -> int:
    """Remove the oldest compiled packages until so many bytes are left; return the bytes removed."""
    found = []
    for path in cache.glob("[0-9a-f][0-9a-f]/*"):
        with suppress(FileNotFoundError):
            known = path.lstat()
            found.append((known.st_mtime, known.st_size, path))
    total = sum(size for _, size, _ in found)
    freed = 0
    for _, size, path in sorted(found):
        if total - freed <= keep:
            break
        path.unlink(missing_ok=True)
        freed += size
    return freed
