"""What ansible-playbook is told by its environment: our callback plugin, and folders that no other run uses.

A variable replaces what the product's ansible.cfg says. So what is a list there is completed here, and only folders are
replaced: facts, sockets and temporary files that several cells keep in one place give a cell another one's machines.
https://docs.ansible.com/ansible/latest/reference_appendices/config.html
"""

from __future__ import annotations

import os
import re
from configparser import ConfigParser, Error
from pathlib import Path

from harness.machines.runner import callbacks
from harness.machines.runner.call import AnsibleCall
from harness.machines.runner.given import PlaybookInputs

OWN_CALLBACKS = "ANSIBLE_CALLBACK_PLUGINS"
COLLECTIONS, ROLES = "ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_ROLES_PATH"
# By variable: the keys of a list of folders in a file, and Ansible's own value.
LISTS = {
    OWN_CALLBACKS: (("callback_plugins",), "~/.ansible/plugins/callback:/usr/share/ansible/plugins/callback"),
    COLLECTIONS: (("collections_path", "collections_paths"), "~/.ansible/collections:/usr/share/ansible/collections"),
    ROLES: (("roles_path",), "~/.ansible/roles:/usr/share/ansible/roles:/etc/ansible/roles"),
}
SERVERS = re.compile(r"redis|memcache|mongo")  # caches whose connection is no folder: there a prefix has to do
TEMPORARY = "tmp"
CONTROL_PATH = re.compile(r"""\s*-o\s*(["']?)ControlPath=[^\s"']*\1|\s*-S\s*\S+""")


def variables(given: PlaybookInputs, config: Path, call: AnsibleCall) -> dict[str, str]:
    """Return the environment variables of a run; make the folders that they name.

    Args:
        config: the product's ansible.cfg, which need not exist.
    """
    own = given.control / "ansible"
    for folder in (own, own / TEMPORARY):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    said = _read(config)
    return {
        "ANSIBLE_CONFIG": str(config),
        callbacks.EVENTS: str(given.events.absolute()),
        **({callbacks.CHANGES: "1"} if given.changes else {}),
        OWN_CALLBACKS: os.pathsep.join([str(callbacks.FOLDER), _listed(said, config.parent, OWN_CALLBACKS)]),
        **{
            name: os.pathsep.join([str(folder), _listed(said, config.parent, name)])
            for name, folder in call.libraries.items()
        },
        **_facts(said, own / "facts", given.facts),
        **_sockets(said, given.control),
        "ANSIBLE_LOCAL_TEMP": str(own),
        "TMPDIR": str(own / TEMPORARY),  # of tasks on this host
        "KUBECACHEDIR": str(own / "kube"),  # else kubectl believes what another guest at this address once served
        "ANSIBLE_PERSISTENT_CONTROL_PATH_DIR": str(own / "pc"),
        "ANSIBLE_NOCOLOR": "1",
        "PYTHONUNBUFFERED": "1",
        "PATH": f"{call.programs}{os.pathsep}{os.environ.get('PATH', '')}",
    }


def _read(config: Path) -> ConfigParser:
    """Return the product's settings; none where Ansible itself will say what is wrong with the file."""
    found = ConfigParser(inline_comment_prefixes=(";",), interpolation=None, strict=False)
    try:
        found.read(config, encoding="utf-8")
    except (Error, UnicodeDecodeError):
        return ConfigParser()
    return found


def _listed(said: ConfigParser, folder: Path, variable: str) -> str:
    """Return the folders that the product lists under a setting; paths in a file are relative to it."""
    if given := os.environ.get(variable):
        return given
    keys, default = LISTS[variable]
    listed = next((found for key in keys if (found := said.get("defaults", key, fallback=""))), default)
    paths = (path.strip().replace("{{CWD}}", str(folder)) for path in re.split(r"[:,]", listed) if path.strip())
    return os.pathsep.join(str(folder / Path(path).expanduser()) for path in paths)


def _facts(said: ConfigParser, folder: Path, prefix: str) -> dict[str, str]:
    """Return where facts are kept, if they are: in a folder of the cell's, or under keys of its own."""
    cache = _value("ANSIBLE_CACHE_PLUGIN", said, "defaults", "fact_caching")
    if SERVERS.search(cache):
        return {"ANSIBLE_CACHE_PLUGIN_PREFIX": prefix}
    kept = {"ANSIBLE_CACHE_PLUGIN_CONNECTION": str(folder), "ANSIBLE_INVENTORY_CACHE_CONNECTION": str(folder)}
    return {**kept, "ANSIBLE_CACHE_PLUGIN_PREFIX": prefix}


def _sockets(said: ConfigParser, control: Path) -> dict[str, str]:
    """Return where SSH's shared connections lie, whatever the product's own arguments for SSH say."""
    found = {"ANSIBLE_SSH_CONTROL_PATH_DIR": str(control)}
    if _value("ANSIBLE_SSH_CONTROL_PATH", said, "ssh_connection", "control_path"):
        found["ANSIBLE_SSH_CONTROL_PATH"] = "%(directory)s/a-%%C"
    arguments = _value("ANSIBLE_SSH_ARGS", said, "ssh_connection", "ssh_args")
    without = CONTROL_PATH.sub("", arguments).strip()
    return found if without == arguments.strip() else {**found, "ANSIBLE_SSH_ARGS": without}


def _value(variable: str, said: ConfigParser, section: str, key: str) -> str:
    """Return what a setting is without us: an environment variable's, or the file's; "" where neither has it."""
    return os.environ.get(variable) or said.get(section, key, fallback="") or ""
