"""An Ansible action plugin: writes down what Ansible's connection to a host would use, and connects to nothing.

An action gets the very connection that a module would go through: its options come from variables under any of their
names, with templates filled in, from the environment, ansible.cfg and defaults, in Ansible's own order.
https://docs.ansible.com/ansible/latest/dev_guide/developing_plugins.html#action-plugins
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from typing import Any

from ansible import constants
from ansible.plugins.action import ActionBase

SECRET = ("password", "private_key", "private_key_passphrase", "become_pass")  # options: only whether they are set


class ActionModule(ActionBase):  # type: ignore[misc] # Ansible has no types
    """Writes a host's connection to a file of its own in the folder that its arguments name."""

    def run(self, tmp: Any = None, task_vars: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Write the connection, the host's groups among those that were asked for, and the values asked for."""
        variables, wanted = task_vars or {}, self._task.args
        connection, groups = self._connection, variables["groups"]
        written = {
            "host": variables["inventory_hostname"],
            "groups": {name: list(groups[name]) for name in wanted["groups"] if name in groups},
            "values": wanted["values"],
            "plugin": type(connection).__module__,
            "shell": connection._shell.SHELL_FAMILY,
            "options": self._options("connection", connection, variables),
            "become": None if connection.become is None else connection.become.name,
            "become_options": {}
            if connection.become is None
            else self._options("become", connection.become, variables),
        }
        with tempfile.NamedTemporaryFile("w", dir=wanted["folder"], suffix=".json", delete=False) as file:
            json.dump(written, file, default=str)
        return {"changed": False}

    def _options(self, kind: str, plugin: Any, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return each option's value, and where Ansible found it: "var: NAME", "env: NAME", a file, "default"."""
        names = constants.config.get_plugin_vars(kind, plugin._load_name)
        values = {name: self._templar.template(variables[name]) for name in names if name in variables}
        found = {}
        for option in plugin.option_definitions:
            value = plugin.get_option(option)
            _, origin = constants.config.get_config_value_and_origin(
                option, plugin_type=kind, plugin_name=plugin._load_name, variables=values
            )
            shown = bool(value) if option in SECRET else value
            found[option] = {"value": shown, "origin": str(origin)}
        return found
