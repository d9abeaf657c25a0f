"""Runs that fail: whose fault it is said to be, by exit code and in every report, and what stays for a look."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.artifacts.disk import catalogue
from harness.artifacts.disk.cache import ImageCache
from harness.infra.cluster.capacity import free_for_machines
from harness.kube import Cluster
from harness.kube.resources import DATA_VOLUME, POD
from harness.machines.kubevirt.manifests import GOLDEN_NAMESPACE
from harness.model import Cell
from harness.paths import project_dir
from harness.providers.embedded import EmbeddedProvider
from tests.embedded.run import runs
from tests.embedded.run.conftest import Nothing, Start
from tests.embedded.run.runs import change, failures, project_copy, vmatrix

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
    (failed,) = suites.iterfind(".//error")
    assert failed.get("type") == "product"
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
    words = kept.rpartition("to remove it: vmatrix ")[2].split()
    assert vmatrix(*words, cwd=tmp_path).code == 0
    nothing_left(run)


@pytest.fixture
def full(infra: EmbeddedProvider, cluster: Cluster) -> Iterator[None]:
    """Let another pod claim all but 1 GiB of the memory that the infra cluster has for machines."""
    claimed = f"{free_for_machines(Cluster.from_kubeconfig(infra.kubeconfig())).memory_mib - 1024}Mi"
    container = {"name": "idle", "image": "none", "resources": {"requests": {"memory": claimed}}}
    meta = {"name": "claims-memory", "namespace": "default"}
    cluster.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}})
    runs.wait_until(
        lambda: free_for_machines(Cluster.from_kubeconfig(infra.kubeconfig())).memory_mib <= 1024,
        "the memory is claimed",
    )
    yield
    cluster.delete(POD, "claims-memory", "default", grace=0)
    runs.wait_until(lambda: cluster.get(POD, "claims-memory", "default") is None, "the memory is free")


def test_more_memory_than_the_host_has_is_refused_before_anything_is_made(start: Start, tmp_path: Path) -> None:
    project = project_copy(tmp_path / "project", "matrix")
    change(project / "matrix/topologies.yml", ("topologies", "all-in-one", "machines", 0, "memory"), "900Gi")
    run = start(env={"VMATRIX_PROJECT": str(project)})
    ended = run.end()
    assert ended.code == 2, ended.stdout + ended.stderr
    assert f"{900 * 1024} MiB" in ended.stderr
    assert not (tmp_path / "runs").exists()


def test_a_cell_waits_for_room_and_in_the_end_says_for_how_much(
    full: None, start: Start, nothing_left: Nothing, tmp_path: Path
) -> None:
    project = project_copy(tmp_path / "project", "matrix")
    change(project / "matrix/timeouts.yml", ("timeouts", "admission"), 5)
    run = start(env={"VMATRIX_PROJECT": str(project)})
    ended = run.end()
    assert ended.code == 75, ended.stdout + ended.stderr
    (failure,) = failures(run)
    assert (failure["step"], failure["blame"]) == (["admission"], "infra")
    for report in (failure["summary"], (run.results / "summary.md").read_text(encoding="utf-8")):
        assert "no room for" in report
        assert "MiB" in report
    assert ("provision",) not in run.outcomes(), "nothing is made where there is no room"
    nothing_left(run)


def test_a_disk_image_with_another_checksum_is_the_infras(
    infra: EmbeddedProvider, cluster: Cluster, start: Start, nothing_left: Nothing, tmp_path: Path
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
