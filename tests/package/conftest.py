"""vmatrix as its users have it: built, and installed into an environment with nothing else, outside of the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
UV = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
SECONDS = 600.0  # against hanging: building and installing download packages where no cache has them


@dataclass(frozen=True)
class Built:
    """The distributions, and the names of the checkout's files."""

    sdist: Path
    wheel: Path


@dataclass(frozen=True)
class Installed:
    """An environment with vmatrix installed."""

    prefix: Path

    @property
    def package(self) -> Path:
        """The folder of the installed package."""
        (found,) = (self.prefix / "lib").glob("python3*/site-packages/harness")
        return found

    def call(
        self, *words: str | Path, cwd: Path, env: Mapping[str, str] | None = None, seconds: float = SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in a folder, without what this process has of the checkout."""
        program, *rest = words
        return subprocess.run(
            [self.prefix / "bin" / program, *rest],
            cwd=cwd,
            env={**outside(), **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def vmatrix(self, words: str, *, cwd: Path, env: Mapping[str, str] | None = None) -> str:
        """Run the command, which has to succeed, and return what it prints."""
        done = self.call("vmatrix", *words.split(), cwd=cwd, env=env)
        assert done.returncode == 0, f"vmatrix {words}: {done.stdout}{done.stderr}"
        return done.stdout


def outside() -> dict[str, str]:
    """Return an environment in which nothing leads to the checkout, or to the job that these tests may be."""
    ours = ("VMATRIX_", "PYTHON", "VIRTUAL_ENV", "TOX_", "CI", "GITLAB_", "MATRIX_")
    found = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**found, "COLUMNS": "200"}


def uv(*words: str | Path) -> None:
    """Run uv."""
    if UV is None:
        pytest.fail("uv is missing: install the dependency group `package`, or run `tox -e package`", pytrace=False)
    done = subprocess.run(
        [UV, *words], cwd="/", env=outside(), capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build the sdist from the checkout, and the wheel from the sdist."""
    directory = tmp_path_factory.mktemp("dist")
    uv("build", "--quiet", "--out-dir", directory, CHECKOUT)
    (sdist,), (wheel,) = directory.glob("*.tar.gz"), directory.glob("*.whl")
    return Built(sdist, wheel)


@pytest.fixture(scope="session")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install the wheel into an environment of its own."""
    prefix = tmp_path_factory.mktemp("environment") / "venv"
    uv("venv", "--quiet", "--python", sys.executable, prefix)
    uv("pip", "install", "--quiet", "--python", prefix / "bin" / "python", built.wheel)
    return Installed(prefix)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with an empty vmatrix.yml: everything in it is packaged."""
    (tmp_path / "vmatrix.yml").touch()
    return tmp_path


@pytest.fixture
def unchanged(installed: Installed) -> Callable[[], list[str]]:
    """Return what lists the files that were written into the installed package since."""

    def listing() -> dict[str, float]:
        paths = (path for path in installed.package.rglob("*") if "__pycache__" not in path.parts)
        return {str(path): path.stat().st_mtime for path in paths if path.is_file()}

    before = listing()
    return lambda: sorted(path for path, _ in listing().items() ^ before.items())
