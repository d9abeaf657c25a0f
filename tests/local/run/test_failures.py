"""Runs that fail: whose fault it is said to be, by exit code and in every report, and what stays for a look."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from harness.artifacts.disk import catalogue
from harness.artifacts.disk.cache import ImageCache
from harness.cell.manifests import GOLDEN_NAMESPACE
from harness.infra.local.provider import LocalProvider
from harness.kube import Cluster
from harness.kube.resources import DATA_VOLUME
from harness.model import Cell
from harness.paths import project_dir
from harness.report.results import load
from tests.local.run.conftest import Nothing, Start
from tests.local.run.runs import change, failures, project_copy, vmatrix

BROKEN = """\
- name: Deploy
  hosts: all
  gather_facts: false
  tasks:
    - name: Ask the impossible
      ansible.builtin.shell: "echo 'error: no such flux' >&2; exit 7"
"""
TASK = "Ask the impossible"


def test_a_failed_task_is_the_products_and_its_machines_are_kept_for_a_look(
    start: Start, single: Cell, nothing_left: Nothing, tmp_path: Path
) -> None:
    project = project_copy(tmp_path / "project", "playbooks")
    (project / "playbooks" / "cluster.yml").write_text(BROKEN, encoding="utf-8")
    run = start("--keep-on-failure", env={"VMATRIX_PROJECT": str(project)})
    ended = run.end()
    assert ended.code == 1, ended.stdout + ended.stderr
    (failure,) = failures(run)
    assert (failure["step"], failure["blame"]) == (["deploy"], "product")
    for report in (failure["summary"], ended.stdout, (run.results / "summary.md").read_text(encoding="utf-8")):
        assert TASK in report
        assert "no such flux" in report
    suites = ElementTree.parse(run.results / "junit.xml")
    (failed,) = suites.iterfind(".//failure")
    assert TASK in str(failed.get("message"))

    options = ["--infra-name", run.cleanup()[-1]]
    status = vmatrix("status", *options, cwd=tmp_path)
    assert single.id in status.stdout
    assert vmatrix("login", *options, single.id, "cp-0", "--", "true", cwd=tmp_path).code == 0
    said = vmatrix("login", *options, single.id, "cp-0", "--", "hostname; exit 9", cwd=tmp_path)
    assert (said.code, said.stdout.strip()) == (9, "cp-0")
    wrong = vmatrix("login", *options, single.id, "cp-7", cwd=tmp_path)
    assert (wrong.code, wrong.stderr.splitlines()[-1]) == (2, "hint: its machines: cp-0")

    kept = next(line for line in ended.stdout.splitlines() if line.startswith("kept for"))
    words = kept.rpartition("to take it away: vmatrix ")[2].split()
    assert vmatrix(*words, cwd=tmp_path).code == 0
    nothing_left(run)


def test_too_little_room_is_tried_twice_and_said_in_the_schedulers_words(
    start: Start, single: Cell, nothing_left: Nothing, tmp_path: Path
) -> None:
    project = project_copy(tmp_path / "project", "matrix")
    change(project / "matrix/topologies.yml", ("topologies", "all-in-one", "machines", 0, "memory"), "900Gi")
    change(project / "matrix/timeouts.yml", ("timeouts", "unschedulable"), 1)
    run = start(env={"VMATRIX_PROJECT": str(project)})
    ended = run.end()
    assert ended.code == 75, ended.stdout + ended.stderr
    first, second = failures(run)
    assert (first["attempt"], second["attempt"]) == (1, 2)
    for failure in (first, second):
        assert failure["blame"] == "infra"
        assert "Insufficient memory" in failure["summary"]
    (result,) = load(run.results).cells
    assert [step.attempt for step in result.failures if step.path[0] == "provision"] == [1, 2]
    assert "Insufficient memory" in (run.results / "summary.md").read_text(encoding="utf-8")
    nothing_left(run)


def test_a_disk_image_with_another_checksum_is_the_infras(
    infra: LocalProvider, cluster: Cluster, start: Start, nothing_left: Nothing, tmp_path: Path
) -> None:
    images = project_dir() / "matrix" / "images.yml"
    built = ImageCache().ensure(catalogue.load(images).find("debian-13"), lambda _: None)
    wrong = "0" * 64
    project = project_copy(tmp_path / "project", "matrix")
    url = f"{infra.mirror().http}/images/{built.file}"
    source = {"kind": "url", "url": url, "checksum": f"sha256:{wrong}"}
    change(project / "matrix/images.yml", ("images", 0, "source"), source)
    run = start(env={"VMATRIX_PROJECT": str(project)})
    ended = run.end()
    cluster.delete(DATA_VOLUME, f"debian-13-{wrong[:12]}", GOLDEN_NAMESPACE)
    assert ended.code == 3, ended.stdout + ended.stderr
    (failure,) = failures(run)
    assert (failure["step"], failure["blame"]) == (["provision"], "infra")
    assert "checksum" in failure["summary"].lower() + failure["detail"].lower()
    nothing_left(run)
