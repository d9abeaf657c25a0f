"""Requirements files of a product: Python packages with its own Ansible, collections and roles, installed once."""

from __future__ import annotations

import re
import shutil
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from harness import yaml_text
from harness.cell.product import cached
from harness.cell.product.protocol import Tell
from harness.errors import BadInput
from harness.interpreter import call
from harness.machines.runner.call import COLLECTIONS, ROLES
from harness.proc import CommandFailed, run

PLAYBOOK = "ansible-playbook"
# https://pip.pypa.io/en/stable/reference/requirements-file-format/: other files that a requirements file reads
OTHERS = re.compile(r"^\s*(?:-r|-c|--requirement|--constraint)[ =]*(?P<file>\S+)", re.MULTILINE)


def environment_folder(requirements: Path) -> Path:
    """Return where the environment of a requirements file is, or will be."""
    return cached.entry("environments", *cached.contents(_all(requirements)))


def environment_programs(requirements: Path) -> Path:
    """Return the folder of the environment's programs."""
    return environment_folder(requirements) / "bin"


def ensure_environment(requirements: Path, tell: Tell, seconds: float) -> None:
    """Install a requirements file once. Raises BadInput in the installer's own words."""
    folder = environment_folder(requirements)
    what = f"installing {requirements}"
    cached.ensure(folder, lambda: _install_environment(requirements, folder, seconds), what=what, tell=tell)


def _install_environment(requirements: Path, folder: Path, seconds: float) -> None:
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


ARCHIVE = ".tar.gz"
MANIFEST = "MANIFEST.json"  # at the top of a collection's archive, and of no role's


def archives(folder: Path | None) -> list[Path]:
    """Return the archives of a folder; none without a folder."""
    return sorted(folder.glob(f"*{ARCHIVE}")) if folder is not None else []


def is_collection(archive: Path) -> bool:
    """Tell whether an archive is of a collection. Raises BadInput when it cannot be read."""
    try:
        with tarfile.open(archive) as content:
            return any(name.removeprefix("./") == MANIFEST for name in content.getnames())
    except (OSError, tarfile.TarError) as error:
        raise BadInput(f"{archive} cannot be read: {error}", hint="`ansible.offline` in product.yml") from error


def collections_folder(requirements: Path, offline: Path | None, programs: Path) -> Path:
    """Return where the collections and roles are, or will be; `programs` is the folder of ansible-galaxy."""
    given = [f"{path.name} {path.stat().st_size}" for path in archives(offline)]
    return cached.entry("galaxy", *cached.contents([requirements]), str(programs), str(offline), *given)


def collections_settings(folder: Path) -> dict[str, Path]:
    """Return what Ansible is told of the folder."""
    return {COLLECTIONS: folder / "collections", ROLES: folder / "roles"}


def ensure_collections(requirements: Path, offline: Path | None, programs: Path, tell: Tell, seconds: float) -> None:
    """Install collections and roles once. Raises BadInput in ansible-galaxy's own words."""
    folder = collections_folder(requirements, offline, programs)
    make = _Installation(requirements, offline, programs / "ansible-galaxy", folder, seconds)
    cached.ensure(folder, make.all, what=f"installing {requirements}", tell=tell)


class _Installation:
    def __init__(self, requirements: Path, offline: Path | None, galaxy: Path, folder: Path, seconds: float) -> None:
        self.requirements, self.offline, self.galaxy = requirements.absolute(), offline, galaxy
        self.folder, self.seconds = folder, seconds

    def all(self) -> None:
        """Install what the file has of both."""
        asked = _read(self.requirements)
        for kind, path in (("collection", "collections"), ("role", "roles")):
            (self.folder / path).mkdir(parents=True)
            wanted = asked.get(path + "", [])
            if not wanted:
                continue
            if self.offline is None:
                self._run(kind, "-r", str(self.requirements))
            elif kind == "collection":
                self._run(kind, "--offline", *self._collections(wanted))
            else:
                self._roles(wanted)

    def _run(self, kind: str, *words: str, file: Path | None = None) -> None:
        into = self.folder / f"{kind}s"
        try:
            run(
                [self.galaxy, kind, "install", *words, "-p", into],
                timeout=self.seconds,
                cwd=(file or self.requirements).parent,
                env={"ANSIBLE_NOCOLOR": "1", "ANSIBLE_HOME": str(self.folder / "home")},
            )
        except CommandFailed as failure:
            hint = "`ansible.requirements` in product.yml; `ansible.offline` names a folder with the archives"
            raise cached.refused(f"{self.requirements} cannot be installed", failure, hint=hint) from failure

    def _collections(self, wanted: list[Any]) -> Iterator[str]:
        """Yield the archives of all collections of the folder; the requirements' own must be among them."""
        found = [path for path in archives(self.offline) if is_collection(path)]
        for name in (str(one.get("name", "") if isinstance(one, Mapping) else one) for one in wanted):
            begins = f"{name.replace('.', '-').partition(':')[0]}-"
            if not any(path.name.startswith(begins) for path in found):
                raise self._lacks(f"no archive {begins}VERSION{ARCHIVE}")
        yield from (str(path.absolute()) for path in found)

    def _roles(self, wanted: list[Any]) -> None:
        others = [path for path in archives(self.offline) if not is_collection(path)]
        found = []
        for one in wanted:
            given = one if isinstance(one, Mapping) else {"src": one}
            name = str(given.get("name") or given.get("src")).rpartition("/")[2].removesuffix(".git")
            fitting = [p for p in others if p.name == name + ARCHIVE or p.name.startswith(f"{name}-")]
            if not fitting:
                raise self._lacks(f"no archive {name}{ARCHIVE} or {name}-VERSION{ARCHIVE}")
            found.append({"src": f"file://{fitting[-1].absolute()}", "name": name})
        file = self.folder / "roles.yml"
        file.write_text(yaml.safe_dump({"roles": found}), encoding="utf-8")
        self._run("role", "-r", str(file))

    def _lacks(self, what: str) -> BadInput:
        hint = f"`ansible-galaxy collection download -r {self.requirements} -p {self.offline}` gets collections"
        return BadInput(f"{self.offline} has {what}, which {self.requirements} asks for", hint=hint)


def _read(requirements: Path) -> Mapping[str, list[Any]]:
    """Return the file's collections and roles; a list alone is of roles, as ansible-galaxy reads it."""
    (content,) = cached.contents([requirements])
    found = yaml_text.document(content.decode(errors="replace"), requirements, hint="ansible-galaxy's requirements.yml")
    if isinstance(found, list):
        return {"roles": found}
    if not isinstance(found, Mapping):
        raise BadInput(f"{requirements} has neither collections nor roles", hint="ansible-galaxy's requirements.yml")
    return {key: list(found.get(key) or []) for key in ("collections", "roles")}
