"""A linter's finding, and GitLab's form of it.

https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SEVERITIES = ("info", "minor", "major", "critical", "blocker")


@dataclass(frozen=True)
class Issue:
    """One finding: which tool's which rule, in which line of which file (relative to the project), in words."""

    tool: str
    rule: str
    path: str
    line: int
    message: str
    severity: str = "major"

    @property
    def blocking(self) -> bool:
        """Tell whether it fails the linter; what is only information is shown."""
        return self.severity != "info"

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.tool} {self.rule}: {self.message}"


def as_json(issue: Issue) -> dict[str, Any]:
    """Return the finding as GitLab reads it; the fingerprint stays as long as the finding does."""
    told = "\0".join((issue.tool, issue.rule, issue.path, str(issue.line), issue.message))
    return {
        "description": f"{issue.tool}: {issue.message}",
        "check_name": f"{issue.tool}/{issue.rule}",
        "fingerprint": hashlib.sha256(told.encode()).hexdigest(),
        "severity": issue.severity if issue.severity in SEVERITIES else "major",
        "location": {"path": issue.path, "lines": {"begin": max(1, issue.line)}},
    }


def write(path: Path, issues: Iterable[Issue]) -> None:
    """Write a code quality report; each finding once."""
    path.write_text(json.dumps([as_json(issue) for issue in dict.fromkeys(issues)], indent=1), encoding="utf-8")
