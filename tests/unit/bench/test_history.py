"""The history of figures, and the table on the page that is made from it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from tests.bench.figures import Ledger
from tests.bench.history import BEGIN, END, PAGE, Row, append, latest, read, rows_of

HEAD = "day,commit,host,stretch,figure,unit,median,samples,target\n"
OLD = "2026-01-01,,2 x A,1.1,infra up,s,9,9,8\n"


def ledger() -> Ledger:
    made = Ledger({"cores": 2, "processor": "B"}, stretch={"infra": 1.05, "cell": 1.2})
    made.add("infra up", "s", [5.0, 7.0, 6.0], target=8)
    made.add("- until its API answers", "s", [3.0])
    made.add("sweep: memory", "MiB", [100.25])
    return made


def test_a_bench_becomes_rows() -> None:
    first, part, last = rows_of(ledger(), date(2026, 2, 3), "abc+")
    assert first == Row("2026-02-03", "abc+", "2 x B", "1.2", "infra up", "s", "6", "5 7 6", "8")
    assert (part.figure, part.target) == ("infra up: until its API answers", "")
    assert (last.figure, last.median) == ("sweep: memory", "100.25")


def test_rows_are_appended_and_the_page_shows_the_latest(tmp_path: Path) -> None:
    file, page = tmp_path / "history.csv", tmp_path / "page.md"
    file.write_text(HEAD + OLD)
    page.write_text(f"# Before\n{BEGIN}old\n{END}after\n")
    append(rows_of(ledger(), date(2026, 2, 3), "abc"), file, page)
    assert [row.day for row in read(file)] == ["2026-01-01", *["2026-02-03"] * 3]
    text = page.read_text()
    assert text.startswith("# Before\n")
    assert text.endswith("after\n")
    assert "| infra up | 6 s | 8 s | 5, 7, 6 | 2026-02-03 | 1.2 |" in text
    assert "2026-01-01" not in text
    assert "old" not in text


def test_the_page_shows_the_latest_figures() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0] == latest(read()), "`tox -e bench -- --record` writes it"
