"""Links on a job's page: in GitLab's form, added to what is there, never broken by a bad file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.gitlab import links
from harness.gitlab.links import Link
from harness.gitlab.variables import Job


def test_links_are_in_gitlabs_form_and_short_enough(tmp_path: Path) -> None:
    links.write(tmp_path, {"vmatrix": [Link("two\nlines " + "x" * 300, "https://x"), Link("nowhere", "")]})
    links.add(tmp_path, {"vmatrix": [Link("first", "https://y")], "more": [Link("other", "https://z")]})
    content = json.loads((tmp_path / links.FILE).read_text(encoding="utf-8"))
    assert [entry["external_link"]["url"] for entry in content["vmatrix"]] == ["https://y", "https://x"]
    assert content["vmatrix"][1]["external_link"]["label"].startswith("two lines xxx")
    assert all(len(e["external_link"]["label"]) < 255 for entries in content.values() for e in entries)


@pytest.mark.parametrize("broken", ["", "[]", '{"vmatrix": [{}]}', '{"vmatrix": 1}', "null"])
def test_links_survive_a_file_that_cannot_be_read(tmp_path: Path, broken: str) -> None:
    (tmp_path / links.FILE).write_text(broken, encoding="utf-8")
    links.add(tmp_path, {"vmatrix": [Link("one", "https://x")]})
    assert len(json.loads((tmp_path / links.FILE).read_text(encoding="utf-8"))["vmatrix"]) == 1


def test_a_link_to_an_artifact_is_escaped(tmp_path: Path) -> None:
    job = Job("1", "h", "https://gitlab.example.org/p/-/jobs/1", tmp_path)
    assert (
        links.artifact(job, "runs/a b/logs/")
        == "https://gitlab.example.org/p/-/jobs/1/artifacts/browse/runs/a%20b/logs/"
    )
