"""Cells that will not go, or whose job is gone: named with what holds them, taken away later, never forgotten."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from harness.cell.existing import CellSelector, find
from harness.cell.machines import create_own
from harness.cell.teardown import reap, remove_finalizers
from harness.errors import EXIT_LEAKED, InfraError, Leaked
from harness.kube import Cluster
from harness.kube.resources import API_SERVICE, CONFIG_MAP, NAMESPACE, VM, VMI
from harness.model import LABEL_EXPIRES, LABEL_MANAGED, LABEL_RUN, MANAGED_BY
from harness.paths import project_dir
from tests.chaos.cells import Ground, bring_up

rows = pytest.mark.row
GROUP = "v1.chaos.vmatrix.dev"
FINALIZER = "kubevirt.io/foregroundDeleteVirtualMachine"


@rows("F23")
@pytest.mark.parametrize("fault", ["instance_stays", "launcher_stays"])
def test_what_holds_a_cell_is_named_and_a_later_reap_takes_it_away(ground: Ground, fault: str) -> None:
    life = ground.life(ground.site({"teardown": 8.0}))
    with ground.befallen(life, no_guest={}, **{fault: {}}):
        bring_up(life)
        began = time.monotonic()
        with pytest.raises(Leaked) as leak:
            life.teardown()
        assert time.monotonic() - began < 30
    assert leak.value.exit_code == EXIT_LEAKED
    assert "left: m-0" in leak.value.summary
    (held,) = [line for line in leak.value.detail.splitlines() if line.startswith("VirtualMachineInstance m-0: ")]
    assert FINALIZER in held
    assert "vmatrix reap" in leak.value.hint
    gone = reap(ground.cluster, CellSelector(run=life.attempt.run), seconds=60)  # whoever held it is back
    assert [cell.run for cell in gone] == [life.attempt.run]
    assert find(ground.cluster, CellSelector(run=life.attempt.run)) == []


@rows("F23")
def test_finalizers_go_only_when_a_person_asks_for_it(ground: Ground) -> None:
    life = ground.life(ground.site({"teardown": 6.0}))
    chosen = CellSelector(run=life.attempt.run)
    with ground.befallen(life, no_guest={}, instance_stays={}):
        bring_up(life)
        for _ in range(2):  # repeated as often as one likes
            with pytest.raises(Leaked):
                reap(ground.cluster, chosen, seconds=5)
        assert ground.cluster.get(VMI, "m-0", life.attempt.namespace) is not None
        released: list[str] = []
        remove_finalizers(ground.cluster, chosen, seconds=30, on_released=released.append)
    assert any(FINALIZER in line for line in released)
    assert find(ground.cluster, chosen) == []


@pytest.fixture
def _unavailable_api(cluster: Cluster) -> Iterator[None]:
    """Register an aggregated API that nobody serves, as virt-api's is while it is down."""
    service = {"name": "nobody", "namespace": "default", "port": 443}
    spec = {
        "group": GROUP.partition(".")[2],
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "insecureSkipTLSVerify": True,
        "service": service,
    }
    meta = {"name": GROUP}
    cluster.create(
        API_SERVICE, {"apiVersion": API_SERVICE.api_version, "kind": "APIService", "metadata": meta, "spec": spec}
    )
    yield
    cluster.delete(API_SERVICE, GROUP)


@rows("F23", "F28")
@pytest.mark.usefixtures("_unavailable_api")
def test_an_api_that_is_down_and_holds_every_namespace_is_named(ground: Ground, cluster: Cluster) -> None:
    life = ground.life(ground.site({"teardown": 15.0}))
    with ground.befallen(life, no_guest={}):
        bring_up(life)
        with pytest.raises(Leaked) as leak:
            life.teardown()
    assert "NamespaceDeletionDiscoveryFailure" in leak.value.detail
    assert GROUP.partition(".")[2] in leak.value.detail
    cluster.delete(API_SERVICE, GROUP)
    reap(cluster, CellSelector(run=life.attempt.run), seconds=120)


@rows("F25")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_job_that_was_killed_leaves_nothing_that_the_reaper_does_not_find(
    ground: Ground, cluster: Cluster, number: signal.Signals
) -> None:
    run = f"dead{int(number):02d}"
    image = ground.image
    arguments = [ground.provider.layout.name, str(ground.folder), run, image.name, image.url, image.checksum]
    with ground.scenario([{"kind": "VirtualMachine", "namespace": f"*-{run}-*", "faults": {"no-guest": {}}}]):
        job = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.job", *arguments], cwd=project_dir(), stdout=subprocess.PIPE
        )
        assert job.stdout is not None
        assert job.stdout.readline() == b"up\n"
        job.send_signal(number)
        job.wait(20)
        job.stdout.close()
        left = find(cluster, CellSelector(run=run))
        assert [cell.run for cell in left] == [run]
        namespace = cluster.get(NAMESPACE, left[0].namespace) or {}
        labels = namespace["metadata"]["labels"]
        assert (labels[LABEL_MANAGED], labels[LABEL_RUN]) == (MANAGED_BY, run)
        assert float(labels[LABEL_EXPIRES]) <= time.time()
        gone = reap(cluster, CellSelector(only_expired=True), seconds=60)
    assert run in {cell.run for cell in gone}
    assert cluster.list(VM, left[0].namespace).items == []


@rows("F28", "F11")
def test_an_object_of_another_run_is_not_taken_for_ours(ground: Ground, cluster: Cluster) -> None:
    site = ground.site()
    meta = {"name": "chaos-other", "namespace": "default", "labels": {LABEL_RUN: "theirs"}}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    try:
        create_own(site, CONFIG_MAP, body)
        create_own(site, CONFIG_MAP, body)  # once more is not a mistake
        ours = {**body, "metadata": {**meta, "labels": {LABEL_RUN: "ours"}}}
        with pytest.raises(
            InfraError, match=r"ConfigMap default/chaos-other already exists and belongs to another run"
        ) as no:
            create_own(site, CONFIG_MAP, ours)
        assert "vmatrix.dev/run=theirs" in no.value.summary
    finally:
        cluster.delete(CONFIG_MAP, "chaos-other", "default")
