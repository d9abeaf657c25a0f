"""A whole run as a job has it: a kubeconfig, a namespace that exists, exactly deploy's role in it. Real guests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from harness import proc
from harness.artifacts import refs
from harness.artifacts.recipe import silent
from harness.artifacts.store import Store
from harness.cell.existing import CellSelector, find
from harness.events import read
from harness.infra.cluster import rights
from harness.infra.guest_facts import guest_vars
from harness.kube.resources import DATA_VOLUME, PVC, SECRET, VM
from harness.model import Cell
from harness.paths import project_dir
from harness.plan.select import PlanSelection, selected
from harness.providers.embedded import embedded_provider
from harness.spec import load_spec
from tests.embedded.rights.audit import Ask, granted
from tests.embedded.rights.conftest import Ground
from tests.embedded.rights.lives import images
from tests.embedded.rights.test_life import SHARED

RUN_SECONDS = 2400.0
VMATRIX = Path(sys.executable).parent / "vmatrix"


@pytest.fixture(scope="module")
def smoke() -> Cell:
    """Return the cell of the tier `smoke`."""
    (found,) = selected(load_spec(project_dir() / "matrix"), "embedded", PlanSelection(tier="smoke"))
    return found.cell


@pytest.fixture(scope="module")
def _guests_images(ground: Ground, smoke: Cell) -> None:
    """Put what the cell's machines pull into the registry, as the embedded provider does for its own runs."""
    store = Store()
    needed = tuple(
        dict.fromkeys(
            ref
            for phase in smoke.phases
            for ref in refs.images(store.catalogue, str(phase.vars["cluster_kubernetes_version"]), phase.vars)
        )
    )
    config = embedded_provider(ground.provider.layout.name, store, progress=silent, images=needed).host.config
    config.prepare()
    config.publish(ground.provider.mirror().registry)


@pytest.mark.usefixtures("_given_namespace", "_guests_images")
def test_the_smoke_tier_runs_in_a_given_namespace_under_exactly_its_role(
    ground: Ground, smoke: Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ground.account(SHARED, "vmatrix-job")
    variables = tmp_path / "guests.yml"
    variables.write_text(yaml.safe_dump(dict(guest_vars())), encoding="utf-8")
    mirror = ground.provider.mirror()
    settings = {
        "VMATRIX_MIRROR_HTTP": mirror.http,
        "VMATRIX_REGISTRY": mirror.registry,
        "VMATRIX_GUEST_VARS": str(variables),
        "VMATRIX_INFRA_PROFILE": "embedded",
        "VMATRIX_HISTORY": str(tmp_path / "history.jsonl"),
    }
    options = ["--provider", "kubeconfig", "--kubeconfig", str(job.kubeconfig), "--namespace", SHARED]
    since = ground.log.size()

    done = proc.run(
        [VMATRIX, "run", "--tier", "smoke", *options, "--run-id", "least1", "--timeout-scale", "3"],
        timeout=RUN_SECONDS,
        env=settings,
        cwd=tmp_path,
        check=False,
    )

    (tmp_path / "stdout").write_text(done.stdout, encoding="utf-8")
    (tmp_path / "stderr").write_text(done.stderr, encoding="utf-8")
    said = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR", "E  "))]
    assert done.returncode == 0, "\n".join([*said, done.stdout[-3000:], done.stderr[-1000:]])
    events = read(tmp_path / "runs" / "least1")
    ended = {tuple(e["step"]): e["outcome"] for e in events if e["event"] == "step-end" and len(e["step"]) == 1}
    assert {"provision", "deploy", "collect", "teardown"} <= {name for (name,) in ended}
    assert set(ended.values()) == {"passed"}
    assert sum(e["event"] == "check" for e in events) > len(smoke.machines)
    assert ground.log.of(job.user, since).forbidden <= _optional()
    assert find(ground.admin, CellSelector(namespace=SHARED)) == []
    left = {o["metadata"]["name"] for r in (VM, DATA_VOLUME, PVC) for o in ground.admin.list(r, SHARED).items}
    assert left == {images(ground)(smoke.machines[0].image).name}
    assert ground.admin.list(SECRET, SHARED).items == []


def _optional() -> frozenset[Ask]:
    """Return what a run asks for and can do without: room, which networks are taken, what machines take."""
    return granted((*rights.SURVEY, *rights.LOOK)) | {Ask("get", "", "namespaces"), Ask("get", "", "nodes/proxy")}
