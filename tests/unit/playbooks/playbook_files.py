"""Where the playbooks are, their files as Python sees them, and their roles on this host."""

from __future__ import annotations

import atexit
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from types import ModuleType
from typing import Any

import yaml

from harness.yaml_text import LOADER
from tests.unit import ansible_programs

ANSIBLE = Path(sys.executable).parent / "ansible-playbook"
MODULE_PYTHON = Path(__file__).with_name("module_python.py")
PLAYBOOKS = Path(__file__).resolve().parents[3] / "playbooks"
ROLES = sorted(path for path in (PLAYBOOKS / "roles").iterdir() if path.is_dir())
ENTRIES = sorted(path for path in PLAYBOOKS.glob("*.yml") if path.name not in {"cluster.yml", "galaxy.yml"})
TASK_FILES = sorted(PLAYBOOKS.glob("roles/*/tasks/*.yml"))
PARTS = ("block", "rescue", "always")  # what of a task is tasks


@cache
def load(path: Path) -> Any:
    """Return a YAML file's content, to be read only; None where there is no such file."""
    return yaml.load(path.read_text(encoding="utf-8"), LOADER) if path.exists() else None  # noqa: S506 - a SafeLoader


def module(relative: str) -> ModuleType:
    """Import one of the playbooks' own modules or plugins by its path under playbooks/."""
    path = PLAYBOOKS / relative
    name = f"playbooks_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def tasks(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the tasks of a file, also those in blocks, those that rescue, and those that come always."""
    pending = list(load(path))
    while pending:
        task = pending.pop(0)
        pending += [inner for part in PARTS for inner in task.get(part, [])]
        yield task


@cache
def module_server() -> Path:
    """Return the socket of a server that runs modules for all tests of this process; it ends with its input."""
    library = Path(str(find_spec("ansible").origin)).parents[1]  # type: ignore[union-attr] # it is installed
    place = mkdtemp()
    atexit.register(shutil.rmtree, place, ignore_errors=True)  # unless the server has
    path = Path(place) / "modules"
    server = subprocess.Popen(
        [sys.executable, "-I", "-S", MODULE_PYTHON, path, library],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": "/usr/bin:/bin"},
        start_new_session=True,  # Ctrl-C is for this process, which ends it
    )
    atexit.register(server.communicate)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return path


def module_python(place: Path) -> Path:
    """Return a program for `ansible_python_interpreter`, written into a folder, which runs modules quickly."""
    program = place / "module-python"
    program.write_text(
        f'#!/bin/sh\n[ $# = 0 ] || exec {sys.executable} "$@"\n'
        f"exec {sys.executable} -I -S {MODULE_PYTHON} {module_server()}\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    return program


# What of a reset may run on this host, which may run machines and containers of others: the programs that a test plays
# and the variables that have to lead into its folder.
PLAYED: Mapping[tuple[str, str], tuple[frozenset[str], frozenset[str]]] = {
    ("reset", "kill"): (frozenset({"kill"}), frozenset({"reset_releases"})),
    ("reset", "nft"): (frozenset({"nft"}), frozenset()),
    ("reset", "files"): (frozenset({"findmnt"}), frozenset({"reset_paths", "reset_network_namespaces"})),
}
# Lists of a role that lead elsewhere by default, and what they have to be.
HARMLESS = {"reset_control_groups": ["none-of-them"], "reset_network_plugins": []}


def included(content: Any) -> Iterator[tuple[str, str]]:
    """Yield the roles that plays have and the file of each that is played."""
    if isinstance(content, Mapping):
        for action in ("include_role", "import_role"):
            for role in (content.get(action), content.get(f"ansible.builtin.{action}")):
                if role:
                    yield str(role["name"]), str(role.get("tasks_from", "main")).removesuffix(".yml")
        for role in content.get("roles", []):
            yield (role if isinstance(role, str) else str(role["role"])), "main"
    if isinstance(content, (Mapping, list)):
        for part in content.values() if isinstance(content, Mapping) else content:
            yield from included(part)


def unconfined(
    place: Path, plays: Sequence[Mapping[str, Any]], programs: Mapping[str, str], hosts: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Return what plays would take off this host."""
    reached = []
    values = {str(value) for own in hosts.values() for value in own.values()}
    for role, file in included([*plays]):
        chosen = {"reset", "absent"} & (values if "{{" in role + file else {role, file})
        if not chosen:
            continue
        played, inside = PLAYED.get((role, file), (None, frozenset()))
        if played is None:
            reached.append(f"{role}/{file}")
            continue
        given: Mapping[str, Any] = plays[0].get("vars", {})
        reached += [f"{role}/{file} without its own {name}" for name in sorted(played - programs.keys())]
        for name in sorted(inside):
            paths = given.get(name, [""])
            if not all(Path(path).is_relative_to(place) for path in (paths if isinstance(paths, list) else [paths])):
                reached.append(f"{role}/{file} with {name} outside of {place}")
        reached += [f"{role}/{file} with {name}" for name, value in HARMLESS.items() if given.get(name) != value]
    return reached


def run_here(
    place: Path,
    plays: Sequence[Mapping[str, Any]],
    programs: Mapping[str, str],
    options: Sequence[str] = (),
    /,
    **hosts: Mapping[str, Any],
) -> str:
    """Run plays on this host as if it were machines, all at once; return what Ansible said.

    Args:
        place: a folder, the variable `place`; `$place` in programs.
        plays: of all machines, unless one names its hosts; facts are not gathered. A task that a machine skips takes
            a process, too, so machines of different tasks are better in plays of their own.
        programs: text of shell scripts by name, which come before the host's own; `$machine` is the machine's name.
        options: of ansible-playbook, such as `--check`.  hosts: variables of each machine.

    Raises:
        AssertionError: they would take something off this host.
    """
    if reached := unconfined(place, plays, programs, hosts):
        raise AssertionError(f"this would take something off the host of the tests: {', '.join(reached)}")
    for name, text in programs.items():
        program = place / name
        program.write_text(f"#!/bin/sh\nplace={place}\n{text}", encoding="utf-8")
        program.chmod(0o755)
    environment = {"PATH": f"{place}:/usr/bin:/bin", "machine": "{{ inventory_hostname }}"}
    given = {"ansible_connection": "local", "place": str(place)}
    given["ansible_python_interpreter"] = str(module_python(place))
    inventory = {"all": {"hosts": {name: {**given, **own} for name, own in hosts.items()}}}
    whole = [{"hosts": "all", "gather_facts": False, "environment": environment, **play} for play in plays]
    (place / "hosts.yml").write_text(json.dumps(inventory), encoding="utf-8")
    (place / "play.yml").write_text(json.dumps(whole), encoding="utf-8")
    done = ansible_programs.run(
        [ANSIBLE, *options, "-i", place / "hosts.yml", place / "play.yml"],
        timeout=900,
        check=False,
        env={
            "PATH": "/usr/bin:/bin",
            "ANSIBLE_HOME": str(place / "ansible"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_ROLES_PATH": str(PLAYBOOKS / "roles"),
            "ANSIBLE_FILTER_PLUGINS": str(PLAYBOOKS / "filter_plugins"),
            "ANSIBLE_CALLBACK_PLUGINS": str(PLAYBOOKS / "callback_plugins"),
        },
    )
    return done.stdout


# A task that shows the groups which tasks before it have made, for `groups_of`.
SHOW_GROUPS: Mapping[str, Any] = {"ansible.builtin.debug": {"msg": "GROUPS {{ groups | to_json }}"}}


def groups_of(said: str) -> dict[str, list[str]]:
    """Return the machines of each group, by what Ansible said of SHOW_GROUPS."""
    shown = re.search(r"GROUPS (\{.*\})\"", said)
    assert shown is not None, said
    groups: dict[str, list[str]] = json.loads(shown.group(1).replace('\\"', '"'))
    return groups


def refusal_of(said: str, machine: str) -> str:
    """Return with which words Ansible refused a machine, "" where it did not."""
    refusal = re.search(rf"fatal: \[{machine}\]: .*?(?=\n\S|\Z)", said, re.DOTALL)
    return refusal.group() if refusal is not None else ""


def check_refusal(said: str, machine: str, remedy: str, *more: str) -> None:
    """Fail unless Ansible refused a machine with a remedy and more words, or did not, where the remedy is ""."""
    refusal = refusal_of(said, machine)
    assert bool(refusal) is bool(remedy), said
    assert [words for words in (remedy, *more) if refusal and words not in refusal] == [], refusal
