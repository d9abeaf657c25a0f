"""A cell lives under exactly deploy/'s roles: everything it asks is granted, and everything granted it asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cell.existing import CellSelector, find
from harness.errors import BadImage
from harness.infra.cluster import rights
from harness.infra.cluster.checks import Use, check_cluster
from harness.kube.client import Infra
from harness.kube.resources import DATA_VOLUME, LEASE, NETWORK_POLICY, PVC, SECRET, VM
from harness.schedule.reservations import LEASE_NAME, RESERVATIONS_NAMESPACE
from tests.embedded.rights.audit import Ask, granted
from tests.embedded.rights.conftest import PROJECT, Ground
from tests.embedded.rights.lives import images, life_of, live, site_of, spoilt

SHARED = "vmatrix-cells"
UNSEEN = Ask("list", "", "nodes")  # whoever may not look at nodes takes the quota for the room
# KubeVirt's own role kubevirt.io:default and CDI's cdi.kubevirt.io:config-reader allow these to all users
EVERYBODYS = (Ask("list", "kubevirt.io", "kubevirts"), Ask("get", "cdi.kubevirt.io", "storageprofiles"))


@pytest.fixture
def _jobs_of_a_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI_PROJECT_ID", str(PROJECT))
    for variable in ("POD_NAME", "POD_UID", "POD_NAMESPACE"):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.usefixtures("_jobs_of_a_project")
def test_a_cell_in_a_namespace_of_its_own_uses_every_right_and_needs_no_other(ground: Ground, tmp_path: Path) -> None:
    job = ground.job(PROJECT, "platform/app")
    ground.admin.delete(LEASE, LEASE_NAME, RESERVATIONS_NAMESPACE)
    since = ground.log.size()

    site = site_of(ground, job.cluster, namespace=None, image=images(ground), kubeconfig=job.kubeconfig)
    life = live(site, "own111", tmp_path)
    broken = life_of(site_of(ground, job.cluster, namespace=None, image=spoilt(ground)), "own222", tmp_path / "2")
    with pytest.raises(BadImage):
        broken.provision()
    broken.teardown()
    findings = check_cluster(Infra(job.kubeconfig), use=Use(networks={"pod network": "10.243.0.0/16"}))

    seen = ground.log.of(job.user, since)
    everywhere = granted((*rights.JOBS, *rights.SURVEY, *rights.LOOK))
    own = granted(rights.CELL, [life.attempt.namespace])
    fixed = granted(rights.IMAGES, ["vmatrix-images"]) | granted(rights.SCHEDULE, [RESERVATIONS_NAMESPACE])
    made = {Ask("create", "rbac.authorization.k8s.io", "rolebindings", life.attempt.namespace)}
    expected = (everywhere - {Ask("create", "rbac.authorization.k8s.io", "rolebindings")}) | own | fixed | made
    ours = {ask for ask in seen.asked if ask.namespace != broken.attempt.namespace}
    assert (sorted(ours - expected), sorted(expected - ours)) == ([], [])
    assert seen.forbidden == frozenset()
    assert [f.what for f in findings] == []
    assert find(ground.admin, CellSelector()) == []


@pytest.mark.usefixtures("_jobs_of_a_project", "_given_namespace")
def test_a_cell_in_a_shared_namespace_uses_every_right_and_needs_no_other(ground: Ground, tmp_path: Path) -> None:
    job = ground.account(SHARED, "vmatrix-job")
    ground.admin.delete(LEASE, LEASE_NAME, SHARED)  # an earlier test's run has left it: this one is to make it
    since = ground.log.size()
    site = site_of(ground, job.cluster, namespace=SHARED, image=images(ground), kubeconfig=job.kubeconfig)

    other = life_of(site, "other1", tmp_path / "other")
    other.provision()
    live(site, "shared", tmp_path)
    there = [f.run for f in find(job.cluster, CellSelector(namespace=SHARED))]
    other.teardown()

    assert there == ["other1"]
    seen = ground.log.of(job.user, since)
    expected = granted(rights.SHARED, [SHARED])
    assert (sorted(seen.asked - expected), sorted(expected - seen.asked)) == (sorted([UNSEEN, *EVERYBODYS]), [])
    assert seen.forbidden == frozenset({UNSEEN})
    left = [
        o["metadata"]["name"]
        for r in (VM, DATA_VOLUME, PVC, NETWORK_POLICY)
        for o in ground.admin.list(r, SHARED).items
    ]
    golden = images(ground)("debian-13").name
    assert sorted(set(left)) == [golden]
    assert [s["metadata"]["name"] for s in ground.admin.list(SECRET, SHARED).items] == []
