"""How ansible-playbook is called for a product: which one, with which settings, inventories and arguments."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

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
