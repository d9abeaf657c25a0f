"""What may not be changed or taken afterwards: an instance's status and spec, a DataVolume's spec, others' claims."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from harness.kube.client import ApiFailure, Cluster
from harness.kube.resources import DATA_VOLUME, PVC, ROLE_BINDING, SERVICE_ACCOUNT, VM, VMI
from harness.until import NotYet, until
from tests.contract.conftest import Infra
from tests.contract.limits import patience, within
from tests.contract.transitions import Json
from tests.contract.volumes import copy_of, datavolume


def too_large(namespace: str, name: str) -> Json:
    """Return a VirtualMachine that no node has room for."""
    spec = {"domain": {"devices": {}, "memory": {"guest": "100Ti"}}, "terminationGracePeriodSeconds": 0}
    return {
        "apiVersion": VM.api_version,
        "kind": "VirtualMachine",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"runStrategy": "Once", "template": {"metadata": {}, "spec": spec}},
    }


def wait_instance(cluster: Cluster, namespace: str, name: str) -> Json:
    """Wait until a VirtualMachine has its instance."""
    return until(
        lambda: cluster.get(VMI, name, namespace) or NotYet("there is none"),
        deadline=within(20),
        what=f"instance {namespace}/{name}",
        interval=0.1,
    )


def test_an_instance_keeps_its_status_and_spec_from_users(cluster: Cluster, admin: Cluster, namespace: str) -> None:
    cluster.create(VM, too_large(namespace, "big"))
    wait_instance(cluster, namespace, "big")

    forged = admin.merge(VMI, "big", {"status": {"phase": "Running", "nodeName": "forged"}}, namespace)
    with pytest.raises(ApiFailure) as refused:
        admin.merge(VMI, "big", {"spec": {"terminationGracePeriodSeconds": 7}}, namespace)

    assert forged["status"].get("phase") != "Running"
    assert "nodeName" not in forged["status"]
    assert refused.value.code == 422
    assert "update of VMI object is restricted" in refused.value.message


def test_a_volumes_spec_cannot_be_changed(cluster: Cluster, admin: Cluster, namespace: str) -> None:
    cluster.create(DATA_VOLUME, datavolume(namespace, "disk", {"blank": {}}))
    bigger = {"spec": {"storage": {"resources": {"requests": {"storage": "128Mi"}}}}}

    with pytest.raises(ApiFailure) as refused:
        admin.merge(DATA_VOLUME, "disk", bigger, namespace)

    assert refused.value.code == 422
    assert refused.value.message.endswith("denied the request:  Cannot update DataVolume Spec")
    admin.merge(DATA_VOLUME, "disk", {"metadata": {"labels": {"allowed": "yes"}}}, namespace)


def test_a_volume_does_not_take_a_claim_that_is_there(cluster: Cluster, admin: Cluster, namespace: str) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "mine", "namespace": namespace}}
    admin.create(PVC, {**claim, "spec": spec})

    with pytest.raises(ApiFailure) as refused:
        cluster.create(DATA_VOLUME, datavolume(namespace, "mine", {"blank": {}}))

    assert refused.value.code == 422
    assert refused.value.message.endswith(f"Destination PVC {namespace}/mine already exists")


def _as_account(infra: Infra, namespace: str, folder: Path) -> Cluster:
    """Return a client that acts as a service account with the role `edit` in its namespace."""
    cluster = infra.admin
    meta = {"name": "job", "namespace": namespace}
    cluster.create(SERVICE_ACCOUNT, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    binding = {
        "apiVersion": ROLE_BINDING.api_version,
        "kind": "RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": ROLE_BINDING.group, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", **meta}],
    }
    cluster.create(ROLE_BINDING, binding)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    answer = cluster.request("POST", SERVICE_ACCOUNT.path(namespace, "job", "token"), body=request)
    config = yaml.safe_load(infra.kubeconfig.read_text(encoding="utf-8"))
    for user in config["users"]:
        user["user"] = {"token": answer["status"]["token"]}
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return Cluster.from_kubeconfig(path, patience=patience())


def test_a_job_with_the_role_edit_clones_only_from_where_it_may(
    infra: Infra, namespace: str, other_namespace: str, tmp_path: Path
) -> None:
    job = _as_account(infra, namespace, tmp_path)

    def granted() -> bool | NotYet:  # roles are aggregated and bound a moment after they are written
        try:
            job.create(DATA_VOLUME, datavolume(namespace, "own", {"blank": {}}), dry_run=True)
        except ApiFailure as failure:
            return NotYet(failure.message)
        return True

    until(granted, deadline=within(10), what="the role edit to allow DataVolumes", interval=0.2)
    with pytest.raises(ApiFailure) as refused:
        job.create(DATA_VOLUME, datavolume(namespace, "foreign", copy_of(other_namespace, "golden")))

    user = f"system:serviceaccount:{namespace}:job"
    message = f"User {user} has insufficient permissions in clone source namespace {other_namespace}"
    assert refused.value.code == 422
    assert refused.value.message.endswith(message)
    job.create(VM, too_large(namespace, "allowed"), dry_run=True)
    job.create(DATA_VOLUME, datavolume(namespace, "own-clone", copy_of(namespace, "golden")), dry_run=True)
