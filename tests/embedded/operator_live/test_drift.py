"""What somebody changes behind the operator's back in a real cluster, and an upgrade without an image. In order."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
import yaml

from harness.kube.client import Cluster, Json
from harness.kube.objects import condition, dig
from harness.kube.resources import CONFIG_MAP, DEPLOYMENT, NODE, SERVICE, Resource
from harness.model import Cell
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT
from harness.spec import Spec
from harness.until import Deadline, NotYet, until
from tests.embedded.operator_live.lived import INTERVAL, Lived, cell_of, deployed, says

log = logging.getLogger(__name__)
NOTICED_SECONDS = 60.0  # whatever somebody changes is put back, or said, within this
SCHEDULER = "/etc/kubernetes/manifests/kube-scheduler.yaml"
SYSTEM, BUILT_IN, OWN = "kube-system", "metrics-server", "shop"
Found = TypeVar("Found")


@pytest.fixture(scope="module")
def planned(spec: Spec) -> Cell:
    """Return a cell of one machine with all add-ons of the playbooks."""
    return cell_of(spec, "operator", topology="all-in-one", scenario="fresh")


@pytest.fixture(scope="module")
def lived(spec: Spec, planned: Cell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    """Return the cluster once it is deployed and inspected."""
    with deployed(spec, planned, "drift", tmp_path_factory.mktemp("cell")) as found:
        found.wait("cp-0", lambda one: says(one, "SettingsAsApplied")[1] == "AsApplied", "as applied")
        yield found


@pytest.fixture
def guest(lived: Lived) -> Cluster:
    """Return a client of the cluster, once nothing is to do that an earlier test has left."""
    settled(lived)
    return Cluster.from_kubeconfig(lived.life.guests[0].kubeconfig)


def noticed(what: str, probe: Callable[[], Found | NotYet]) -> Found:
    """Wait until something is noticed, and say how long it took."""
    began = time.monotonic()
    found = until(probe, deadline=Deadline.after(NOTICED_SECONDS), what=what, interval=INTERVAL)
    log.info("%s: noticed after %.1f s", what, time.monotonic() - began)
    return found


def another(guest: Cluster, kind: Resource, name: str, namespace: str) -> Callable[[], bool | NotYet]:
    """Delete an object; return what tells whether another one took its place."""
    old = dig(guest.get(kind, name, namespace), "metadata", "uid")
    assert old is not None
    guest.delete(kind, name, namespace)

    def probe() -> bool | NotYet:
        uid = dig(guest.get(kind, name, namespace), "metadata", "uid")
        return uid not in (None, old) or NotYet(f"{kind.kind} {name} has the UID {uid}")

    return probe


def settled(lived: Lived) -> None:
    """Wait until nothing is to do, and what is wished is deployed and works."""

    def well(one: Json) -> bool:
        return says(one, "Progressing") == ("False", "UpToDate") and says(one, "Ready")[0] == "True"

    lived.wait("guest", well, "ready", CLUSTER_DEPLOYMENT)


def wish(lived: Lived) -> Json:
    """Return what is wished."""
    spec: Json = lived.get("guest", CLUSTER_DEPLOYMENT)["spec"]
    return spec


def test_a_label_of_a_node_that_somebody_removes_comes_back(lived: Lived, guest: Cluster) -> None:
    lived.edit({"machineSets": [{**one, "labels": {"tier": "gold"}} for one in wish(lived)["machineSets"]]})

    def labelled() -> bool | NotYet:
        said = dig(guest.get(NODE, "cp-0"), "metadata", "labels", "tier")
        return said == "gold" or NotYet(f"tier is {said}")

    noticed("the label of the set", labelled)
    without = guest.merge(NODE, "cp-0", {"metadata": {"labels": {"tier": None}}})
    assert "tier" not in without["metadata"]["labels"]
    noticed("a label that was removed", labelled)
    assert lived.history() == ["deploy succeeded"]


def test_a_flag_that_somebody_changes_on_a_machine_is_said_and_put_back(lived: Lived) -> None:
    before = lived.sh("cp-0", f"cat {SCHEDULER}")
    lived.sh("cp-0", f'sed -i "s/- --leader-elect=true/- --leader-elect=false/" {SCHEDULER}')
    assert lived.sh("cp-0", f"cat {SCHEDULER}") != before

    def said() -> Json | NotYet:
        found = condition(lived.get("cp-0"), "SettingsAsApplied") or {}
        return found if found.get("reason") == "Changed" else NotYet(str(found))

    assert SCHEDULER in noticed("a flag that was changed", said)["message"]
    lived.wait("cp-0", lambda one: says(one, "SettingsAsApplied")[1] == "AsApplied", "put back")
    assert lived.sh("cp-0", f"cat {SCHEDULER}") == before
    settled(lived)
    assert lived.history() == ["deploy succeeded", "reconfigure succeeded"]


@pytest.mark.parametrize("kind", [DEPLOYMENT, SERVICE], ids=lambda kind: kind.kind)
def test_what_somebody_deletes_of_an_add_on_of_the_playbooks_is_said_and_put_back(
    lived: Lived, guest: Cluster, kind: Resource
) -> None:
    done = lived.history()
    back = another(guest, kind, BUILT_IN, SYSTEM)

    def said() -> bool | NotYet:
        states = dig(lived.get("guest", CLUSTER), "status", "addons") or []
        found = next(one for one in states if one["name"] == BUILT_IN)
        missing = found["reason"] == "Missing" and f"{kind.kind} {SYSTEM}/{BUILT_IN}" in found["message"]
        return missing or NotYet(str(found))

    noticed(f"a {kind.kind} of the playbooks that was deleted", said)
    until(back, deadline=Deadline.after(lived.seconds), what=f"another {kind.kind}", interval=INTERVAL)
    settled(lived)
    assert lived.history() == [*done, "addons succeeded"]


def shop(lived: Lived) -> str:
    """Return manifests of a Deployment and its Service, of an image that each machine has."""
    applied = lived.get("guest", CLUSTER)["status"]["applied"]["variables"]
    image = f"{applied['cluster_image_registry']}/pause:{applied['cluster_pause_version']}"
    labels = {"app": OWN}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    web: dict[str, Any] = {"selector": {"matchLabels": labels}, "template": pod}
    service = {"selector": labels, "ports": [{"port": 80}]}
    objects = (DEPLOYMENT.manifest(OWN, "default", labels=labels, spec=web),)
    return yaml.safe_dump_all([*objects, SERVICE.manifest(OWN, "default", labels=labels, spec=service)])


def test_what_somebody_deletes_of_an_add_on_with_manifests_is_put_back(lived: Lived, guest: Cluster) -> None:
    given = CONFIG_MAP.manifest(OWN, lived.namespace, labels={}, data={"shop.yml": shop(lived)})
    lived.api.create(CONFIG_MAP, given)
    lived.edit({"addons": [*wish(lived)["addons"], {"name": OWN, "manifests": {"configMap": OWN}}]})
    until(
        lambda: guest.get(SERVICE, OWN, "default") is not None or NotYet("it is not there"),
        deadline=Deadline.after(lived.seconds),
        what="the add-on",
        interval=INTERVAL,
    )
    settled(lived)
    done = lived.history()
    for kind in (DEPLOYMENT, SERVICE):
        noticed(f"a {kind.kind} with manifests that was deleted", another(guest, kind, OWN, "default"))
    settled(lived)
    assert lived.history() == done


def everything(lived: Lived) -> str:
    """Return what an upgrade changes on a machine: programs, files and the pods that are not made anew."""
    files = "find /etc/kubernetes /var/lib/kubelet/config.yaml /usr/local/bin -type f -exec sha256sum {} +"
    return lived.sh("cp-0", f"{files} | sort; systemctl show -p MainPID --value kubelet containerd")


def test_an_upgrade_that_lacks_an_image_touches_nothing_and_a_revert_heals(lived: Lived) -> None:
    settled(lived)
    before, done = everything(lived), lived.history()
    coredns = wish(lived)["components"]["coredns"]
    lived.edit({"components": {"coredns": "1.99.0"}})
    found = lived.wait("guest", lambda one: says(one, "Degraded") == ("True", "Failed"), "failed", CLUSTER_DEPLOYMENT)
    entry = lived.get("guest", CLUSTER)["status"]["history"][0]
    log.info("%s", {name: entry.get(name) for name in ("blame", "play", "task", "host", "summary", "hint")})
    assert (entry["operation"], entry["outcome"], entry["host"]) == ("upgrade", "failed", "cp-0")
    assert entry["untouched"] is True
    assert "coredns/manifests/v1.99.0: 404 Not Found" in entry["summary"]
    said = (condition(found, "Degraded") or {})["message"]
    assert f"at task '{entry['task']}' on cp-0" in said
    assert everything(lived) == before
    lived.edit({"components": {"coredns": coredns}})
    settled(lived)
    assert lived.history() == [*done, "upgrade failed"]
    assert everything(lived) == before
