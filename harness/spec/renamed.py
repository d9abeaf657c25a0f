"""Former names: those still accepted, with one line on standard error that says what is new, and those refused."""

from __future__ import annotations

from typing import Any

from harness.streams import tell_once

SETTINGS = {"infra_kind": "infra_profile"}
PROVIDERS = {"local": "embedded"}
FLAGS = {  # by setting
    "infra_profile": ("--infra-kind", "--infra"),
    "kubeconfig": ("--infra-kubeconfig",),
    "namespace": ("--infra-namespace",),
    "releases": ("--file",),
}
IGNORED = {"history": "cells are ordered by the history of cell runs; report_file says where that is"}  # by setting
_BRANCH = "the history on a git branch was removed: set report_history to `package`, or to `file`"
REFUSED = {"report_remote": _BRANCH, "report_branch": _BRANCH}  # by setting


def notice(old: str, new: str, where: str = "") -> None:
    """Print once, in this process and those that it starts, that a name has changed."""
    tell_once(f"note: {old} is now called {new}" + (f" ({where})" if where else ""))


def ignored(setting: str, where: str) -> None:
    """Print once that a setting has no effect any more."""
    tell_once(f"note: setting {setting} has no effect any more: {IGNORED[setting]} ({where})")


def current_store(value: Any) -> Any:
    """Return a kind of history store as it is.

    Raises:
        ValueError: it was removed.
    """
    if value == "branch":
        raise ValueError(_BRANCH)
    return value


def current_provider(value: Any, where: str) -> Any:
    """Return the present name of a provider; everything else is returned as it is.

    Args:
        where: the file, variable or option that names it.
    """
    if not isinstance(value, str) or value not in PROVIDERS:
        return value
    notice(f"provider {value}", PROVIDERS[value], where)
    return PROVIDERS[value]
