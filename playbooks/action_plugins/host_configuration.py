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
from ansible.module_utils.common.parameters import remove_values
from ansible.plugins.action import ActionBase
from ansible.plugins.action.normal import ActionModule as Normal

LIBRARY = Path(__file__).parents[1] / "library"
# In place of Ansible's: what the modules use of it.
PROGRAM = """\
import json, sys, types

GIVEN = json.loads({given!r})

class AnsibleModule:
    def __init__(self, argument_spec, supports_check_mode):
        self.params, self.check_mode, self.no_log_values = GIVEN["params"], GIVEN["check_mode"], set()

    def exit_json(self, **result):
        print(json.dumps({{"result": {{"changed": False, **result}}, "secrets": sorted(self.no_log_values)}}))
        sys.exit(0)

    def fail_json(self, msg, **result):
        self.exit_json(msg=msg, failed=True, **result)

for name in ("ansible", "ansible.module_utils", "ansible.module_utils.basic"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["ansible.module_utils.basic"].AnsibleModule = AnsibleModule
exec(compile(GIVEN["module"], GIVEN["name"], "exec"), {{"__name__": "__main__"}})
"""


class ActionModule(Normal):  # type: ignore[misc]
    """Run the module of the playbooks' library that has the task's name."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Carry out the task."""
        python = self._python(task_vars or {})
        if not python:
            ended: dict[str, Any] = super().run(tmp, task_vars)
            return ended
        result: dict[str, Any] = ActionBase.run(self, tmp, task_vars)
        name = self._task.action.rpartition(".")[2]
        file = LIBRARY / f"{name}.py"
        spec = _arguments(file)
        _, params = self.validate_argument_spec(argument_spec=spec)
        given = {
            "name": name,
            "module": file.read_text(encoding="utf-8"),
            "params": params,
            "check_mode": bool(self._task.check_mode),
        }
        command = " ".join(filter(None, (self._compute_environment_string(), shlex.quote(python), "-")))
        program = PROGRAM.format(given=json.dumps(given))
        done = self._low_level_execute_command(command, sudoable=True, in_data=program.encode())
        secrets = {str(params[key]) for key, said in spec.items() if said.get("no_log") and params.get(key)}
        return {**result, **_read(done, secrets)}

    def _python(self, task_vars: dict[str, Any]) -> str:
        """Return the machine's interpreter, "" where Ansible itself has to run the module."""
        if self._task.async_val or not self._is_pipelining_enabled("new"):
            return ""
        named = constants.config.get_config_value("INTERPRETER_PYTHON", variables=task_vars)
        python = str(self._templar.template(named))
        return "" if python.startswith("auto") else python


def _arguments(file: Path) -> dict[str, Any]:
    """Return the specification of a module's arguments."""
    found: dict[str, Any] = runpy.run_path(str(file))["ARGUMENTS"]
    return found


def _read(done: dict[str, Any], secrets: set[str]) -> dict[str, Any]:
    """Return what a module came to, without what nobody may see."""
    lines = [line for line in done.get("stdout", "").splitlines() if line.startswith("{")]
    try:
        said = json.loads(lines[-1])
        result: dict[str, Any] = remove_values(said["result"], secrets | set(said["secrets"]))
    except (IndexError, ValueError, KeyError, TypeError):
        return {
            "failed": True,
            "msg": f"MODULE FAILURE: it ended with status {done.get('rc')} and without a result",
            "module_stdout": done.get("stdout", ""),
            "module_stderr": done.get("stderr", ""),
            "rc": done.get("rc"),
        }
    return result
