"""Rules of jobs and workflows: which one fits a pipeline's variables; what is not spoken here is refused by name.

https://docs.gitlab.com/ci/jobs/job_rules/#cicd-variable-expressions
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.gitlab.server.model import NotSpoken

SPOKEN = {"if", "when", "interruptible", "allow_failure", "variables", "auto_cancel"}
TOKEN = re.compile(
    r"""\s*(?:(?P<sign>==|!=|=~|!~|&&|\|\||[()])|\$(?P<variable>\w+)|"(?P<double>[^"]*)"|'(?P<single>[^']*)'"""
    r"""|/(?P<pattern>(?:[^/\\]|\\.)+)/(?P<flags>[ims]*)|(?P<null>null))"""
)
Value = str | re.Pattern[str] | None
COMPARED: dict[str, Callable[[Value, Value], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "=~": lambda left, right: _matches(left, right),
    "!~": lambda left, right: not _matches(left, right),
}


def fitting(rules: Sequence[Mapping[str, Any]], variables: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Return the first rule that fits; None when none does."""
    for rule in rules:
        if unknown := set(rule) - SPOKEN:
            raise NotSpoken(f"rules: {', '.join(sorted(unknown))}")
        if "if" not in rule or true(str(rule["if"]), variables):
            return rule
    return None


def true(expression: str, variables: Mapping[str, str]) -> bool:
    """Return whether an expression holds."""
    words = _Words(expression, variables)
    found = words.either()
    if words.left:
        raise NotSpoken(f"rules: if: {expression}")
    return found


def _matches(left: Value, right: Value) -> bool:
    if not isinstance(right, re.Pattern):
        raise NotSpoken("rules: if: a pattern in a variable")
    return isinstance(left, str) and right.search(left) is not None


class _Words:
    """An expression, read from left to right."""

    def __init__(self, expression: str, variables: Mapping[str, str]) -> None:
        self.variables = variables
        self.left: list[re.Match[str]] = []
        at = 0
        while at < len(expression.rstrip()):
            found = TOKEN.match(expression, at)
            if found is None:
                raise NotSpoken(f"rules: if: {expression}")
            self.left.append(found)
            at = found.end()

    def either(self) -> bool:
        found = self.both()
        while self._next("||"):
            found = self.both() or found
        return found

    def both(self) -> bool:
        found = self.one()
        while self._next("&&"):
            found = self.one() and found
        return found

    def one(self) -> bool:
        if self._next("("):
            found = self.either()
            if not self._next(")"):
                raise NotSpoken("rules: if: a bracket that is not closed")
            return found
        left = self._value()
        for sign, compared in COMPARED.items():
            if self._next(sign):
                return compared(left, self._value())
        return bool(left)

    def _next(self, sign: str) -> bool:
        if self.left and self.left[0]["sign"] == sign:
            self.left.pop(0)
            return True
        return False

    def _value(self) -> Value:
        if not self.left or self.left[0]["sign"]:
            raise NotSpoken("rules: if: a value is missing")
        found = self.left.pop(0)
        if found["variable"]:
            return self.variables.get(found["variable"])
        if found["pattern"]:
            return re.compile(found["pattern"], re.IGNORECASE if "i" in found["flags"] else 0)
        return next((found[kind] for kind in ("double", "single") if found[kind] is not None), None)
