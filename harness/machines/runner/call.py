"""The call of ansible-playbook: which one, its inputs, its environment and the folders that no other run uses.

A variable replaces what the product's ansible.cfg says. So what is a list there is completed here, and only folders are
replaced: facts, sockets and temporary files that several cells keep in one place give a cell another one's machines.
What the file says is asked of Ansible itself.
https://docs.ansible.com/ansible/latest/reference_appendices/config.html
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.machines.runner import callbacks
from harness.machines.runner.playbook_output import play_of, task_of
from harness.spec import playbook_files as cfg
from harness.spec.playbook_files import Configuration, configuration

VARS_FOLDERS = ("group_vars", "host_vars")  # Ansible reads them beside an inventory


@dataclass(frozen=True)
class AnsibleCall:
    """What is the same in every call for a phase.

    programs: the folder of ansible-playbook.  config: the ansible.cfg; None: the one beside the playbook.
    inventories: besides the cell's own.  arguments: put before the playbook.
    libraries: folders with collections and roles, by the environment variable that lists such folders.
    """

    programs: Path = field(default_factory=lambda: Path(sys.executable).parent)
    config: Path | None = None
    inventories: tuple[Path, ...] = ()
    arguments: tuple[str, ...] = ()
    libraries: Mapping[str, Path] = field(default_factory=dict)

    def config_for(self, playbook: Path) -> Path:
        """Return the ansible.cfg of a playbook, which need not exist."""
        return self.config if self.config is not None else playbook.parent / "ansible.cfg"

    def argv(self, playbook: Path, hosts: Path, extra: Path) -> list[str]:
        """Return the command that a person could run by hand; the cell's inventory comes last, so that it wins."""
        others = [path for path in self.inventories if path.name not in VARS_FOLDERS]
        inventories = [word for path in (*others, hosts) for word in ("-i", str(path))]
        return [
            str(self.programs / "ansible-playbook"),
            *inventories,
            "-e",
            f"@{extra}",
            *self.arguments,
            str(playbook),
        ]

    def link_vars(self, inventory: Path) -> None:
        """Put folders of variables beside the cell's inventory, where Ansible finds them."""
        for path in self.inventories:
            if path.name in VARS_FOLDERS:
                link = inventory.parent / path.name
                link.unlink(missing_ok=True)
                link.symlink_to(path.absolute())


@dataclass(frozen=True)
class PlaybookInputs:
    """What a playbook is run with, wherever its machines come from.

    hosts, variables: the inventory and the extra variables, as files.
    events: the file that gets the run's failures, a line of JSON each.
    control: the folder of shared SSH connections and of Ansible's own files; short, because sockets lie in it.
    facts: what the keys of kept facts begin with, so that no other run takes them for its own.
    machines: the machines' names, by address and port.
    tunnels: the file that says how they are reached through the infra cluster's API; None: at their own addresses.
    changes: whether the file of failures also gets each task that changed something.
    """

    hosts: Path
    variables: Path
    events: Path
    control: Path
    facts: str
    machines: Mapping[tuple[str, int], str] = field(default_factory=dict)
    tunnels: Path | None = None
    changes: bool = False


def _ignore(_: str) -> None:
    """Hear nothing."""


@dataclass(frozen=True)
class Listener:
    """Who is told how a playbook goes on: each play's and each task's name as it begins, and each line of output.

    A play or a task is told before its line is.
    """

    play: Callable[[str], None] = _ignore
    task: Callable[[str], None] = _ignore
    line: Callable[[str], None] = _ignore

    def hear(self, line: str) -> None:
        """Tell what a line of output says."""
        if (name := play_of(line)) is not None:
            self.play(name)
        elif (name := task_of(line)) is not None:
            self.task(name)
        self.line(line)


OWN_CALLBACKS = "ANSIBLE_CALLBACK_PLUGINS"
COLLECTIONS, ROLES = "ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_ROLES_PATH"
# By variable: the setting with a list of folders.
LISTS = {OWN_CALLBACKS: cfg.CALLBACKS, COLLECTIONS: cfg.COLLECTIONS, ROLES: cfg.ROLES}
SERVERS = re.compile(r"redis|memcache|mongo")  # caches whose connection is not a folder: there a prefix has to do
TEMPORARY = "tmp"
CONTROL_PATH = re.compile(r"""\s*-o\s*(["']?)ControlPath=[^\s"']*\1|\s*-S\s*\S+""")


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
        OWN_CALLBACKS: os.pathsep.join([str(callbacks.FOLDER), *known.listed(LISTS[OWN_CALLBACKS])]),
        **{
            name: os.pathsep.join([str(library), *known.listed(LISTS[name])])
            for name, library in call.libraries.items()
        },
        **_facts(known, own / "facts", given.facts),
        **_sockets(known, given.control),
        "TMPDIR": str(own / TEMPORARY),  # of tasks on this host
        "KUBECACHEDIR": str(own / "kube"),  # else kubectl believes what another guest at this address once served
        "ANSIBLE_PERSISTENT_CONTROL_PATH_DIR": str(own / "pc"),
        "ANSIBLE_NOCOLOR": "1",
        "PYTHONUNBUFFERED": "1",
        "PATH": f"{call.programs}{os.pathsep}{os.environ.get('PATH', '')}",
    }


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
