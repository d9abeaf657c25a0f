"""A product of kind `ansible`: each phase is a playbook, run by Ansible as its requirements files install it.

Two kinds of requirements files are installed once and kept (harness/cell/product/cached.py): pip's, for an environment
with Ansible itself, and ansible-galaxy's, for collections and roles.
"""

from __future__ import annotations

import re
import shutil
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness import yaml_text
from harness.cell.product import cached
from harness.cell.product.protocol import PhaseOutcome, PhaseRun, Tell
from harness.errors import BadInput
from harness.interpreter import call
from harness.machines.reach.ssh import control_directory
from harness.machines.runner.call import COLLECTIONS, ROLES, AnsibleCall, Listener, PlaybookInputs
from harness.machines.runner.playbook import run_playbook
from harness.machines.runner.playbook_output import changed_by, recap
from harness.model import Environment
from harness.proc import CommandFailed, pasteable, run
from harness.spec.models import AnsibleOptions, Product, Timeouts

PLAYBOOK = "ansible-playbook"
# https://pip.pypa.io/en/stable/reference/requirements-file-format/: other files that a requirements file reads
OTHERS = re.compile(r"^\s*(?:-r|-c|--requirement|--constraint)[ =]*(?P<file>\S+)", re.MULTILINE)
ARCHIVE = ".tar.gz"
MANIFEST = "MANIFEST.json"  # at the top of a collection's archive, and of no role's


@dataclass(frozen=True)
class Playbooks:
    """Playbooks in a folder, and how product.yml wants them to be called."""

    product: Product
    project: Path

    def prepare(self, tell: Tell, timeouts: Timeouts) -> None:
        """Install the Ansible, the collections and the roles that product.yml names."""
        options, seconds = self._options, timeouts.product_install
        if options.install is not None:
            ensure_environment(self._path(options.install), tell, seconds)
        if options.requirements is not None:
            ensure_collections(self._path(options.requirements), self._offline, self._programs, tell, seconds)

    def entries(self) -> tuple[Path, ...]:
        """Return the environment, and the folder of collections and roles."""
        options, paths = self._options, list[Path]()
        if options.install is not None:
            paths.append(environment_folder(self._path(options.install)))
        if options.requirements is not None:
            paths.append(collections_folder(self._path(options.requirements), self._offline, self._programs))
        return tuple(paths)

    def command(self, phase: str, machines: Environment) -> str:
        """Return the ansible-playbook command of a phase."""
        playbook, call = self._playbook(phase), self._call(phase)
        argv = call.argv(playbook, machines.files.hosts, machines.files.variables)
        if call.programs == AnsibleCall().programs:
            argv = [Path(argv[0]).name, *argv[1:]]
        return f"ANSIBLE_CONFIG={call.config_for(playbook)} {pasteable(argv)}"

    def run(self, phase: PhaseRun) -> PhaseOutcome:
        """Run the playbook of a phase."""
        playbook = self._playbook(phase.phase.name)
        inputs = inputs_of(phase.environment, phase.log, changes=phase.again)
        touched = run_playbook(
            inputs,
            playbook,
            timeout=phase.timeout,
            log=phase.log,
            listener=Listener(task=phase.on_task),
            call=self._call(phase.phase.name),
        )
        changed = changes_of(inputs.events, phase.log) if phase.again else ()
        return PhaseOutcome(playbook.name, touched, changed)

    def _call(self, phase: str) -> AnsibleCall:
        options = self._options
        libraries = {}
        if options.requirements is not None:
            folder = collections_folder(self._path(options.requirements), self._offline, self._programs)
            libraries = collections_settings(folder)
        return AnsibleCall(
            programs=self._programs,
            config=self._path(options.config) if options.config is not None else None,
            inventories=tuple(self._path(name) for name in options.inventories),
            arguments=(
                *(("--become",) if options.become else ()),
                *options.args,
                *self.product.phases[phase].args,
            ),
            libraries=libraries,
        )

    @property
    def _options(self) -> AnsibleOptions:
        return self.product.ansible if self.product.ansible is not None else AnsibleOptions()

    @property
    def _programs(self) -> Path:
        options = self._options
        if options.path is not None:
            return self._path(options.path).expanduser()
        return environment_programs(self._path(options.install)) if options.install else AnsibleCall().programs

    @property
    def _offline(self) -> Path | None:
        return self._path(self._options.offline) if self._options.offline is not None else None

    def _path(self, name: str) -> Path:
        return self.project / self.product.directory / name

    def _playbook(self, phase: str) -> Path:
        return self._path(str(self.product.phases[phase].playbook))


def inputs_of(environment: Environment, log: Path, *, changes: bool = False) -> PlaybookInputs:
    """Return what a playbook is given in a cell: the files in its directory, and a folder of its own for sockets.

    Args:
        changes: whether it is written down what the playbook changes.
    """
    return PlaybookInputs(
        hosts=environment.files.hosts,
        variables=environment.files.variables,
        events=environment.files.failures(log.stem),
        control=control_directory(environment.run, environment.cell.id),
        facts=f"{environment.namespace}-{environment.attempt}-",
        machines=environment.names,
        tunnels=environment.tunnels,
        changes=changes,
    )


def changes_of(events: Path, log: Path) -> tuple[str, ...]:
    """Return what a playbook changed: its tasks, or where our plugin was not loaded, how many by Ansible's recap."""
    recaps = changed_by(events)
    if recaps is not None:
        return recaps
    recaps_of_log = recap(log.read_text(encoding="utf-8", errors="replace"))
    return tuple(
        f"{of_host.changed} tasks on {of_host.host}, by Ansible's recap" for of_host in recaps_of_log if of_host.changed
    )


def environment_folder(requirements: Path) -> Path:
    """Return where the environment of a requirements file is, or will be."""
    return cached.entry("environments", *cached.contents(_files_read(requirements)))


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


def _files_read(requirements: Path) -> Iterator[Path]:
    """Yield a requirements file and those that it reads."""
    files, ahead = set[Path](), [requirements.absolute()]
    while ahead:
        file = ahead.pop()
        if file in files:
            continue
        files.add(file)
        yield file
        (content,) = cached.contents([file])
        named = OTHERS.findall(content.decode(errors="replace"))
        ahead += [file.parent / name for name in named if "://" not in name]


def collections_folder(requirements: Path, offline: Path | None, programs: Path) -> Path:
    """Return where the collections and roles are, or will be; `programs` is the folder of ansible-galaxy."""
    sizes = [f"{path.name} {path.stat().st_size}" for path in archives(offline)]
    return cached.entry("galaxy", *cached.contents([requirements]), str(programs), str(offline), *sizes)


def collections_settings(folder: Path) -> dict[str, Path]:
    """Return what Ansible is told of the folder."""
    return {COLLECTIONS: folder / "collections", ROLES: folder / "roles"}


def ensure_collections(requirements: Path, offline: Path | None, programs: Path, tell: Tell, seconds: float) -> None:
    """Install collections and roles once. Raises BadInput in ansible-galaxy's own words."""
    folder = collections_folder(requirements, offline, programs)
    make = _Installation(requirements, offline, programs / "ansible-galaxy", folder, seconds)
    cached.ensure(folder, make.all, what=f"installing {requirements}", tell=tell)


class _Installation:
    """One installation of a file's collections and roles; `offline`: the folder of archives that they come from."""

    def __init__(self, requirements: Path, offline: Path | None, galaxy: Path, folder: Path, seconds: float) -> None:
        self.requirements, self.offline, self.galaxy = requirements.absolute(), offline, galaxy
        self.folder, self.seconds = folder, seconds

    def all(self) -> None:
        """Install what the file has of both."""
        contents = _read_requirements(self.requirements)
        for kind, path in (("collection", "collections"), ("role", "roles")):
            (self.folder / path).mkdir(parents=True)
            entries = contents.get(path, [])
            if not entries:
                continue
            if self.offline is None:
                self._run(kind, "-r", str(self.requirements))
            elif kind == "collection":
                self._run(kind, "--offline", *self._collections(entries))
            else:
                self._roles(entries)

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

    def _collections(self, entries: list[Any]) -> Iterator[str]:
        """Yield the archives of all collections of the folder; the requirements' own must be among them."""
        collections = [path for path in archives(self.offline) if is_collection(path)]
        for name in (str(entry.get("name", "") if isinstance(entry, Mapping) else entry) for entry in entries):
            begins = f"{name.replace('.', '-').partition(':')[0]}-"
            if not any(path.name.startswith(begins) for path in collections):
                raise self._lacks(f"no archive {begins}VERSION{ARCHIVE}")
        yield from (str(path.absolute()) for path in collections)

    def _roles(self, entries: list[Any]) -> None:
        others = [path for path in archives(self.offline) if not is_collection(path)]
        roles = []
        for entry in entries:
            role = entry if isinstance(entry, Mapping) else {"src": entry}
            name = str(role.get("name") or role.get("src")).rpartition("/")[2].removesuffix(".git")
            fitting = [p for p in others if p.name == name + ARCHIVE or p.name.startswith(f"{name}-")]
            if not fitting:
                raise self._lacks(f"no archive {name}{ARCHIVE} or {name}-VERSION{ARCHIVE}")
            roles.append({"src": f"file://{fitting[-1].absolute()}", "name": name})
        file = self.folder / "roles.yml"
        file.write_text(yaml.safe_dump({"roles": roles}), encoding="utf-8")
        self._run("role", "-r", str(file))

    def _lacks(self, what: str) -> BadInput:
        hint = f"`ansible-galaxy collection download -r {self.requirements} -p {self.offline}` gets collections"
        return BadInput(f"{self.offline} has {what}, which {self.requirements} asks for", hint=hint)


def _read_requirements(requirements: Path) -> Mapping[str, list[Any]]:
    """Return the file's collections and roles; a list alone is of roles, as ansible-galaxy reads it."""
    (content,) = cached.contents([requirements])
    document = yaml_text.document(
        content.decode(errors="replace"), requirements, hint="ansible-galaxy's requirements.yml"
    )
    if isinstance(document, list):
        return {"roles": document}
    if not isinstance(document, Mapping):
        raise BadInput(f"{requirements} has neither collections nor roles", hint="ansible-galaxy's requirements.yml")
    return {key: list(document.get(key) or []) for key in ("collections", "roles")}


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
