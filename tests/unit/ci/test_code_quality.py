"""Linters' findings as GitLab's code quality: read from what each tool really prints, and never lost."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ci.lint import read
from ci.lint.issue import Issue, as_json, write
from ci.lint.tools import Tool, check, playbooks, shell_scripts, tools
from harness.paths import project_dir

Reader = Callable[[str, str], Iterator[Issue]]
SHELLCHECK = (
    '{"comments":[{"file":"bad.sh","line":2,"endLine":2,"column":1,"endColumn":6,"level":"warning","code":2164,'
    '"message":"Use \'cd ... || exit\'","fix":null}]}'
)
YAMLLINT = """\
y.yml:1:1: [warning] missing document start "---" (document-start)
y.yml:2:8: [error] syntax error: expected ',' or ']' (syntax)
"""
SCHEMA = """{"status": "fail", "errors": [{"filename": ".gitlab-ci.yml", "path": "$.cell.retry",
 "message": "not valid under any of the given schemas", "has_sub_errors": true,
 "best_deep_match": {"path": "$.cell.retry.max", "message": "5 is greater than the maximum of 2"}}],
 "parse_errors": []}"""
MYPY = """\
{"file": "t.py", "line": 3, "column": 29, "message": "Incompatible return value type", "hint": null,\
 "code": "return-value", "severity": "error"}
Found 1 error in 1 file
"""
RUFF = """[{"check_name": "E501", "description": "E501: Line too long", "severity": "major", "fingerprint": "x",
 "location": {"path": "a.py", "positions": {"begin": {"line": 7, "column": 1}, "end": {"line": 7, "column": 2}}}}]"""
VERIFY = """[{"description":"[a:script:1] foo is referenced but not assigned.","fingerprint":"0349","severity":"major",
 "location":{"path":".gitlab-ci.yml","lines":{"begin":3}}}]"""
ANSIBLE = """\
[ERROR]: couldn't resolve module/action 'nosuchmodule'. This often indicates a misspelling.
Origin: playbooks/bad.yml:3:7

1 - hosts: all
"""
MKDOCS = """\
INFO    -  Building documentation to directory: /tmp/site
WARNING -  Doc file 'how-to.md' contains a link 'report.md#nowhere', but the doc 'report.md' does not contain an anchor
Aborted with 1 warnings in strict mode!
"""
PLAN = """\
error (user): 1 mistake in matrix/tiers.yml:
matrix/tiers.yml:41: tiers.nightly.suites[0]: unknown suite 'phases'
hint: mend the named lines and try again
"""


@pytest.mark.parametrize(
    ("reader", "text", "expected"),
    [
        (read.shellcheck, SHELLCHECK, [("bad.sh", 2, "SC2164", "major")]),
        (read.yamllint, YAMLLINT, [("y.yml", 1, "document-start", "minor"), ("y.yml", 2, "syntax", "major")]),
        (read.schema, SCHEMA, [(".gitlab-ci.yml", 1, "schema", "major")]),
        (read.mypy, MYPY, [("t.py", 3, "return-value", "major")]),
        (read.code_climate, RUFF, [("a.py", 7, "E501", "major")]),
        (read.code_climate, VERIFY, [(".gitlab-ci.yml", 3, "tool", "major")]),
        (read.ansible_syntax, ANSIBLE, [("playbooks/bad.yml", 3, "syntax", "critical")]),
        (read.mkdocs, MKDOCS, [("docs/how-to.md", 1, "warning", "major")]),
        (read.at_lines, PLAN, [("matrix/tiers.yml", 41, "mistake", "major")]),
    ],
    ids=["shellcheck", "yamllint", "schema", "mypy", "ruff", "scripts", "syntax-check", "mkdocs", "plan"],
)
def test_each_tools_words_are_read(
    reader: Reader, text: str, expected: list[tuple[str, int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project_dir())
    assert [(i.path, i.line, i.rule, i.severity) for i in reader("tool", text)] == expected


@pytest.mark.parametrize("reader", [read.yamllint, read.mypy, read.ansible_syntax, read.at_lines, read.code_climate])
def test_silence_is_no_finding(reader: Reader) -> None:
    assert list(reader("tool", "")) == []


def test_the_report_is_what_gitlab_reads(tmp_path: Path) -> None:
    first = Issue("ruff", "E501", "a.py", 7, "too long")
    write(tmp_path / "report.json", [first, first, Issue("ruff", "E501", "a.py", 8, "too long", "strange")])
    entries = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert len(entries) == 2, "each finding once"
    assert len({entry["fingerprint"] for entry in entries}) == 2
    assert entries[0] == as_json(first)
    assert entries[0]["location"] == {"path": "a.py", "lines": {"begin": 7}}
    assert {entry["severity"] for entry in entries} == {"major"}


def python(code: str, reader: Reader) -> Tool:
    """Return a linter that is a line of Python."""
    return Tool("tool", lambda: [sys.executable, "-c", code], reader, "home.yml")


def test_a_linter_that_fails_without_a_finding_is_a_finding() -> None:
    (issue,) = check(python("import sys; sys.exit('no config')", read.yamllint)).issues
    assert (issue.path, issue.rule, issue.severity) == ("home.yml", "failed", "blocker")
    assert "no config" in issue.message


def test_what_a_linter_leaves_in_its_temporary_folder_goes() -> None:
    leaves = "import tempfile; print('::' + tempfile.mkdtemp())"
    found = check(python(leaves, lambda *_: iter(()))).output
    assert found.startswith("::/")
    assert not Path(found.removeprefix("::")).exists()


def test_output_that_cannot_be_read_is_a_finding() -> None:
    (issue,) = check(python("print('Traceback')", read.code_climate)).issues
    assert (issue.rule, issue.severity) == ("unreadable", "blocker")


def test_every_playbook_and_every_shell_script_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project_dir())
    assert {path.name for path in playbooks()} >= {"cluster.yml", "upgrade.yml", "scale.yml", "reset.yml"}
    assert {str(path) for path in shell_scripts()} >= {".ci/run", "ci/prepare"}


def test_every_linter_that_the_pipeline_promises_is_there(tmp_path: Path) -> None:
    promised = "ruff ruff-format import-linter mypy yamllint ansible-lint ansible-syntax shellcheck plan gitlab-schema"
    assert set(promised.split()) <= set(tools(tmp_path))
