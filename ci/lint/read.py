"""From each linter's output to findings; every form is the tool's own, none is guessed from words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ci.lint.issue import Issue

AT_LINE = re.compile(r"^(?P<path>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)?\s*(?P<message>.+)$", re.MULTILINE)
YAMLLINT = re.compile(
    r"^(?P<path>.+?):(?P<line>\d+):\d+: \[(?P<level>\w+)\] (?P<message>.*?)(?: \((?P<rule>[\w-]+)\))?$"
)
MKDOCS = re.compile(r"^(?:WARNING|ERROR) +- +(?P<message>.+)$", re.MULTILINE)
MKDOCS_FILE = re.compile(r"'(?P<path>[\w./-]+\.md)'")
ORIGIN = re.compile(r"^Origin: (?P<path>.+?):(?P<line>\d+)", re.MULTILINE)
ERROR = re.compile(r"^(?:\[ERROR\]|ERROR!|fatal:)[: ]*(?P<message>.+)$", re.MULTILINE)


def relative(path: str) -> str:
    """Return a path as it stands in the project."""
    try:
        return str(Path(path).resolve().relative_to(Path.cwd().resolve()))
    except ValueError:
        return path


def code_climate(tool: str, text: str) -> Iterator[Issue]:
    """Read a tool that writes code quality reports itself."""
    for entry in json.loads(text or "[]"):
        where = entry["location"]
        begin = where["lines"]["begin"] if "lines" in where else where["positions"]["begin"]["line"]
        line = begin["line"] if isinstance(begin, dict) else begin
        content: Any = entry.get("content") or {}
        body = content.get("body", "") if isinstance(content, dict) else ""
        message = " ".join(part for part in (entry["description"], str(body).partition("\n")[0]) if part)
        yield Issue(tool, entry.get("check_name", tool), relative(where["path"]), int(line), message, entry["severity"])


def yamllint(tool: str, text: str) -> Iterator[Issue]:
    """Read yamllint's `parsable` form."""
    for found in filter(None, map(YAMLLINT.match, text.splitlines())):
        severity = "minor" if found["level"] == "warning" else "major"
        yield Issue(tool, found["rule"] or "syntax", found["path"], int(found["line"]), found["message"], severity)


def shellcheck(tool: str, text: str) -> Iterator[Issue]:
    """Read shellcheck's `json1` form."""
    for entry in json.loads(text or '{"comments": []}')["comments"]:
        severity = {"error": "critical", "warning": "major"}.get(entry["level"], "minor")
        yield Issue(tool, f"SC{entry['code']}", entry["file"], entry["line"], entry["message"], severity)


def mypy(tool: str, text: str) -> Iterator[Issue]:
    """Read mypy's `json` form: one object per line."""
    for line in text.splitlines():
        if line.startswith("{"):
            entry = json.loads(line)
            yield Issue(tool, entry["code"] or "error", entry["file"], entry["line"], entry["message"])


def at_lines(tool: str, text: str) -> Iterator[Issue]:
    """Read messages that begin with `file:line:`, as vmatrix's own do."""
    for found in AT_LINE.finditer(text):
        yield Issue(tool, "mistake", relative(found["path"]), int(found["line"]), found["message"])


def schema(tool: str, text: str) -> Iterator[Issue]:
    """Read check-jsonschema's `json` form; it knows places in the data, not lines."""
    report = json.loads(text)
    for entry in report.get("errors", ()):
        deepest = entry.get("best_deep_match") or {}
        path, message = deepest.get("path", entry["path"]), deepest.get("message", entry["message"])
        yield Issue(tool, "schema", entry["filename"], 1, f"{path}: {message}")
    for entry in report.get("parse_errors", ()):
        yield Issue(tool, "syntax", entry["filename"], 1, entry["message"], "critical")


def ansible_syntax(tool: str, text: str) -> Iterator[Issue]:
    """Read where ansible-playbook stopped."""
    said = ERROR.search(text)
    where = ORIGIN.search(text)
    if said is not None:
        path = relative(where["path"]) if where is not None else "playbooks"
        line = int(where["line"]) if where is not None else 1
        yield Issue(tool, "syntax", path, line, said["message"], "critical")


def mkdocs(tool: str, text: str) -> Iterator[Issue]:
    """Read what MkDocs warns of; the page that it names is below docs/, or was added to the site."""
    for found in MKDOCS.finditer(text):
        page = MKDOCS_FILE.search(found["message"])
        path = Path("docs") / page["path"] if page else Path("mkdocs.yml")
        yield Issue(tool, "warning", str(path if path.exists() else "mkdocs.yml"), 1, found["message"])
