"""Two small clusters with their keys in one EtcdCluster: it grows, one of them is deleted, the other goes on. In order.

They lie in the namespace of a cell of the operator, whose manager, mirror and disk image they use.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.errors import VmatrixError
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.objects import dig
from harness.kube.resources import CONFIG_MAP, SECRET
from harness.model import Cell
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, ETCD_CLUSTER
from harness.operator.decide.variables import load_releases
from harness.spec import Spec
from harness.until import Deadline, NotYet, until
from tests.embedded.operator_live.lived import INTERVAL, Lived, cell_of, deployed, says

NAME, NAMES = "store", ("one", "two")
SMALL = {"cpus": 1, "memory": "768Mi"}  # of each member: etcd alone
OF_GUEST = ("version", "network", "runtime", "kubernetes", "source", "variables")  # fields that all clusters here have


@pytest.fixture(scope="module")
def planned(spec: Spec) -> Cell:
    """Return a cell of one machine."""
    return cell_of(spec, "operator", topology="all-in-one", scenario="fresh", addons="core")


@pytest.fixture(scope="module")
def lived(spec: Spec, planned: Cell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    """Return the cell once its cluster is deployed."""
    with deployed(spec, planned, "shared", tmp_path_factory.mktemp("cell")) as found:
        yield found


@dataclass(frozen=True)
class Shared:
    """The EtcdCluster, and the clusters that have their keys in it. folder: for kubeconfigs."""

    lived: Lived
    folder: Path
    guests: dict[str, Cluster] = field(default_factory=dict)

    def ready(self, *names: str) -> Json:
        """Return the EtcdCluster once it is ready and is used by these clusters, and no others."""

        def so(one: Json) -> bool:
            used = tuple(each["name"] for each in dig(one, "status", "clusters") or ())
            return used == names and dig(one, "status", "phase") == "Ready"

        return self.lived.wait(NAME, so, f"ready, with {names}", ETCD_CLUSTER)

    def guest(self, name: str) -> Cluster:
        """Return a cluster's API, once it was ready: it goes on where its etcd is about to be deleted."""
        if name not in self.guests:
            self.lived.wait(name, lambda one: says(one, "Ready")[0] == "True", "ready", CLUSTER_DEPLOYMENT)
            file = self.folder / name
            kept = self.lived.get(f"{name}-kubeconfig", SECRET)["data"]["value"]
            file.write_bytes(base64.b64decode(kept))
            file.chmod(0o600)
            self.guests[name] = Cluster.from_kubeconfig(file)
        return self.guests[name]

    def writes(self, name: str, key: str) -> None:
        """Write an object into a cluster, which may be restarting its API server, and read it again."""
        guest = self.guest(name)

        def written() -> bool | NotYet:
            try:
                guest.create_if_absent(CONFIG_MAP, CONFIG_MAP.manifest(key, "default", labels={}, data={"of": name}))
                found = guest.get(CONFIG_MAP, key, "default")
            except (ApiFailure, VmatrixError) as failure:
                return NotYet(str(failure))
            return dig(found, "data", "of") == name or NotYet(f"it reads {found}")

        seconds = self.lived.life.site.timeouts.phase_later
        until(written, deadline=Deadline.after(seconds), what=f"an object in {name}", interval=INTERVAL)


@pytest.fixture(scope="module")
def shared(lived: Lived, planned: Cell, tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """Return the EtcdCluster of one member with two clusters, once all three are deployed."""
    api, namespace = lived.api, lived.namespace
    guest = lived.get("guest", CLUSTER_DEPLOYMENT)
    spec = {
        "version": load_releases().kubernetes[guest["spec"]["version"]]["etcd"],
        "replicas": 1,
        "machines": {"kubevirt": lived.machines_like(planned.machines[0], **SMALL)},
        "source": {name: guest["spec"]["source"][name] for name in ("type", "mirror")},
    }
    api.create(ETCD_CLUSTER, ETCD_CLUSTER.manifest(NAME, namespace, labels={}, spec=spec))
    one_set = {
        "name": "cp",
        "roles": ["control-plane", "worker"],
        "replicas": 1,
        "machines": {"kubevirt": lived.machines_like(planned.machines[0])},
    }
    same = {name: guest["spec"][name] for name in OF_GUEST if name in guest["spec"]}
    for name in NAMES:
        own = {
            **same,
            "etcd": {"clusterRef": {"name": NAME}},
            "machineSets": [one_set],
            "deletion": {"etcdKeys": "Delete"},
        }
        api.create(CLUSTER_DEPLOYMENT, CLUSTER_DEPLOYMENT.manifest(name, namespace, labels={}, spec=own))
    found = Shared(lived, tmp_path_factory.mktemp("kubeconfigs"))
    for name in NAMES:
        found.guest(name)
    found.ready(*NAMES)
    return found


def test_each_has_its_keys_below_a_prefix_of_its_own(shared: Shared) -> None:
    used = shared.ready(*NAMES)["status"]["clusters"]
    assert len({one["prefix"] for one in used}) == len({one["user"] for one in used}) == 2
    for name in NAMES:
        shared.writes(name, f"of-{name}")
    for name, other in (NAMES, NAMES[::-1]):
        assert shared.guest(name).get(CONFIG_MAP, f"of-{other}", "default") is None


def test_both_follow_an_etcd_that_grows(shared: Shared) -> None:
    shared.lived.api.merge(ETCD_CLUSTER, NAME, {"spec": {"replicas": 3}}, shared.lived.namespace)
    for name in NAMES:

        def knows_all(one: Json) -> bool:
            known = dig(one, "status", "applied", "variables", "cluster_etcd_endpoints") or ()
            return len(known) == 3 and dig(one, "status", "operation") is None

        found = shared.lived.wait(name, knows_all, "told of three members", CLUSTER)
        assert [one["operation"] for one in dig(found, "status", "history")] == ["reconfigure", "deploy"]
        shared.writes(name, "grown")
    assert len(shared.ready(*NAMES)["status"]["endpoints"]) == 3


def test_one_is_deleted_with_its_keys_and_the_other_goes_on(shared: Shared) -> None:
    first, second = NAMES
    before = shared.guest(first).get(CONFIG_MAP, f"of-{first}", "default")
    shared.lived.api.delete(CLUSTER_DEPLOYMENT, second, shared.lived.namespace)
    shared.lived.gone(second, CLUSTER_DEPLOYMENT)
    shared.ready(first)
    past = dig(shared.lived.get(NAME, CLUSTER), "status", "history")
    last = next(one for one in past if one["operation"] == "etcd-users")
    assert last["outcome"] == "succeeded"
    assert "keys below /two-" in last["why"]
    assert shared.guest(first).get(CONFIG_MAP, f"of-{first}", "default") == before
    shared.writes(first, "after")


def test_the_etcd_stays_until_nobody_uses_it(shared: Shared) -> None:
    first, namespace = NAMES[0], shared.lived.namespace
    shared.lived.api.delete(ETCD_CLUSTER, NAME, namespace)
    held = shared.lived.wait(NAME, lambda one: says(one, "Progressing")[1] == "EtcdInUse", "held", ETCD_CLUSTER)
    assert dig(held, "status", "phase") == "Deleting"
    shared.writes(first, "held")
    shared.lived.api.delete(CLUSTER_DEPLOYMENT, first, namespace)
    for name, kind in ((first, CLUSTER_DEPLOYMENT), (NAME, ETCD_CLUSTER), (NAME, CLUSTER)):
        shared.lived.gone(name, kind)
