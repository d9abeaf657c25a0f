"""Values that name, as what comes before them, a later version of what nobody can downgrade, or another runtime.

A scenario that starts from such a value would end in a refusal of the playbooks, once its machines are up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.spec.declared import EACH, field, texts
from harness.spec.lines import Finding, Location

NEVER_BACK = tuple(f"cluster_{name}_version" for name in ("kubernetes", "etcd", "containerd", "crio"))
RUNTIME = "cluster_container_runtime"
VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


def check(values: list[tuple[Location, Any]]) -> Iterator[Finding]:
    """Find them among the values of an axis, by their variables."""
    given = {name: _variables(value) for _, value in values if (name := field(value, "id")) is not None}
    for at, value in values:
        now = _variables(value)
        for inner, earlier in texts(value, "before", EACH):
            was = given.get(earlier, {})
            for variable in NEVER_BACK:
                then, here = was.get(variable, ""), now.get(variable, "")
                if _numbers(here) and _numbers(then) > _numbers(here):
                    yield (
                        (*at, *inner),
                        f"{earlier} has {variable} {then}, and this value {here}, which is older: an upgrade never "
                        "goes back; name an earlier value, or remove it",
                    )
            if RUNTIME in was and RUNTIME in now and was[RUNTIME] != now[RUNTIME]:
                yield (
                    (*at, *inner),
                    f"{earlier} has {RUNTIME} {was[RUNTIME]}, and this value {now[RUNTIME]}: no upgrade replaces a "
                    "runtime by another one; name a value of the same runtime, or remove it",
                )


def _variables(value: Any) -> Mapping[str, str]:
    return {str(at[-1]): text for at, text in texts(value, "vars", EACH)}


def _numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers, none for what is no version."""
    found = VERSION.match(version)
    return tuple(map(int, found.groups())) if found else ()
