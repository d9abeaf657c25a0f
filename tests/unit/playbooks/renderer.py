"""Ansible as a program that renders templates for requests, one a line of JSON, as long as its input is open.

Files of variables are read once. Each request gets the variables that a task of a play on a host would have: those of
the inventory, Ansible's own, and `--extra-vars` over them. https://docs.ansible.com/ansible/latest/api/index.html
No template changes a variable, so the lookup of templates need not copy all of them, deeply, for each. A text is
compiled once: Ansible compiles the text of a variable each time that another one asks for it, hundreds of times in a
request.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ansible import context
from ansible.inventory.manager import InventoryManager
from ansible.module_utils.common.collections import ImmutableDict
from ansible.parsing.dataloader import DataLoader
from ansible.playbook import Playbook
from ansible.plugins.loader import init_plugin_loader, lookup_loader
from ansible.template import Templar
from ansible.utils import vars as ansible_vars
from ansible.vars.manager import VariableManager
from jinja2 import Environment

PLAY = Path(__file__).with_name("render.yml")
# What the text of a template may choose for itself: docs/templates of Ansible, `#jinja2:`.
SYNTAX = (
    *(f"{part}_{end}_string" for part in ("block", "variable", "comment") for end in ("start", "end")),
    *("line_statement_prefix", "line_comment_prefix"),
    *("trim_blocks", "lstrip_blocks", "newline_sequence", "keep_trailing_newline"),
)


def compile_once() -> None:
    """Have every Jinja environment of this process keep the code of each text, by all that the code hangs on.

    Since ansible-core 2.19, that is also whether backslashes in expressions are escaped, which is ambient.
    """
    plain, code = Environment.compile, {}
    escaping = getattr(sys.modules.get("ansible._internal._templating._jinja_bits"), "_TemplateCompileContext", None)

    def compiled(self: Environment, source: Any, name: Any = None, filename: Any = None, *more: Any) -> Any:
        if not isinstance(source, str):
            return plain(self, source, name, filename, *more)
        ambient = escaping.current(optional=True) if escaping else None
        syntax = tuple(getattr(self, field) for field in SYNTAX)
        key = (source, name, filename, more, type(self), syntax, ambient and ambient.escape_backslashes)
        if key not in code:
            code[key] = plain(self, source, name, filename, *more)
        return code[key]

    Environment.compile = compiled  # type: ignore[method-assign,assignment]


class Renderer:
    """Ansible with the files that it has read; sources: files of variables, the later over the earlier."""

    def __init__(self, sources: list[str]) -> None:
        init_plugin_loader([])
        lookup = lookup_loader.get("ansible.builtin.template", class_only=True)
        vars(sys.modules[lookup.__module__])["deepcopy"] = dict
        compile_once()
        self._loader = DataLoader()
        self._known = self._extra_vars(*(f"@{source}" for source in sources))
        self._inventories: dict[str, InventoryManager] = {}

    def _extra_vars(self, *arguments: str) -> dict[str, Any]:
        """Return what arguments of `--extra-vars` say; Ansible keeps the variables that a process began with."""
        context.CLIARGS = ImmutableDict(extra_vars=arguments)
        vars(ansible_vars.load_extra_vars).pop("extra_vars", None)
        return dict(ansible_vars.load_extra_vars(self._loader))

    def rendered(self, inventory: str, target: str, given: dict[str, Any]) -> dict[str, str]:
        """Return the text of each template of the play, by name."""
        if inventory not in self._inventories:
            self._inventories[inventory] = InventoryManager(loader=self._loader, sources=[inventory])
        hosts = self._inventories[inventory]
        own = self._extra_vars(json.dumps({**given, "target": target}))
        ansible_vars.load_extra_vars.extra_vars = ansible_vars.combine_vars(self._known, own)
        variables = VariableManager(loader=self._loader, inventory=hosts)
        (play,) = Playbook.load(str(PLAY), variable_manager=variables, loader=self._loader).get_plays()
        task = play.get_tasks()[0][0]
        known = variables.get_vars(play=play, host=hosts.get_host(target), task=task)
        made = Templar(loader=self._loader, variables=known).template(task.args["msg"])
        return made if isinstance(made, dict) else json.loads(made)


def main() -> None:
    """Serve requests; what a template raises is an answer, too."""
    renderer = Renderer(sys.argv[1:])
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"rendered": renderer.rendered(**json.loads(line))}
        except Exception as error:  # noqa: BLE001 - the test shows it
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
