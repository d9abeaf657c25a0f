"""Where things lie: cache and state by the XDG base directory rules, and the files that ship with vmatrix."""

from __future__ import annotations

import os
from pathlib import Path


def _xdg(variable: str, default: str) -> Path:
    value = os.environ.get(variable, "")
    return (Path(value) if value.startswith("/") else Path.home() / default) / "vmatrix"


def cache_dir() -> Path:
    """Return the folder of everything that can be made again (artifacts, disk images, Go's caches)."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def state_dir() -> Path:
    """Return the folder of what describes running things (embedded infrastructures)."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def project_dir() -> Path:
    """Return the checkout that this package runs from: matrix/, vm-templates/, playbooks/ and tests/ lie in it.

    `VMATRIX_PROJECT` overrides it, for a package that was installed without its checkout.
    """
    override = os.environ.get("VMATRIX_PROJECT", "")
    return Path(override) if override else Path(__file__).resolve().parents[1]
