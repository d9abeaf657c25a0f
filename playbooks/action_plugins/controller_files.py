"""Ansible action: have files on the controller, with private permissions, whatever host the task runs for.

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

MODE = 0o600


class ActionModule(ActionBase):  # type: ignore[misc]
    """Have each of `files` with mode 0600: {path, content}, or {path, source}, a file there that takes its place.

    Atomic, with check mode; reports changes.
    """

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Carry out the task."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(
            argument_spec={
                "files": {
                    "type": "list",
                    "elements": "dict",
                    "required": True,
                    "options": {
                        "path": {"type": "str", "required": True},
                        "content": {"type": "str", "no_log": True},
                        "source": {"type": "str"},
                    },
                    "mutually_exclusive": [("content", "source")],
                    "required_one_of": [("content", "source")],
                },
            }
        )
        result["changed"] = False
        for file in given["files"]:
            path = Path(file["path"]).expanduser()
            try:
                if file["source"] is not None:
                    result["changed"] = True
                    if not self._task.check_mode:
                        _take(path, Path(file["source"]).expanduser())
                elif _differs(path, file["content"]):
                    result["changed"] = True
                    if not self._task.check_mode:
                        _write(path, file["content"])
            except OSError as error:
                raise AnsibleActionFail(f"cannot write {path} on the controller: {error.strerror}") from error
        return result


def _differs(path: Path, content: str) -> bool:
    try:
        return path.read_bytes() != content.encode() or path.stat().st_mode & 0o7777 != MODE
    except FileNotFoundError:
        return True


def _take(path: Path, source: Path) -> None:
    os.chmod(source, MODE)
    os.replace(source, path)


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as sink:
            sink.write(content)
        os.chmod(temporary, MODE)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
