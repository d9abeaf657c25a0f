"""What ansible-playbook is told by its environment: our callback plugin, and folders that no other run uses.

A variable replaces what the product's ansible.cfg says. So what is a list there is completed here, and only folders are
replaced: facts, sockets and temporary files that several cells keep in one place give a cell another one's machines.
What the file says is asked of ansible-config, which fills in $VARIABLES, ~ and {{CWD}} and knows what a path is
relative to.
https://docs.ansible.com/ansible/latest/reference_appendices/config.html
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.machines.runner import callbacks
from harness.machines.runner.call import AnsibleCall
from harness.machines.runner.given import PlaybookInputs
from harness.proc import run

OWN_CALLBACKS = "ANSIBLE_CALLBACK_PLUGINS"
COLLECTIONS, ROLES = "ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_ROLES_PATH"
LISTS = {  # by variable: the setting with a list of folders, as ansible-config calls it
    OWN_CALLBACKS: "DEFAULT_CALLBACK_PLUGIN_PATH",
    COLLECTIONS: "COLLECTIONS_PATHS",
    ROLES: "DEFAULT_ROLES_PATH",
}
CONFIG_SECONDS = 60.0  # against hanging: Ansible starts slowly on a busy host
SERVERS = re.compile(r"redis|memcache|mongo")  # caches whose connection is no folder: there a prefix has to do
TEMPORARY = "tmp"
CONTROL_PATH = re.compile(r"""\s*-o\s*(["']?)ControlPath=[^\s"']*\1|\s*-S\s*\S+""")


@dataclass(frozen=True)
class Configuration:
    """What Ansible makes of ansible.cfg and its environment: settings by name, and those of the connection `ssh`."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    ssh: Mapping[str, Any] = field(default_factory=dict)

    def listed(self, variable: str) -> list[str]:
        """Return the folders of a list, filled in."""
        return [str(folder) for folder in self.settings.get(LISTS[variable]) or []]


def variables(given: PlaybookInputs, config: Path, call: AnsibleCall, folder: Path) -> dict[str, str]:
    """Return the environment variables of a run; make the folders that they name.

    Args:
        config: the product's ansible.cfg, which need not exist.
        folder: the run's working directory.
    """
    own = given.control / "ansible"
    for made in (own, own / TEMPORARY):
        made.mkdir(mode=0o700, parents=True, exist_ok=True)
    # PWD: that of a shell in the folder, for ansible.cfg.
    said = {"ANSIBLE_CONFIG": str(config), "PWD": str(folder.absolute()), "ANSIBLE_LOCAL_TEMP": str(own)}
    known = configuration(call.programs, folder, said)
    return {
        **said,
        callbacks.EVENTS: str(given.events.absolute()),
        **({callbacks.CHANGES: "1"} if given.changes else {}),
        OWN_CALLBACKS: os.pathsep.join([str(callbacks.FOLDER), *known.listed(OWN_CALLBACKS)]),
        **{name: os.pathsep.join([str(library), *known.listed(name)]) for name, library in call.libraries.items()},
        **_facts(known, own / "facts", given.facts),
        **_sockets(known, given.control),
        "TMPDIR": str(own / TEMPORARY),  # of tasks on this host
        "KUBECACHEDIR": str(own / "kube"),  # else kubectl believes what another guest at this address once served
        "ANSIBLE_PERSISTENT_CONTROL_PATH_DIR": str(own / "pc"),
        "ANSIBLE_NOCOLOR": "1",
        "PYTHONUNBUFFERED": "1",
        "PATH": f"{call.programs}{os.pathsep}{os.environ.get('PATH', '')}",
    }


def configuration(programs: Path, folder: Path, env: Mapping[str, str]) -> Configuration:
    """Ask Ansible for its settings; nothing where it cannot say them: then it says itself what is wrong with a file.

    Args:
        programs: the folder of ansible-config; one that lacks it, or has an old one, is helped out by ours.
        folder: the working directory.  env: the environment variables of the run.
    """
    settings = _dumped(programs, folder, env)
    plugins = _dumped(programs, folder, env, "-t", "connection", "ssh")
    ssh: list[dict[str, Any]] = next((entry["ssh"] for entry in plugins if "ssh" in entry), [])
    return Configuration(_by_name(settings), _by_name(ssh))


def _dumped(programs: Path, folder: Path, env: Mapping[str, str], *words: str) -> list[dict[str, Any]]:
    for place in dict.fromkeys((programs, Path(sys.executable).parent)):
        program = (place / "ansible-config").absolute()
        if not program.exists():
            continue
        argv = (str(program), "dump", *words, "--format", "json")
        done = run(argv, timeout=CONFIG_SECONDS, check=False, cwd=folder, env=env)
        if done.returncode == 0:
            dumped: list[dict[str, Any]] = json.loads(done.stdout[done.stdout.index("[") :])
            return dumped
    return []


def _by_name(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {entry["name"]: entry["value"] for entry in entries if "name" in entry}


def _facts(known: Configuration, folder: Path, prefix: str) -> dict[str, str]:
    """Return where facts are kept, if they are: in a folder of the cell's, or under keys of its own."""
    if SERVERS.search(str(known.settings.get("CACHE_PLUGIN") or "")):
        return {"ANSIBLE_CACHE_PLUGIN_PREFIX": prefix}
    kept = {"ANSIBLE_CACHE_PLUGIN_CONNECTION": str(folder), "ANSIBLE_INVENTORY_CACHE_CONNECTION": str(folder)}
    return {**kept, "ANSIBLE_CACHE_PLUGIN_PREFIX": prefix}


def _sockets(known: Configuration, control: Path) -> dict[str, str]:
    """Return where SSH's shared connections lie, whatever the product's own arguments for SSH say."""
    sockets = {"ANSIBLE_SSH_CONTROL_PATH_DIR": str(control)}
    if known.ssh.get("control_path"):
        sockets["ANSIBLE_SSH_CONTROL_PATH"] = "%(directory)s/a-%%C"
    arguments = str(known.ssh.get("ssh_args") or "")
    without = CONTROL_PATH.sub("", arguments).strip()
    return sockets if without == arguments.strip() else {**sockets, "ANSIBLE_SSH_ARGS": without}
