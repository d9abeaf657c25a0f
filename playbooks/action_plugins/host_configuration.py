"""Ansible action: run a module of the playbooks as one Python program that the connection feeds to the interpreter.

Ansible itself packs what a module imports of it, and each task compiles that on the machine: fifty files, which takes
longer than most of what these modules do. They use little of it, and their arguments are validated here. Whatever is
out of the ordinary is left to Ansible: an interpreter that has to be looked for, no pipelining, a task in background.
"""

from __future__ import annotations

import json
import runpy
import shlex
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.plugins.action import ActionBase
from ansible.plugins.action.normal import ActionModule as Normal

LIBRARY = Path(__file__).parents[1] / "library"
# What is sent after GIVEN, with what the modules use of Ansible's class of that name. What leaves the machine has no
# secrets, because connections show it when they are asked for details. As Ansible does, nothing is imported from where
# the login happens to be.
PROGRAM = """\
import sys
sys.path[:] = [folder for folder in sys.path if folder not in ("", ".")]
import json, types

GIVEN = json.loads(GIVEN)

class AnsibleModule:
    def __init__(self, argument_spec, supports_check_mode):
        self.params, self.check_mode, self.no_log_values = GIVEN["params"], GIVEN["check_mode"], set(GIVEN["secrets"])

    def exit_json(self, **result):
        print(json.dumps(self._shown({"changed": False, **result})))
        sys.exit(0)

    def fail_json(self, msg, **result):
        self.exit_json(msg=msg, failed=True, **result)

    def _shown(self, value):
        if isinstance(value, dict):
            return {key: self._shown(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._shown(one) for one in value]
        if isinstance(value, str):
            if value in self.no_log_values:
                return "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"
            for secret in sorted(filter(None, self.no_log_values), key=len, reverse=True):
                value = value.replace(secret, 8 * "*")
        return value

for name in ("ansible", "ansible.module_utils", "ansible.module_utils.basic"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["ansible.module_utils.basic"].AnsibleModule = AnsibleModule
exec(compile(GIVEN["module"], GIVEN["name"], "exec"), {"__name__": "__main__"})
"""


class ActionModule(Normal):  # type: ignore[misc]
    """Run the module of the playbooks' library that has the task's name."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Carry out the task."""
        name = self._task.action.rpartition(".")[2]
        file = LIBRARY / f"{name}.py"
        spec = _arguments(file)
        python = self._python(task_vars or {})
        if not python or _expands(self._task.args, spec):
            ended: dict[str, Any] = super().run(tmp, task_vars)
            return ended
        result: dict[str, Any] = ActionBase.run(self, tmp, task_vars)
        _, params = self.validate_argument_spec(argument_spec=spec)
        given = {
            "name": name,
            "module": file.read_text(encoding="utf-8"),
            "params": params,
            "secrets": [str(params[key]) for key, said in spec.items() if said.get("no_log") and params.get(key)],
            "check_mode": bool(self._task.check_mode),
        }
        command = " ".join(filter(None, (self._compute_environment_string(), shlex.quote(python), "-")))
        program = f"GIVEN = {json.dumps(given)!r}\n{PROGRAM}"
        return result | _read(self._low_level_execute_command(command, sudoable=True, in_data=program.encode()))

    def _python(self, task_vars: dict[str, Any]) -> str:
        """Return the machine's interpreter, "" where Ansible itself has to run the module."""
        if self._task.async_val or self._task.delegate_to or not self._is_pipelining_enabled("new"):
            return ""
        named = constants.config.get_config_value("INTERPRETER_PYTHON", variables=task_vars)
        python = str(self._templar.template(named))
        return python if python.startswith("/") and len(python.split()) == 1 else ""


def _arguments(file: Path) -> dict[str, Any]:
    """Return the specification of a module's arguments."""
    found: dict[str, Any] = runpy.run_path(str(file))["ARGUMENTS"]
    return found


def _expands(given: dict[str, Any], spec: dict[str, Any]) -> bool:
    """Tell whether a path names a home or a variable, which are the machine's."""
    paths = [given.get(key) for key, said in spec.items() if "path" in (said["type"], said.get("elements"))]
    return any(mark in str(path) for path in paths for mark in "~$")


def _read(done: dict[str, Any]) -> dict[str, Any]:
    """Return what a module came to."""
    lines = [line for line in done.get("stdout", "").splitlines() if line.startswith("{")]
    try:
        result: dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError):
        return {
            "failed": True,
            "msg": f"MODULE FAILURE: it ended with status {done.get('rc')} and without a result",
            "module_stdout": done.get("stdout", ""),
            "module_stderr": done.get("stderr", ""),
            "rc": done.get("rc"),
        }
    return result
