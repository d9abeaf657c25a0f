"""Ansible callback: load plugins once, before the first task, and not in the process of each task for each host.

Nor does such a process collect garbage, for which it would copy the pages of the one that forked it.
"""

from __future__ import annotations

import gc
from typing import Any

from ansible.plugins import loader
from ansible.plugins.callback import CallbackBase

ACTIONS = ("assert", "command", "copy", "fail", "normal", "template", "validate_argument_spec")
# One filter and one test load all of them.
NAMES = {
    loader.action_loader: ACTIONS,
    loader.become_loader: ("sudo",),
    loader.connection_loader: ("ssh", "local"),
    loader.lookup_loader: ("file", "template"),
    loader.shell_loader: ("sh",),
    loader.filter_loader: ("default",),
    loader.test_loader: ("defined",),
}


class CallbackModule(CallbackBase):
    """Prints nothing, and needs no setting: Ansible finds it next to the playbooks."""

    CALLBACK_VERSION, CALLBACK_TYPE, CALLBACK_NAME = 2.0, "aggregate", "plugins_beforehand"

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Load plugins, of which this Ansible may lack some; then take what there is for no garbage."""
        for kind, names in NAMES.items():
            for name in names:
                kind.get(f"ansible.builtin.{name}", class_only=True)
        gc.collect()
        gc.freeze()
        gc.set_threshold(100_000, *gc.get_threshold()[1:])  # in place of Python's 700 or 2000
