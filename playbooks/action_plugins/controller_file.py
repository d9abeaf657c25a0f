"""Ansible action: have a file on the controller, with private permissions, whatever host the task runs for.

For what a role hands to the person or program that runs the playbooks (a kubeconfig): no connection is made. The text
never reaches a log when the task says `no_log`.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):  # type: ignore[misc]
    """Write `content` to `path` with `mode` (octal string, default 0600); atomic, check mode, reports changes."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Carry out the task."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(
            argument_spec={
                "path": {"type": "str", "required": True},
                "content": {"type": "str", "required": True, "no_log": True},
                "mode": {"type": "str", "default": "0600"},
            }
        )
        path, mode = Path(given["path"]).expanduser(), int(given["mode"], 8)
        try:
            result["changed"] = _differs(path, given["content"], mode)
            if result["changed"] and not self._task.check_mode:
                _write(path, given["content"], mode)
        except OSError as error:
            raise AnsibleActionFail(f"cannot write {path} on the controller: {error.strerror}") from error
        return result


def _differs(path: Path, content: str, mode: int) -> bool:
    try:
        return path.read_text(encoding="utf-8") != content or path.stat().st_mode & 0o7777 != mode
    except FileNotFoundError:
        return True


def _write(path: Path, content: str, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as sink:
            sink.write(content)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
