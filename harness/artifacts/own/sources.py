"""vmatrix's own files, as its wheel has them: the package, and what pyproject.toml lays beside it in a wheel.

An installed vmatrix has them already. From a checkout they are collected by the same table that the wheel is built by.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from harness import __version__, paths

PACKAGE = Path(__file__).resolve().parents[2]
NAME = "vmatrix"


@cache
def ours() -> Mapping[str, Path]:
    """Return the files of the vmatrix that runs."""
    return collect(PACKAGE, paths.packaged_dir())


@cache
def our_digest() -> str:
    """Return the digest of the files of the vmatrix that runs, as they were when this process first asked."""
    return digest(ours())


def tag(*made_of: object) -> str:
    """Return the tag of an image of the vmatrix that runs: its version, and a digest of all that it is made of.

    Args:
        made_of: whatever else than our files is in it, as JSON.
    """
    text = json.dumps([our_digest(), *made_of], sort_keys=True)
    return f"{__version__}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def collect(package: Path, shipped: Path) -> Mapping[str, Path]:
    """Return the file of every path in site-packages.

    Args:
        package: the folder `harness`.
        shipped: the folder of matrix/, playbooks/ and so on: in the package, or the checkout.
    """
    files = _below(package, "harness", _ignored(shipped))
    if shipped.is_relative_to(package):
        return files
    included = _pyproject(shipped)["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    for source, target in sorted(included.items()):
        path = shipped / source
        files |= {target: path} if path.is_file() else _below(path, target, _ignored(shipped))
    return files


def metadata(shipped: Path) -> Mapping[str, str]:
    """Return the files of vmatrix-VERSION.dist-info: what it requires, and its commands and plugins."""
    project = _pyproject(shipped)["project"]
    head = [f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {__version__}"]
    commands = {"console_scripts": project["scripts"], **project["entry-points"]}
    points = [
        f"[{group}]\n" + "".join(f"{name} = {what}\n" for name, what in sorted(names.items()))
        for group, names in sorted(commands.items())
    ]
    required = [f"Requires-Dist: {dependency}" for dependency in project["dependencies"]]
    return {"METADATA": "\n".join([*head, *required]) + "\n", "entry_points.txt": "\n".join(points)}


def digest(files: Mapping[str, Path]) -> str:
    """Return the SHA-256 of files: their paths, contents and whether they can be executed."""
    total = hashlib.sha256()
    for name, path in sorted(files.items()):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{name} {int(os.access(path, os.X_OK))} {content}\n".encode())
    return total.hexdigest()


@cache
def _pyproject(shipped: Path) -> Mapping[str, Any]:
    return tomllib.loads((shipped / "pyproject.toml").read_text(encoding="utf-8"))


def _ignored(shipped: Path) -> list[str]:
    """Return what git does not keep either, by name; a name that begins with / is of the checkout's own folder."""
    path = shipped / ".gitignore"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return ["__pycache__", "*.pyc", *(line.strip("/") for line in lines if line and not line.startswith(("#", "/")))]


def _below(folder: Path, prefix: str, ignored: list[str]) -> dict[str, Path]:
    return {
        f"{prefix}/{path.relative_to(folder).as_posix()}": path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not any(fnmatchcase(part, pattern) for part in path.relative_to(folder).parts for pattern in ignored)
    }
