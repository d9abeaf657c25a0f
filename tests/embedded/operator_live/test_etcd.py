"""etcd of a real cluster fills up, and the operator helps it; then the cluster goes back to a backup. In order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.objects import dig
from harness.kube.resources import CONFIG_MAP, PVC
from harness.model import Cell
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, ETCD_BACKUP, ETCD_RESTORE
from harness.spec import Spec
from harness.until import Deadline, NotYet, until
from tests.embedded.operator_live.lived import INTERVAL, Lived, cell_of, deployed, says

PRODUCT = "operator"
SMALL = {"quota-backend-bytes": str(24 << 20)}
MOST = 60  # objects of a megabyte
MANY, MANY_AFTER = 2000, 500  # objects written before and after a snapshot


@pytest.fixture(scope="module")
def planned(spec: Spec) -> Cell:
    """Return a cell of one machine."""
    return cell_of(spec, PRODUCT, topology="all-in-one", scenario="fresh", addons="core")


@pytest.fixture(scope="module")
def lived(spec: Spec, planned: Cell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    """Return the cluster once it is deployed, and its etcd has room for little."""
    with deployed(spec, planned, "etcd", tmp_path_factory.mktemp("cell")) as found:
        found.edit({"etcd": {"extraArgs": SMALL}})
        ended(found)
        yield found


@pytest.fixture
def guest(lived: Lived) -> Cluster:
    """Return a client of the cluster."""
    return Cluster.from_kubeconfig(Path(lived.life.guests[0].kubeconfig))


def config_map(name: str, text: str = "a") -> Json:
    return CONFIG_MAP.manifest(name, "default", labels={}, data={"text": text})


def fill(guest: Cluster, names: list[str]) -> None:
    """Write objects of a megabyte."""
    for name in names:
        guest.create(CONFIG_MAP, config_map(name, "x" * 1_000_000))


def ended(lived: Lived, *operations: str) -> None:
    """Wait until these operations have succeeded, after those of the beginning and in this order."""
    wanted = ["deploy succeeded", "reconfigure succeeded", *(f"{one} succeeded" for one in operations)]
    lived.wait("guest", lambda _: lived.history() == wanted, " and ".join(wanted), CLUSTER)


def written(lived: Lived, guest: Cluster, name: str) -> None:
    """Wait until the cluster takes an object."""

    def taken() -> bool | NotYet:
        try:
            return bool(guest.create(CONFIG_MAP, config_map(name)))
        except ApiFailure as failure:
            return NotYet(str(failure))

    until(taken, deadline=Deadline.after(lived.life.site.timeouts.phase_later), what=name, interval=INTERVAL)


def test_a_full_etcd_is_found_and_takes_writes_again(lived: Lived, guest: Cluster) -> None:
    names = [f"filling-{number}" for number in range(MOST)]
    with pytest.raises(ApiFailure, match="database space exceeded"):
        fill(guest, names)
    for name in names:
        guest.delete(CONFIG_MAP, name, "default")
    lived.wait("guest", lambda one: says(one, "EtcdHealthy") == ("False", "NoSpace"), "full", CLUSTER_DEPLOYMENT)
    ended(lived, "defragment")
    written(lived, guest, "after")
    lived.wait("guest", lambda one: says(one, "EtcdHealthy")[0] == "True", "well", CLUSTER_DEPLOYMENT)


def test_the_cluster_goes_back_once_that_is_confirmed(lived: Lived, guest: Cluster) -> None:
    api, namespace = lived.api, lived.namespace
    size = {"accessModes": ["ReadWriteOnce"], "storageClassName": "pods", "resources": {"requests": {"storage": "1Gi"}}}
    many = [f"many-{number}" for number in range(MANY)]
    for name in many:
        guest.create(CONFIG_MAP, config_map(name))
    api.create(PVC, PVC.manifest("guest-backups", namespace, labels={}, spec=size))
    place = {"cluster": "guest", "destination": {"claim": "guest-backups"}}
    api.create(ETCD_BACKUP, ETCD_BACKUP.manifest("before", namespace, labels={}, spec=place))
    backup = lived.wait("before", lambda one: says(one, "Verified")[0] == "True", "verified", ETCD_BACKUP)
    guest.delete(CONFIG_MAP, "after", "default")
    written(lived, guest, "later")
    for number in range(MANY_AFTER):
        guest.create(CONFIG_MAP, config_map(f"later-{number}"))

    asked = {"cluster": "guest", "backup": "before"}
    api.create(ETCD_RESTORE, ETCD_RESTORE.manifest("undo", namespace, labels={}, spec=asked))
    lived.wait("undo", lambda one: says(one, "Restored") == ("False", "NotConfirmed"), "refused", ETCD_RESTORE)
    confirm = {"spec": {"confirm": dig(backup, "status", "taken")}}
    api.merge(ETCD_RESTORE, "undo", confirm, namespace)
    lived.wait("undo", lambda one: says(one, "Restored")[0] == "True", "restored", ETCD_RESTORE)
    ended(lived, "defragment", "backup", "restore", "reconfigure")
    assert guest.get(CONFIG_MAP, "after", "default") is not None
    assert guest.get(CONFIG_MAP, "later", "default") is None
    names = {one["metadata"]["name"] for one in guest.list(CONFIG_MAP, "default").items}
    assert sorted(name for name in names if name.startswith(("many-", "later-"))) == sorted(many)
    written(lived, guest, "at-the-end")
