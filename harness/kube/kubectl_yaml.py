"""YAML as kubectl reads it: which scalars are text, and what a tag means.

kubectl's library (sigs.k8s.io/yaml) turns YAML into JSON. PyYAML follows YAML 1.1 in more: it has dates, refuses tags
of applications, and takes for a number what Python does.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

import yaml

TRUE = frozenset({"y", "yes", "true", "on"})
STANDARD = "tag:yaml.org,2002:"
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
DATE, CLOCK = r"(\d{4})-(\d\d?)-(\d\d?)", r"(\d\d?):(\d\d?):(\d\d?)(?:\.\d+)?"
TIMES = tuple(  # with a zone behind a T, without one behind a blank
    re.compile(form, re.ASCII) for form in (DATE, rf"{DATE}[Tt]{CLOCK}(?:Z|[+-]\d\d:\d\d)", rf"{DATE} {CLOCK}")
)
LEAP_YEAR = 4  # for the year 0, which Python does not have
WHOLE = range(-(2**63), 2**64)
TAGGED = re.compile(r"(?:&\S+\s+)?!")
TEXT_BY_TAG = re.compile(r"(?:&\S+\s+)?!(?:<!>)?(?:\s|$)")  # the tag `!`, which libyaml does not keep
NOT_FINITE = (".inf", ".nan")  # which JSON does not have
MISFITS = ("null", "bool", "int", "float", "timestamp", "binary")  # tags that a value may not be of


class KubectlLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Takes plain scalars for what kubectl's YAML takes them for: no dates, no numbers in base 60, `y` as true.

    Attributes: misfits: values of the document that are not of their tag; none of them can be constructed.
    """

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._text = text
        self.misfits: list[yaml.ScalarNode] = []

    def document(self) -> yaml.Node | None:
        """Return the first document, each node with the tag that it has for kubectl; None where there is none.

        A list or mapping is that whatever its tag says, and a scalar with a tag of an application is text. So is a
        time, as it is written, and what is decoded from `!!binary`.

        Raises:
            yaml.YAMLError: the text is not YAML.
        """
        root: yaml.Node | None = self.get_node() if self.check_node() else None
        ahead, known = [(root, False)] if root is not None else [], set()
        while ahead:
            node, is_key = ahead.pop()
            if id(node) in known:
                continue
            known.add(id(node))
            if isinstance(node, yaml.SequenceNode):
                node.tag = f"{STANDARD}seq"
                ahead += [(item, False) for item in node.value]
            elif isinstance(node, yaml.MappingNode):
                node.tag = f"{STANDARD}map"
                ahead += [part for key, value in node.value for part in ((key, True), (value, False))]
            elif isinstance(node, yaml.ScalarNode):
                self._resolve(node, is_key)
        return root

    def _resolve(self, node: yaml.ScalarNode, is_key: bool) -> None:
        """Give a scalar the tag that it has for kubectl, and the value where that is not as it is written."""
        start, tag = node.start_mark.index, tag_of(node)
        if TEXT_BY_TAG.match(self._text, start):
            tag = "str"
        elif tag in ("null", "bool"):
            tag = tag if re.fullmatch(IMPLICIT[tag][0], node.value) else f"!!{tag}"
        elif tag in ("int", "float"):
            tag = self._number(node, tag, explicit=TAGGED.match(self._text, start) is not None)
        elif tag == "timestamp":
            tag = "str" if _is_time(node.value) else "!!timestamp"
        elif tag == "binary":
            tag = _decoded(node)
        elif not (tag == "merge" and is_key):
            tag = "str"
        node.tag = tag if tag.startswith("!!") else f"{STANDARD}{tag}"
        if node.tag.startswith("!!"):
            self.misfits.append(node)

    def _number(self, node: yaml.ScalarNode, tag: str, *, explicit: bool) -> str:
        """Return the tag of what is or is called a number; more than JSON has is text if nothing calls it a number."""
        digits = node.value.replace("_", "").lower()
        whole, point = (re.fullmatch(IMPLICIT[kind][0], node.value) is not None for kind in ("int", "float"))
        if not whole and (tag == "int" or not point or digits.endswith(NOT_FINITE)):
            return f"!!{tag}"
        try:
            number = _whole(digits) if whole else float(digits)
            finite = math.isfinite(float(number))
        except (OverflowError, ValueError):  # ValueError: of more digits than Python reads
            finite, number = False, 0
        if not finite:
            return f"!!{tag}" if explicit else "str"
        if explicit and tag == "int" and number not in WHOLE:
            return f"!!{tag}"
        node.value = str(number)
        return tag


def _whole(digits: str) -> int:
    old = re.fullmatch(r"([-+]?)0([0-7]+)", digits)  # an octal number without the o
    return int(f"{old[1]}0o{old[2]}" if old else digits, 0)


def _is_time(text: str) -> bool:
    parts = next((match.groups() for form in TIMES if (match := form.fullmatch(text))), None)
    if parts is None:
        return False
    year, month, day, hour, minute, second = (int(part) for part in (*parts, "0", "0", "0")[:6])
    try:
        datetime(year or LEAP_YEAR, month, day, hour, minute, second)
    except ValueError:
        return False
    return True


def _decoded(node: yaml.ScalarNode) -> str:
    try:
        node.value = base64.b64decode(re.sub(r"[\r\n]", "", node.value), validate=True).decode()
    except ValueError:
        return "!!binary"
    return "str"


def construct_boolean(_: Any, node: yaml.ScalarNode) -> bool:
    """Return what a scalar with the tag bool means."""
    return str(node.value).lower() in TRUE


def _construct_misfit(_: Any, node: yaml.ScalarNode) -> Any:
    raise ValueError(node.tag)


for _tag, (_pattern, _first) in IMPLICIT.items():
    KubectlLoader.add_implicit_resolver(f"{STANDARD}{_tag}", re.compile(rf"^{_pattern}$"), _first)
KubectlLoader.add_constructor(f"{STANDARD}bool", construct_boolean)
for _tag in MISFITS:
    KubectlLoader.add_constructor(f"!!{_tag}", _construct_misfit)


def tag_of(node: yaml.Node) -> str:
    """Return a node's tag, one of YAML's own by its short name: `str`, `int`, `seq`, ..."""
    return str(node.tag).removeprefix(STANDARD)
