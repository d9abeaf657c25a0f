"""What a namespace means: its deletion takes everything in it, and its guests are on a network of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.kube.client import Cluster
from harness.kube.resources import DATA_VOLUME, NAMESPACE, PV
from harness.until import NotYet, until
from tests.contract.conftest import gone
from tests.contract.images import Site
from tests.contract.limits import lasting, within
from tests.contract.machines import Machines
from tests.contract.volumes import datavolume, http

pytestmark = pytest.mark.machines
NAMESPACE_SECONDS = 60.0


def test_a_namespaces_deletion_takes_everything(machines: Machines, admin: Cluster, site: Site) -> None:
    cluster, namespace = machines.cluster, machines.namespace
    machines.disk("runs")
    machines.create("runs")
    cluster.create(DATA_VOLUME, datavolume(namespace, "importing", http(site.url("missing.img"))))
    machines.wait_ready("runs")

    cluster.delete(NAMESPACE, namespace)
    until(
        lambda: gone(cluster, namespace),
        deadline=within(NAMESPACE_SECONDS),
        what=f"namespace {namespace} to be gone",
        interval=0.2,
    )

    def volumes_left() -> bool | NotYet:
        claims = [v["spec"].get("claimRef") or {} for v in admin.list(PV).items]
        left = [c["name"] for c in claims if c.get("namespace") == namespace]
        return NotYet(f"volumes of {', '.join(left)}") if left else True

    until(volumes_left, deadline=within(20), what="its volumes to be gone", interval=0.2)


def test_guests_of_two_namespaces_do_not_reach_each_other(machines: Machines, other_namespace: str) -> None:
    others = replace(machines, namespace=other_namespace)
    for where, names in ((machines, ("one", "two")), (others, ("foreign",))):
        for name in names:
            where.disk(name)
            where.create(name)
    for where, names in ((machines, ("one", "two")), (others, ("foreign",))):
        for name in names:
            where.wait_ready(name)
    one, two, foreign = machines.login("one"), machines.login("two"), others.login("foreign")

    def reaches(address: str) -> bool:
        return machines.run(one, f"timeout {lasting(3):g} bash -c '</dev/tcp/{address}/22'").returncode == 0

    assert reaches(two.address)
    assert not reaches(foreign.address)
