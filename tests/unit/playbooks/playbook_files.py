"""Where the playbooks are, and their files as Python sees them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

PLAYBOOKS = Path(__file__).resolve().parents[3] / "playbooks"
ROLES = sorted(path for path in (PLAYBOOKS / "roles").iterdir() if path.is_dir())
ENTRIES = sorted(path for path in PLAYBOOKS.glob("*.yml") if path.name not in {"cluster.yml", "galaxy.yml"})
TASK_FILES = sorted(PLAYBOOKS.glob("roles/*/tasks/*.yml"))


def load(path: Path) -> Any:
    """Return a YAML file's content, None where there is no such file."""
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None


def module(relative: str) -> ModuleType:
    """Import one of the playbooks' own modules or plugins by its path under playbooks/."""
    path = PLAYBOOKS / relative
    name = f"playbooks_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def tasks(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the tasks of a file, those in blocks included."""
    pending = list(load(path))
    while pending:
        task = pending.pop(0)
        pending.extend(task.get("block", []))
        yield task
