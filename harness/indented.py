"""YAML that the project writes for people and for yamllint: lists stand further in than their names."""

from __future__ import annotations

import yaml


class IndentedDumper(yaml.SafeDumper):
    """Writes such YAML: `yaml.dump(content, Dumper=IndentedDumper)`."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Begin a list or a mapping."""
        super().increase_indent(flow, False)
