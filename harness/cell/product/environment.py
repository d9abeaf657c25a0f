"""An environment of Python packages with the product's own Ansible, made from its requirements file."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from harness.cell.product import cached
from harness.cell.product.protocol import Tell
from harness.errors import BadInput
from harness.interpreter import call
from harness.proc import CommandFailed, run

PLAYBOOK = "ansible-playbook"
# https://pip.pypa.io/en/stable/reference/requirements-file-format/: other files that a requirements file reads
OTHERS = re.compile(r"^\s*(?:-r|-c|--requirement|--constraint)[ =]*(?P<file>\S+)", re.MULTILINE)


def folder_of(requirements: Path) -> Path:
    """Return where the environment of a requirements file is, or will be."""
    return cached.entry("environments", *cached.contents(_all(requirements)))


def programs_of(requirements: Path) -> Path:
    """Return the folder of the environment's programs."""
    return folder_of(requirements) / "bin"


def ensure(requirements: Path, tell: Tell, seconds: float) -> None:
    """Install a requirements file once. Raises BadInput in the installer's own words."""
    folder = folder_of(requirements)
    what = f"installing {requirements}"
    cached.ensure(folder, lambda: _install(requirements, folder, seconds), what=what, tell=tell)


def _install(requirements: Path, folder: Path, seconds: float) -> None:
    python = str(folder / "bin" / "python")
    uv = _uv()
    make = [uv, "venv", "--quiet", "--python", sys.executable] if uv else call("venv")
    pip = [uv, "pip", "install", "--python", python] if uv else [python, "-P", "-m", "pip", "install", "--no-input"]
    try:
        run([*make, str(folder)], timeout=seconds)
        run([*pip, "-r", str(requirements.absolute())], timeout=seconds, cwd=requirements.absolute().parent)
    except CommandFailed as failure:
        hint = "`ansible.install` in product.yml; run the command by hand" + (" (uv reads no pip.conf)" if uv else "")
        raise cached.refused(f"{requirements} cannot be installed", failure, hint=hint) from failure
    if not (folder / "bin" / PLAYBOOK).is_file():
        raise BadInput(
            f"{requirements} installs no {PLAYBOOK}", hint="add ansible-core to it, or remove `ansible.install`"
        )


def _uv() -> str | None:
    """Return uv, if it is there: on the PATH, or in vmatrix's own environment."""
    return shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))


def _all(requirements: Path) -> Iterator[Path]:
    """Yield a requirements file and those that it reads."""
    found, ahead = set[Path](), [requirements.absolute()]
    while ahead:
        file = ahead.pop()
        if file in found:
            continue
        found.add(file)
        yield file
        (content,) = cached.contents([file])
        named = OTHERS.findall(content.decode(errors="replace"))
        ahead += [file.parent / name for name in named if "://" not in name]
