"""A backup of a real cluster is drilled: proven, then refused once it says something else, then proven again. In order.

What differs is what lies beside the snapshot: a damaged file would be refused before an etcd begins with it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.kube.client import Json
from harness.kube.objects import condition, dig, phase
from harness.kube.resources import JOB, POD, PVC
from harness.model import Cell
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, CLUSTER_LABEL, ETCD_BACKUP
from harness.operator.execute.objects import SNAPSHOTS, USER
from harness.spec import Spec
from tests.embedded.operator_live.lived import Lived, cell_of, deployed, says

CLAIM = "guest-backups"
EACH_MINUTE = {"schedule": "@yearly", "drill": "* * * * *", "destination": {"claim": CLAIM}}
PROGRAM = f"""
import json, pathlib
path = pathlib.Path("{SNAPSHOTS}/guest/first.db.json")
told = json.loads(path.read_text())
told["counts"]["/registry/secrets/"] += 1
path.write_text(json.dumps(told))
"""


@pytest.fixture(scope="module")
def planned(spec: Spec) -> Cell:
    """Return a cell of one machine."""
    return cell_of(spec, "operator", topology="all-in-one", scenario="fresh", addons="core")


@pytest.fixture(scope="module")
def lived(spec: Spec, planned: Cell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    """Return the cluster once it is deployed, and drilled each minute."""
    with deployed(spec, planned, "drill", tmp_path_factory.mktemp("cell")) as found:
        room = {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "pods"}
        made = PVC.manifest(CLAIM, found.namespace, labels={}, spec={"accessModes": ["ReadWriteOnce"], **room})
        found.api.create(PVC, made)
        found.edit({"etcd": {"backup": EACH_MINUTE}})
        yield found


def back_up(lived: Lived, name: str) -> Json:
    """Return an EtcdBackup once it is verified."""
    made = ETCD_BACKUP.manifest(name, lived.namespace, labels={}, spec={"cluster": "guest"})
    lived.api.create(ETCD_BACKUP, made)
    return lived.wait(name, lambda one: says(one, "Verified")[0] == "True", "verified", ETCD_BACKUP)


def told(lived: Lived, status: str, reason: str, backup: str) -> str:
    """Return the message of BackupProven once it has a status for a reason, and is about a backup."""

    def same(one: Json) -> bool:
        found = condition(one, "BackupProven") or {}
        return says(one, "BackupProven") == (status, reason) and backup in found["message"]

    found = lived.wait("guest", same, f"BackupProven={status} ({reason}) of {backup}", CLUSTER_DEPLOYMENT)
    return str((condition(found, "BackupProven") or {})["message"])


def run_in_claim(lived: Lived, program: str) -> None:
    """Run Python in a pod that has the claim."""
    jobs = lived.api.list(JOB, lived.namespace, labels=f"{CLUSTER_LABEL}=guest").items
    image = jobs[0]["spec"]["template"]["spec"]["containers"][0]["image"]
    mounts = [{"name": "snapshots", "mountPath": SNAPSHOTS}]
    container = {"name": "c", "image": image, "command": ["python3", "-c", program], "volumeMounts": mounts}
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {"runAsUser": USER, "fsGroup": USER},
        "containers": [container],
        "volumes": [{"name": "snapshots", "persistentVolumeClaim": {"claimName": CLAIM}}],
    }
    lived.api.create(POD, POD.manifest("editing", lived.namespace, labels={}, spec=spec))
    try:
        pod = lived.wait("editing", lambda one: phase(one) in {"Succeeded", "Failed"}, "ended", POD)
        assert phase(pod) == "Succeeded", lived.api.pod_log(lived.namespace, "editing", container="c")
    finally:
        lived.api.delete(POD, "editing", lived.namespace)


def test_a_backup_is_proven_by_an_etcd_that_begins_with_it(lived: Lived) -> None:
    backup = back_up(lived, "first")
    number = dig(backup, "status", "objects")
    assert number > 100, "an empty cluster has more keys than that"
    said = told(lived, "True", "Proven", "first")
    assert f"with all {number} keys of revision {dig(backup, 'status', 'revision')}" in said
    shown = lived.wait("first", lambda one: says(one, "Proven")[0] == "True", "proven", ETCD_BACKUP)
    assert dig(shown, "status", "proven")
    assert "drill succeeded" in lived.history()
    lived.wait("guest", lambda one: says(one, "Ready")[0] == "True", "ready", CLUSTER_DEPLOYMENT)


def test_a_backup_that_differs_is_refused_and_stays(lived: Lived) -> None:
    run_in_claim(lived, PROGRAM)
    said = told(lived, "False", "DrillFailed", "first")
    assert "/registry/secrets/: " in said
    assert "counted in the cluster" in said
    shown = lived.wait("first", lambda one: says(one, "Proven") == ("False", "DrillFailed"), "refused", ETCD_BACKUP)
    assert dig(shown, "status", "phase") == "Verified"
    assert "Warning DrillFailed" in lived.events("first")
    past = dig(lived.get("guest", CLUSTER), "status", "history")[0]
    assert (past["operation"], past["blame"]) == ("drill", "user")


def test_the_next_backup_is_drilled_at_once(lived: Lived) -> None:
    back_up(lived, "second")
    told(lived, "True", "Proven", "second")
    assert says(lived.get("first", ETCD_BACKUP), "Proven") == ("False", "DrillFailed")


def test_a_cluster_that_asks_for_no_drill_says_so(lived: Lived) -> None:
    lived.edit({"etcd": {"backup": {"drill": None}}})
    told(lived, "Unknown", "NoDrill", "")
