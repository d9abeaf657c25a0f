"""Former names that are still accepted: each gives one line on standard error that says the new name."""

from __future__ import annotations

import os
import sys
from typing import Any

SETTINGS = {"infra_kind": "infra_profile"}
PROVIDERS = {"local": "embedded"}
FLAGS = {  # by setting
    "infra_profile": ("--infra-kind", "--infra"),
    "kubeconfig": ("--infra-kubeconfig",),
    "namespace": ("--infra-namespace",),
}
TOLD = "_VMATRIX_TOLD"  # notices already given: processes that this one starts or becomes inherit it and stay quiet


def notice(old: str, new: str, where: str = "") -> None:
    """Say once, in this process and those that it starts, that a name has changed."""
    line = f"note: {old} is now called {new}" + (f" ({where})" if where else "")
    told = os.environ.get(TOLD, "").splitlines()
    if line not in told:
        os.environ[TOLD] = "\n".join([*told, line])
        sys.stderr.write(f"{line}\n")


def current_provider(value: Any, where: str) -> Any:
    """Return the present name of a provider; everything else is returned as it is.

    Args:
        where: the file, variable or option that names it.
    """
    if not isinstance(value, str) or value not in PROVIDERS:
        return value
    notice(f"provider {value}", PROVIDERS[value], where)
    return PROVIDERS[value]
