"""An Ansible callback plugin: writes each failure, and how the run ended, as a line of JSON; on request each change.

Ansible's text does not say whether a failure was rescued, so nobody can tell from it which one ended a play. This runs
inside ansible-playbook, perhaps of another environment than ours, and so imports nothing of the harness.
https://docs.ansible.com/ansible/latest/dev_guide/developing_plugins.html#callback-plugins
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: vmatrix_events
type: notification
short_description: write failures as lines of JSON
description:
  - Writes each failed task and each unreachable host, and how the run ended, as a line of JSON.
options:
  events:
    description: The file to append to; without it nothing is written.
    env: [{name: ANSIBLE_VMATRIX_EVENTS}]
  changes:
    description: If it is set, each task that changed something is written, too.
    env: [{name: ANSIBLE_VMATRIX_CHANGES}]
"""
KEPT = ("msg", "reason", "censored", "rc", "stdout_lines", "stderr_lines", "blame")  # of a result; others may be large
LINES = 200  # of a command's output, its last


class CallbackModule(CallbackBase):  # type: ignore[misc] # Ansible has no types
    """Writes failures; Ansible calls the methods, by these names."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "vmatrix_events"
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Begin with no play."""
        super().__init__(*arguments, **options)
        self._play: Any = None

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Keep the play: failures are told with it."""
        self._play = play

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Write a failed task down; `ignore_errors`: whether the play goes on for its host all the same."""
        task = _of(result, "task")
        pardon = "ignored" if ignore_errors else "rescued" if _rescued(task) else ""
        self._write("failed", result, pardon)

    def v2_runner_on_ok(self, result: Any) -> None:
        """Write down a task that changed something, where that is asked for."""
        if os.environ.get("ANSIBLE_VMATRIX_CHANGES") and _of(result, "result").get("changed"):
            self._write("changed", result, "")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Write down that a host could not be reached."""
        self._write("unreachable", result, "ignored" if _of(result, "task").ignore_unreachable else "")

    def v2_playbook_on_no_hosts_remaining(self) -> None:
        """Write down that a play ended before its last task."""
        _append({"event": "stopped"})

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Write down which hosts had a task, how many failures each is held to have, and that the run has ended."""
        hosts = sorted(stats.processed)
        _append({"event": "end", "hosts": hosts, "failed": dict(stats.failures), "unreachable": dict(stats.dark)})

    def _write(self, event: str, result: Any, pardon: str) -> None:
        task, found = _of(result, "task"), _of(result, "result")
        item, found = _failed_item(found)
        share = getattr(self._play, "max_fail_percentage", None)
        _append(
            {
                "event": event,
                "play": str(self._play.get_name()).strip() if self._play is not None else "",
                "task": str(task.get_name()).strip(),
                "handler": type(task).__name__ == "Handler",
                "host": str(_of(result, "host").get_name()),
                "pardon": pardon,
                "item": item,
                "tolerant": share is not None,
                "result": {key: _kept(found[key]) for key in KEPT if key in found},
            }
        )


def _of(result: Any, name: str) -> Any:
    """Return a part of a result: without an underscore since ansible-core 2.19."""
    return getattr(result, name) if hasattr(type(result), name) else getattr(result, f"_{name}")


def _rescued(task: Any) -> bool:
    """Tell whether a failed task lies in the tasks of a block that has a rescue, at any depth."""
    inner, outer = task, task._parent
    while outer is not None:
        if getattr(outer, "rescue", None) and any(one._uuid == inner._uuid for one in outer.block):
            return True
        inner, outer = outer, outer._parent
    return False


def _failed_item(result: Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any]]:
    """Return the first item of a loop that failed, as text, and its result; a task without a loop is its own."""
    for one in result.get("results") or []:
        if isinstance(one, Mapping) and (one.get("failed") or one.get("unreachable")):
            label = one.get("_ansible_item_label", one.get(str(one.get("ansible_loop_var", "item"))))
            return str(label), one
    return None, result


def _kept(value: Any) -> Any:
    return value[-LINES:] if isinstance(value, list) else value


def _append(event: Mapping[str, Any]) -> None:
    path = os.environ.get("ANSIBLE_VMATRIX_EVENTS")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(event, default=str) + "\n")
