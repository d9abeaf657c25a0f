"""Collections and roles of a requirements file, installed once by the product's own ansible-galaxy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from harness import yaml_text
from harness.cell.product import cached
from harness.cell.product.galaxy_archives import ARCHIVE, archives, is_collection
from harness.cell.product.protocol import Tell
from harness.errors import BadInput
from harness.machines.runner.ansible_settings import COLLECTIONS, ROLES
from harness.proc import CommandFailed, run


def folder_of(requirements: Path, offline: Path | None, programs: Path) -> Path:
    """Return where the collections and roles are, or will be; `programs` is the folder of ansible-galaxy."""
    given = [f"{path.name} {path.stat().st_size}" for path in archives(offline)]
    return cached.entry("galaxy", *cached.contents([requirements]), str(programs), str(offline), *given)


def libraries(folder: Path) -> dict[str, Path]:
    """Return what Ansible is told of the folder."""
    return {COLLECTIONS: folder / "collections", ROLES: folder / "roles"}


def ensure(requirements: Path, offline: Path | None, programs: Path, tell: Tell, seconds: float) -> None:
    """Install collections and roles once. Raises BadInput in ansible-galaxy's own words."""
    folder = folder_of(requirements, offline, programs)
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
