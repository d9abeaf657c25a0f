"""Ansible action: run the module of this name as host_configuration is run."""

from __future__ import annotations

from ansible.plugins.loader import action_loader

ActionModule = action_loader.get("host_configuration", class_only=True)
