"""What Ansible makes of ansible.cfg and of its environment, as ansible-config says it.

Ansible fills in $VARIABLES, ~ and {{CWD}}, knows what a path is relative to and which keys an old file may have, and
takes environment variables before the file: nobody else reads such a file right.
https://docs.ansible.com/ansible/latest/cli/ansible-config.html
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.proc import run

CALLBACKS, COLLECTIONS, ROLES = "DEFAULT_CALLBACK_PLUGIN_PATH", "COLLECTIONS_PATHS", "DEFAULT_ROLES_PATH"
CONFIG_SECONDS = 60.0  # against hanging: Ansible starts slowly on a busy host


@dataclass(frozen=True)
class Configuration:
    """Settings by Ansible's names for them, and those of the connection `ssh`."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    ssh: Mapping[str, Any] = field(default_factory=dict)

    def listed(self, setting: str) -> list[str]:
        """Return the folders of a list, filled in."""
        return [str(folder) for folder in self.settings.get(setting) or []]


def configuration(programs: Path, folder: Path, env: Mapping[str, str], *, ssh: bool = True) -> Configuration:
    """Ask Ansible for its settings; nothing where it cannot say them: then it says itself what is wrong with a file.

    Args:
        programs: the folder of ansible-config; one that lacks it, or has an old one, is helped out by ours.
        folder: the working directory.  env: the environment variables of the run.
        ssh: whether settings of the connection are asked for, too.
    """
    settings = _dumped(programs, folder, env)
    plugins = _dumped(programs, folder, env, "-t", "connection", "ssh") if ssh else []
    connection: list[dict[str, Any]] = next((entry["ssh"] for entry in plugins if "ssh" in entry), [])
    return Configuration(_by_name(settings), _by_name(connection))


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
