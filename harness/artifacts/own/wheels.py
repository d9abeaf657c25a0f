"""Locked wheels for the image's Python, installed into a folder on this host by uv or pip, whichever there is.

Covers what differs between these two and between hosts: only what the wheels themselves say stays.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from configparser import ConfigParser
from pathlib import Path

from harness import proc
from harness.artifacts.catalogue import PYTHON_ARCHITECTURES, architecture
from harness.errors import BadInput
from harness.interpreter import call

GLIBC = 40  # 2.40: the newest manylinux that Debian 13, with glibc 2.41, fits
OLDEST = 17  # manylinux2014, the oldest of the platforms of today's wheels
INSTALLER = ("INSTALLER", "REQUESTED", "direct_url.json")  # what the installer writes about itself
SCRIPT = "#!/usr/local/bin/python3\nimport sys\n\nfrom {module} import {first}\n\nsys.exit({name}())\n"


def install(lock: Path, python: str, target: Path, log: Path, seconds: float) -> None:
    """Install the wheels of a lock for another Python into a folder; wheels only, each of a hash in the lock.

    Raises:
        BadInput: neither uv nor pip is there.  InfraError: a wheel cannot be downloaded, or has another hash.
    """
    argv = _uv(python) or _pip(python)
    if argv is None:
        raise BadInput("building the image needs uv or pip", hint="python3 -m pip install uv")
    words: list[str | Path] = [
        "--require-hashes",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--target",
        target,
        "-r",
        lock,
    ]
    hint = "check that this machine can install Python packages: python3 -m pip download pip"
    with proc.failing_as_infra("Python packages could not be downloaded", hint=hint):
        proc.run([*argv, *words], timeout=seconds, log=log)


def _uv(python: str) -> list[str] | None:
    found = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    platform = f"{PYTHON_ARCHITECTURES[architecture()]}-manylinux_2_{GLIBC}"
    options = ["--quiet", "--python-version", python, "--python-platform", platform, "--link-mode", "copy"]
    return [found, "pip", "install", *options] if found else None


def _pip(python: str) -> list[str] | None:
    if importlib.util.find_spec("pip") is None:
        return None
    words = call("pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
    words += ["--implementation", "cp", "--python-version", python]
    for minor in range(GLIBC, OLDEST - 1, -1):
        words += ["--platform", f"manylinux_2_{minor}_{PYTHON_ARCHITECTURES[architecture()]}"]
    return words


def clean(site: Path) -> None:
    """Remove what tells which installer ran, where and when."""
    shutil.rmtree(site / "bin", ignore_errors=True)
    (site / ".lock").unlink(missing_ok=True)
    for info in sorted(site.glob("*.dist-info")):
        for name in INSTALLER:
            (info / name).unlink(missing_ok=True)
        lines = (info / "RECORD").read_text(encoding="utf-8").splitlines()
        kept = sorted(line for line in lines if (site / line.split(",")[0]).is_file() and not line.startswith(".."))
        (info / "RECORD").write_text("\n".join(kept) + "\n", encoding="utf-8")


def scripts(site: Path, target: Path) -> None:
    """Write the commands that packages declare."""
    for path in sorted(site.glob("*.dist-info/entry_points.txt")):
        points = ConfigParser(delimiters=("=",), interpolation=None)
        points.optionxform = str  # type: ignore[assignment,method-assign] # names as they are
        points.read_string(path.read_text(encoding="utf-8"))
        declared = points["console_scripts"] if points.has_section("console_scripts") else {}
        for command, where in declared.items():
            module, _, name = where.partition("[")[0].strip().partition(":")
            target.mkdir(parents=True, exist_ok=True)
            text = SCRIPT.format(module=module, first=name.partition(".")[0], name=name)
            (target / command).write_text(text, encoding="utf-8")
            (target / command).chmod(0o755)
