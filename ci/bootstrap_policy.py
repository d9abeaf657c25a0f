"""Roles and bindings that kube-apiserver makes: `python -m ci.bootstrap_policy MINOR FILE...` writes matrix/policy.

FILE is what `kubectl get clusterroles,clusterrolebindings,roles,rolebindings -A -o yaml` prints of an API server with
default feature gates, or a list in plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata of that release's source,
but for cluster-roles-featuregates.yaml. Objects without the label of the bootstrap policy are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.validate.manifests import key_of, place_of, subjects_of
from harness.validate.topics.rbac import AGGREGATES

LABEL = ("kubernetes.io/bootstrapping", "rbac-defaults")
FOLDER = Path(__file__).parents[1] / "matrix" / "policy"
HEAD = "# What kube-apiserver {minor} grants by itself: made by `python -m ci.bootstrap_policy`.\n"


class Inline(dict[str, Any]):
    """A mapping that is written in one line."""


class Listed(yaml.SafeDumper):
    """Writes a list's items below its key, as people do."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent by one level."""
        super().increase_indent(flow, False)


def _inline(dumper: yaml.SafeDumper, one: Inline) -> yaml.Node:
    return dumper.represent_mapping("tag:yaml.org,2002:map", one, flow_style=True)


Listed.add_representer(Inline, _inline)


def main(argv: Sequence[str]) -> int:
    """Write the file of a minor; return 0."""
    minor, *files = argv
    found = dict(sorted(entry for file in files for entry in _entries(Path(file))))
    content: dict[str, Any] = {"kubernetes": minor, "roles": {}, "bindings": {}}
    for (part, name), one in found.items():
        content[part][name] = one
    text = yaml.dump(content, Dumper=Listed, default_flow_style=None, sort_keys=False, width=1000)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{minor}.yml").write_text(HEAD.format(minor=minor) + text, encoding="utf-8")
    return 0


def _entries(file: Path) -> Iterator[tuple[tuple[str, str], Any]]:
    for one in yaml.safe_load(file.read_text(encoding="utf-8"))["items"]:
        meta = one["metadata"]
        if (meta.get("labels") or {}).get(LABEL[0]) != LABEL[1]:
            continue
        place = place_of(key_of(one))
        if "roleRef" in one:
            role = f"{one['roleRef']['kind']} {one['roleRef']['name']}"
            yield ("bindings", place), Inline(role=role, subjects=sorted(subjects_of(one)))
        else:
            yield ("roles", place), _content(one)


def _content(role: Any) -> dict[str, Any]:
    """Return a role's rules or whose it takes, and which roles take its own."""
    labels = role["metadata"].get("labels") or {}
    joins = sorted(name.removeprefix(AGGREGATES) for name in labels if name.startswith(AGGREGATES))
    selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    takes = sorted(label.removeprefix(AGGREGATES) for one in selectors for label in one["matchLabels"])
    found: dict[str, Any] = {**({"joins": joins} if joins else {}), **({"takes": takes} if takes else {})}
    return Inline(found) if takes else {**found, "rules": [Inline(rule) for rule in role.get("rules") or ()]}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
