"""What commands tell programs, and how little they tell people of many cells."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from harness import providers
from harness.artifacts.disk.cache import CachedImage, ImageCache
from harness.cell.existing import ExistingCell, MachineState
from harness.cli import app, cells
from harness.paths import PROJECT, packaged_dir
from harness.spec.variables import GIVEN_BY_THE_RUN

runner = CliRunner()


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vmatrix.yml").write_text("", encoding="utf-8")
    monkeypatch.setenv(PROJECT, str(tmp_path))
    monkeypatch.chdir(tmp_path)


def told(*words: str) -> Any:
    done = runner.invoke(app, [*words, "--json"], catch_exceptions=False)
    assert done.exit_code == 0
    return json.loads(done.stdout)


def test_existing_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ExistingCell("ns", "abcdef", "k1-aaaaaa", 2, 5.0, "Active")
    monkeypatch.setattr(providers, "open_cluster", lambda _: None)
    monkeypatch.setattr(cells, "find", lambda *_: [found])
    monkeypatch.setattr(cells, "machine_states", lambda *_: [MachineState("cp-0", "Running", "192.0.2.1")])
    (row,) = told("status")
    assert (row["run"], row["cell"], row["attempt"], row["expires_at"]) == ("abcdef", "k1-aaaaaa", 2, 5.0)
    assert row["machines"] == [{"name": "cp-0", "status": "Running", "address": "192.0.2.1"}]
    monkeypatch.setattr(cells, "find", lambda *_: [])
    assert told("status") == []


@pytest.mark.parametrize(("expires_at", "words"), [(None, "never"), (5.0, "expired"), (4e9, " min ")])
def test_a_cell_that_no_sweep_takes_never_expires(
    monkeypatch: pytest.MonkeyPatch, expires_at: float | None, words: str
) -> None:
    monkeypatch.setattr(providers, "open_cluster", lambda _: None)
    monkeypatch.setattr(cells, "find", lambda *_: [ExistingCell("ns", "abcdef", "k1-aaaaaa", 2, expires_at, "Active")])
    monkeypatch.setattr(cells, "machine_states", lambda *_: [])
    assert words in runner.invoke(app, ["status"], catch_exceptions=False).stdout


def test_the_history(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "history.jsonl").write_text("rubbish\n", encoding="utf-8")
    found = told("history", "show")
    assert (found["cell_runs"], found["from"]) == (0, None)
    assert [one["line"] for one in found["unreadable"]] == [1]


def test_disk_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = {one["name"]: one for one in told("image", "list")}
    assert found["debian-13"]["source"]["recipe"] == "debian-13"
    assert found["debian-13"]["cached_bytes"] is None
    images = ImageCache().root
    images.mkdir(parents=True)
    kept = CachedImage("debian-13", "d.qcow2", "key", "0" * 64, size=4, virtual_size=8, seconds=1)
    (images / kept.file).write_bytes(b"disk")
    (images / "debian-13-key.json").write_text(json.dumps(asdict(kept)), encoding="utf-8")
    assert {one["name"]: one["cached_bytes"] for one in told("image", "list")}["debian-13"] == 4


def test_many_cells_are_explained_in_three_lines_each_unless_asked() -> None:
    words = ["explain", "topology=all-in-one", "--tier", "mr"]
    ids = [cell["cell"] for cell in told(*words)]
    assert len(ids) > 1
    short = runner.invoke(app, words, catch_exceptions=False).stdout.splitlines()
    assert short[:-1:3] == ids
    assert short[-1] == f"{len(ids)} cells; `--full` prints everything of each"
    whole = list(yaml.safe_load_all(runner.invoke(app, [*words, "--full"], catch_exceptions=False).stdout))
    assert [cell["cell"] for cell in whole] == ids


def test_every_variable_that_a_product_may_use_is_said_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "matrix").mkdir()
    text = "extends: default\naxes:\n  - name: runtime\n    values:\n      - id: containerd-2.4\n"
    (tmp_path / "matrix" / "axes.yml").write_text(f"{text}        vars: {{ours: 1}}\n", encoding="utf-8")
    (cell,) = told("explain", "k1363-d13-c2-fl-nf-c1w1-fresh-m-*", "--tier", "smoke")
    places = cell["variables from"]
    assert set(cell["variables"]) <= set(places)
    assert places["ours"] == f"{tmp_path}/matrix/axes.yml:6"
    assert places["cluster_runc_version"].startswith(f"{packaged_dir()}/matrix/axes.yml:")
    assert places["cluster_drain_timeout"].startswith(f"{packaged_dir()}/playbooks/group_vars/all/main.yml:")
    assert places["guest_dns"] == "the infra cluster (docs/guests.md)"
    assert places["cluster_mirror_url"].startswith("a run: ")


def test_what_a_run_gives_is_known() -> None:
    sources = ("cell/variables.py", "artifacts/product/offer.py")
    texts = [(packaged_dir() / "harness" / name).read_text(encoding="utf-8") for name in sources]
    given = {name for text in texts for name in re.findall(r'"(cluster_\w+|product_\w+)"\]?(?::|\] =| if)', text)}
    named = {"cluster_hosts", "cluster_files_url", "cluster_checksums", "product_sources", "cluster_remove_nodes"}
    assert named <= given <= set(GIVEN_BY_THE_RUN)
