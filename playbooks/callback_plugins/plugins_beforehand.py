"""Ansible callback: do once, before the first task, what the process of each task would do again.

Ansible executes each task for each host in a process that is forked for it. What such a process loads is lost with it,
so each loaded the same filters, lookups and connections, which took longer than most of what they did. Each also
collected garbage: it went through all objects of the first one, and so got copies of their pages.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

from ansible.plugins import loader
from ansible.plugins.callback import CallbackBase

OWN_ACTIONS = [path.stem for path in (Path(__file__).parents[1] / "action_plugins").glob("*.py")]
BUILTIN_ACTIONS = [
    f"ansible.builtin.{name}"
    for name in ("assert", "command", "copy", "fail", "normal", "template", "validate_argument_spec")
]
PLUGINS = {
    loader.action_loader: [*OWN_ACTIONS, *BUILTIN_ACTIONS],
    loader.become_loader: ["ansible.builtin.sudo"],
    loader.connection_loader: ["ansible.builtin.ssh"],
    loader.lookup_loader: ["ansible.builtin.file", "ansible.builtin.template"],
    loader.shell_loader: ["ansible.builtin.sh"],
}
ANY = {loader.filter_loader: "ansible.builtin.default", loader.test_loader: "ansible.builtin.defined"}  # loads all
SOME_GARBAGE = 100_000  # objects, in place of Python's 700 or 2000: more than a task makes


class CallbackModule(CallbackBase):
    """Prints nothing, and needs no setting: Ansible finds it next to the playbooks."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "plugins_beforehand"

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Load plugins, of which this Ansible may lack some; then take what there is for no garbage."""
        for kind, names in PLUGINS.items():
            for name in names:
                kind.get(name, class_only=True)
        for kind, name in ANY.items():
            kind.get(name)
        gc.collect()
        gc.freeze()
        gc.set_threshold(SOME_GARBAGE, *gc.get_threshold()[1:])
