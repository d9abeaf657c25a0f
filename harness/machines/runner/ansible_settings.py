"""What ansible-playbook is told by its environment: our callback plugin, and folders that no other run uses.

A variable replaces what the product's ansible.cfg says. So what is a list there is completed here, and only folders are
replaced: facts, sockets and temporary files that several cells keep in one place give a cell another one's machines.
What the file says is asked of Ansible itself.
https://docs.ansible.com/ansible/latest/reference_appendices/config.html
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from harness.machines.runner import callbacks
from harness.machines.runner.call import AnsibleCall
from harness.machines.runner.given import PlaybookInputs
from harness.spec import ansible_configuration as cfg
from harness.spec.ansible_configuration import Configuration, configuration

OWN_CALLBACKS = "ANSIBLE_CALLBACK_PLUGINS"
COLLECTIONS, ROLES = "ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_ROLES_PATH"
# By variable: the setting with a list of folders.
LISTS = {OWN_CALLBACKS: cfg.CALLBACKS, COLLECTIONS: cfg.COLLECTIONS, ROLES: cfg.ROLES}
SERVERS = re.compile(r"redis|memcache|mongo")  # caches whose connection is no folder: there a prefix has to do
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
