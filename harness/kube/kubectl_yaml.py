"""YAML as kubectl reads it: which scalars are text, and what a tag means.

kubectl's library (sigs.k8s.io/yaml) turns YAML into JSON. PyYAML follows YAML 1.1 in more: it has dates, and refuses
tags of applications.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, ClassVar

import yaml

from harness.yaml_text import UNUSABLE

TRUE = frozenset({"y", "yes", "true", "on"})


class KubectlLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Takes plain scalars for what kubectl's YAML takes them for: no dates, no numbers in base 60, `y` as true."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def document(self) -> yaml.Node | None:
        """Return the first document, each node with the tag that it has for kubectl; None where there is none.

        Raises:
            yaml.YAMLError: the text is not YAML.
        """
        node: yaml.Node | None = self.get_node() if self.check_node() else None
        if node is not None:
            _resolve_tags(node)
        return node


# Scalars that are not text without a tag: what one looks like, and what it may begin with.
IMPLICIT: Mapping[str, tuple[str, list[str]]] = {
    "null": (r"(?:~|null|Null|NULL|)", ["~", "n", "N", ""]),
    "bool": (
        r"(?:y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)",
        list("yYnNtTfFoO"),
    ),
    "int": (
        r"[-+]?(?:0b_*[01][01_]*|0o?_*[0-7][0-7_]*|0x_*[0-9a-fA-F][0-9a-fA-F_]*|0_*|[1-9][0-9_]*)",
        list("-+0123456789"),
    ),
    "float": (
        r"(?:[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))",
        list("-+0123456789."),
    ),
    "merge": (r"<<", ["<"]),
}
STANDARD = "tag:yaml.org,2002:"
NOT_FINITE = (".inf", ".nan")  # which JSON does not have
BEYOND = re.compile(r"[-+]?[1-9][0-9]{309,}")  # more than a number of JSON can be: text
for _tag, (_pattern, _first) in IMPLICIT.items():
    KubectlLoader.add_implicit_resolver(f"{STANDARD}{_tag}", re.compile(rf"^{_pattern}$"), _first)


def construct_boolean(_: Any, node: yaml.ScalarNode) -> bool:
    """Return what a scalar with the tag bool means."""
    return str(node.value).lower() in TRUE


KubectlLoader.add_constructor(f"{STANDARD}bool", construct_boolean)


def _resolve_tags(root: yaml.Node) -> None:
    """Give each node the tag that it has for kubectl; one that is not of its tag keeps one that nothing constructs.

    A list or mapping is that whatever its tag says, and a scalar with a tag of an application is text. So is a time,
    as it is written, and what is decoded from `!!binary`.
    """
    ahead, known = [root], set()
    while ahead:
        node = ahead.pop()
        if id(node) in known:
            continue
        known.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            node.tag = f"{STANDARD}seq"
            ahead += node.value
        elif isinstance(node, yaml.MappingNode):
            node.tag = f"{STANDARD}map"
            ahead += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.ScalarNode):
            _resolve_scalar(node)


def _resolve_scalar(node: yaml.ScalarNode) -> None:
    tag = tag_of(node)
    if tag in ("null", "bool", "merge") and re.fullmatch(IMPLICIT[tag][0], node.value):
        return
    if tag in ("null", "bool"):
        node.tag = f"!!{tag}"
        return
    if tag == "timestamp":
        try:
            yaml.SafeLoader.construct_yaml_timestamp(yaml.SafeLoader(""), node)
        except UNUSABLE:
            node.tag = "!!timestamp"
            return
    elif tag == "binary":
        try:
            node.value = base64.b64decode(node.value.replace("\n", ""), validate=True).decode()
        except ValueError:
            node.tag = "!!binary"
            return
    if tag == "float" and node.value.strip("+-").lower() in NOT_FINITE:
        node.tag = "!!float"
    elif tag not in ("int", "float") or BEYOND.fullmatch(node.value):
        node.tag = f"{STANDARD}str"


def tag_of(node: yaml.Node) -> str:
    """Return a node's tag, one of YAML's own by its short name: `str`, `int`, `seq`, ..."""
    return str(node.tag).removeprefix(STANDARD)
