"""An EtcdCluster on machines that the operator makes: it grows, is upgraded, goes back, and loses a member. In order.

It lies in the namespace of a cell of the operator, whose manager, mirror and disk image it uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from harness.kube.client import Json
from harness.kube.objects import dig
from harness.kube.resources import PVC, VM
from harness.model import Cell
from harness.operator.api.resources import (
    CLUSTER,
    CLUSTER_DEPLOYMENT,
    ETCD_BACKUP,
    ETCD_CLUSTER,
    ETCD_PEER,
    ETCD_RESTORE,
    MACHINE,
)
from harness.operator.decide.variables import load_releases
from harness.spec import Spec
from harness.until import Deadline, NotYet, until
from tests.embedded.operator_live.lived import INTERVAL, Lived, cell_of, deployed, says

PRODUCT, NAME = "operator", "store"
SMALL = {"cpus": 1, "memory": "768Mi"}  # of each member: etcd alone


@pytest.fixture(scope="module")
def planned(spec: Spec) -> Cell:
    """Return a cell of one machine whose mirror has two versions of Kubernetes, and with them of etcd."""
    return cell_of(spec, PRODUCT, topology="all-in-one", scenario="upgrade-minor", addons="core")


@pytest.fixture(scope="module")
def lived(spec: Spec, planned: Cell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    """Return the cell once its cluster is deployed, which is of the older version."""
    with deployed(spec, planned, "store", tmp_path_factory.mktemp("cell")) as found:
        yield found


@dataclass(frozen=True)
class Store:
    """The EtcdCluster."""

    lived: Lived
    before: str
    after: str

    def edit(self, **spec: object) -> None:
        """Change the wish."""
        self.lived.api.merge(ETCD_CLUSTER, NAME, {"spec": spec}, self.lived.namespace)

    def ended(self, *operations: str) -> Json:
        """Return the EtcdCluster once these operations have succeeded, all that there were, and it is ready."""
        wanted = [f"{one} succeeded" for one in operations]

        def so(cluster: Json) -> bool:
            past: list[Json] = dig(cluster, "status", "history") or []
            return [f"{one['operation']} {one['outcome']}" for one in reversed(past)] == wanted

        self.lived.wait(NAME, so, " and ".join(wanted), CLUSTER)
        return self.lived.wait(NAME, lambda one: dig(one, "status", "phase") == "Ready", "ready", ETCD_CLUSTER)

    def peers(self, count: int) -> dict[str, Json]:
        """Return what so many members say of themselves, by Machine, once all of them serve and one leads."""
        api, namespace = self.lived.api, self.lived.namespace

        def serve() -> dict[str, Json] | NotYet:
            listed = api.list(ETCD_PEER, namespace).items
            told = {one["metadata"]["name"]: one.get("status") or {} for one in listed}
            well = all(says(one, "Ready")[0] == "True" for one in listed)
            leaders = sum(bool(one.get("leader")) for one in told.values())
            return told if well and len(told) == count and leaders == 1 else NotYet(f"there are {told}")

        seconds = self.lived.life.site.timeouts.phase_later
        return until(serve, deadline=Deadline.after(seconds), what=f"{count} members", interval=INTERVAL)


@pytest.fixture(scope="module")
def store(lived: Lived, planned: Cell) -> Store:
    """Return the EtcdCluster of one member, once it is deployed."""
    guest = lived.get("guest", CLUSTER_DEPLOYMENT)
    known = load_releases().kubernetes
    older = str(dig(guest, "spec", "version"))
    newer = next(version for version, minor in load_releases().minors.items() if minor == older)
    spec = {
        "version": known[older]["etcd"],
        "replicas": 1,
        "machines": {"kubevirt": lived.machines_like(planned.machines[0], **SMALL)},
        "source": {name: guest["spec"]["source"][name] for name in ("type", "mirror")},
    }
    lived.api.create(ETCD_CLUSTER, ETCD_CLUSTER.manifest(NAME, lived.namespace, labels={}, spec=spec))
    lived.made(NAME, CLUSTER)
    found = Store(lived, known[older]["etcd"], known[newer]["etcd"])
    found.ended("deploy-etcd")
    return found


def test_it_begins_with_one_member_and_grows(store: Store) -> None:
    (first,) = store.peers(1).values()
    assert first["role"] == "Voter"
    assert int(first["memberID"], 16)
    store.edit(replicas=3)
    found = store.ended("deploy-etcd", "scale")
    assert found["status"]["members"] == "3/3"
    assert len(found["status"]["endpoints"]) == 3
    peers = store.peers(3)
    assert {one["role"] for one in peers.values()} == {"Voter"}
    assert len({one["memberID"] for one in peers.values()}) == 3


def test_it_is_upgraded(store: Store) -> None:
    store.edit(version=store.after)
    assert store.ended("deploy-etcd", "scale", "upgrade-etcd")["status"]["version"] == store.after
    store.peers(3)


def test_it_is_backed_up_and_goes_back(store: Store) -> None:
    api, namespace = store.lived.api, store.lived.namespace
    size = {"accessModes": ["ReadWriteOnce"], "storageClassName": "pods", "resources": {"requests": {"storage": "1Gi"}}}
    api.create(PVC, PVC.manifest("store-backups", namespace, labels={}, spec=size))
    place = {"cluster": NAME, "destination": {"claim": "store-backups"}}
    api.create(ETCD_BACKUP, ETCD_BACKUP.manifest("before", namespace, labels={}, spec=place))
    taken = store.lived.wait("before", lambda one: says(one, "Verified")[0] == "True", "verified", ETCD_BACKUP)
    asked = {"cluster": NAME, "backup": "before", "confirm": dig(taken, "status", "taken")}
    api.create(ETCD_RESTORE, ETCD_RESTORE.manifest("undo", namespace, labels={}, spec=asked))
    store.lived.wait("undo", lambda one: says(one, "Restored")[0] == "True", "restored", ETCD_RESTORE)
    store.peers(3)


def test_a_lost_member_is_replaced(store: Store) -> None:
    lost = next(name for name, one in store.peers(3).items() if one["leader"])
    store.lived.api.delete(VM, lost, store.lived.namespace)
    store.lived.gone(lost, ETCD_PEER)
    left = store.peers(3)
    assert lost not in left


def test_nothing_is_left_of_it(store: Store) -> None:
    store.lived.api.delete(ETCD_CLUSTER, NAME, store.lived.namespace)
    for kind in (ETCD_CLUSTER, CLUSTER):
        store.lived.gone(NAME, kind)
    api, namespace = store.lived.api, store.lived.namespace

    def none_left() -> bool | NotYet:
        machines = [one["metadata"]["name"] for one in api.list(MACHINE, namespace).items]
        ours = [name for name in machines if name.startswith(f"{NAME}-")]
        return not ours or NotYet(f"there are {ours}")

    seconds = store.lived.life.site.timeouts.phase_later
    until(none_left, deadline=Deadline.after(seconds), what="no Machine of it", interval=INTERVAL)
    assert api.list(ETCD_PEER, namespace).items == []
