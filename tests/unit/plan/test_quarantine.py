"""What an entry of the quarantine excuses: the cells and the checks that it names, until its last day."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.paths import PROJECT, packaged_dir
from harness.plan.quarantine import idle_globs, match, unmatched
from harness.spec import load_spec
from harness.spec.models import QuarantineEntry

LAST = date(2026, 12, 31)
ISSUE = "https://example.org/issues/1"


def entry(cell: str, check: str | None = None) -> QuarantineEntry:
    return QuarantineEntry(cell=cell, check=check, issue=ISSUE, reason="known", until=LAST)


@pytest.mark.parametrize(
    ("one", "name", "check", "excused"),
    [
        (entry("k1-*"), "k1-a", None, True),
        (entry("k1-*"), "k1-a", "network: test_dns", True),
        (entry("k1-*"), "k2-a", None, False),
        (entry("k1-*", "network: test_dns*"), "k1-a", "network: test_dns[a]", True),
        (entry("k1-*", "network: test_dns*"), "k1-a", "network: test_pods", False),
        (entry("k1-*", "network: test_dns*"), "k1-a", "nodes: test_dns", False),
        (entry("k1-*", "network: test_dns*"), "k1-a", None, False),
        (entry("K1-*"), "k1-a", None, False),
    ],
)
def test_an_entry_excuses_what_it_names(one: QuarantineEntry, name: str, check: str | None, excused: bool) -> None:
    assert match([one], name, {}, check, LAST) == (one if excused else None)


def test_an_entry_counts_on_its_last_day_and_not_after() -> None:
    assert match([entry("*")], "k1", {}, None, LAST) is not None
    assert match([entry("*")], "k1", {}, None, date(2027, 1, 1)) is None


def test_the_first_entry_that_fits_is_the_one() -> None:
    entries = [entry("k2"), entry("k1", "a: b"), entry("k1"), entry("*")]
    assert match(entries, "k1", {}, "a: c", LAST) is entries[2]


@pytest.mark.parametrize(
    ("where", "values", "excused"),
    [
        ({"os": "d12"}, {"os": "d12", "ip": "dual"}, True),
        ({"os": "d12", "ip": ["dual", "ipv6"]}, {"os": "d12", "ip": "ipv6"}, True),
        ({"os": "d12", "ip": ["dual", "ipv6"]}, {"os": "d12", "ip": "ipv4"}, False),
        ({"os": "d12"}, {"os": "d13"}, False),
        ({"os": "d12"}, {}, False),
    ],
)
def test_an_entry_excuses_cells_by_their_values(
    where: dict[str, str | list[str]], values: dict[str, str], excused: bool
) -> None:
    one = QuarantineEntry.model_validate({"where": where, "issue": ISSUE, "reason": "known", "until": LAST})
    assert match([one], "k1", values, None, LAST) == (one if excused else None)


def test_an_entry_without_cells_is_refused() -> None:
    with pytest.raises(ValueError, match="names no cells"):
        QuarantineEntry.model_validate({"issue": ISSUE, "reason": "known", "until": LAST})


def test_values_that_the_matrix_has_not_are_refused_at_their_line(matrix: Path) -> None:
    row = "quarantine:\n  - where: {runtime: cri-oh, color: red}\n    issue: https://tracker.example/1\n"
    (matrix / "quarantine.yml").write_text(far(row + "    reason: r\n    until: 2099-01-01\n"), encoding="utf-8")
    with pytest.raises(BadInput) as refused:
        load_spec(matrix)
    assert "quarantine.yml:2: quarantine[0].where.runtime: unknown value of axis runtime 'cri-oh'" in str(refused.value)
    assert "quarantine[0].where.color: unknown axis 'color'" in str(refused.value)


def test_an_entry_that_no_planned_cell_fits_is_said_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "quarantine.yml").write_text("quarantine:\n  - cell: k1-*\n  - check: x\n    cell: k9-*\n")
    (said,) = unmatched([entry("k1-*"), entry("k9-*")], {"k1-a": {}, "k2-a": {}}, tmp_path)
    assert (said.line, said.path) == (4, "quarantine[1].cell")
    assert said.message.startswith("'k9-*' matches no planned cell; ")


QUARANTINE = """quarantine:
  - {cell: "%s", issue: "https://tracker.example/1", reason: r, until: 2099-01-01}
"""
AXES = """extends: default
axes:
  - name: kubernetes
    values:
      - id: "1.36.3"
        paths: [%s]
"""


@pytest.fixture
def matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "matrix").mkdir()
    (tmp_path / "matrix" / "README.yml").write_text("# a project\n", encoding="utf-8")
    monkeypatch.setenv(PROJECT, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "matrix"


def idle(matrix: Path) -> list[str]:
    return idle_globs(load_spec(matrix), matrix)


def far(text: str) -> str:
    """Return a quarantine that is valid for long: load_spec judges it by the day."""
    from datetime import UTC, datetime, timedelta

    return text.replace("2099-01-01", f"{datetime.now(UTC) + timedelta(days=5):%Y-%m-%d}")


def test_an_entry_of_quarantine_that_fits_no_cell_is_told(matrix: Path) -> None:
    (matrix / "quarantine.yml").write_text(far(QUARANTINE % "nope-*"), encoding="utf-8")
    (said,) = idle(matrix)
    assert said.startswith(f"{matrix}/quarantine.yml:2: quarantine[0].cell: 'nope-*' matches no planned cell")


def test_an_entry_that_fits_one_is_not(matrix: Path) -> None:
    (matrix / "quarantine.yml").write_text(far(QUARANTINE % "k1363-*"), encoding="utf-8")
    assert idle(matrix) == []


def test_paths_that_match_no_file_are_told(matrix: Path) -> None:
    (matrix / "axes.yml").write_text(AXES % "nope/**, matrix/**, 'matrix/*.yml', nope.yml", encoding="utf-8")
    assert [said.partition(": ")[2].partition(",")[0] for said in idle(matrix)] == [
        "axes[0].values[3].paths[0]: 'nope/**' matches no file",
        "axes[0].values[3].paths[3]: 'nope.yml' matches no file",
    ]


def test_globs_of_the_package_are_not_the_projects_to_mend(matrix: Path) -> None:
    assert idle(matrix) == []


def test_no_glob_of_our_own_matrix_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROJECT, str(packaged_dir()))
    own = packaged_dir() / "matrix"
    assert idle_globs(load_spec(own), own) == []
