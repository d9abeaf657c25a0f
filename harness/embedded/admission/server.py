"""Who judges what KubeVirt's and CDI's webhooks are asked about, and the server of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.embedded.admission import configuration as known
from harness.embedded.admission.datavolume import Neighbours, authorize_datavolume, validate_datavolume
from harness.embedded.admission.vm import default_vm, validate_vm
from harness.embedded.admission.vmi import default_vmi, validate_vmi_create, validate_vmi_update
from harness.kube.access import allowed, as_reviewed, own_name
from harness.kube.client import Cluster, Json
from harness.kube.https import HttpsServer
from harness.kube.resources import DATA_SOURCE, PVC
from harness.kube.reviews import Judge, listen


def neighbours(cluster: Cluster) -> Neighbours:
    """Return the look-ups that the DataVolume rules need, answered by a live API."""

    def may_clone(user: Json, namespace: str) -> bool:
        wanted = (
            {"group": "cdi.kubevirt.io", "resource": "datavolumes", "subresource": "source", "verb": "create"},
            {"group": "", "resource": "pods", "verb": "create"},
        )
        who = as_reviewed(user)
        return any(allowed(cluster, who, {**attributes, "namespace": namespace})[0] for attributes in wanted)

    return Neighbours(
        data_source=lambda namespace, name: cluster.get(DATA_SOURCE, name, namespace),
        claim=lambda namespace, name: cluster.get(PVC, name, namespace),
        may_clone=may_clone,
    )


def judges(cluster: Cluster) -> Mapping[str, Judge]:
    """Return who answers at which path."""
    trusted, around = frozenset({own_name(cluster)}), neighbours(cluster)
    return {
        known.VM_MUTATOR.path: default_vm,
        known.VM_VALIDATOR.path: validate_vm,
        known.VMI_MUTATOR.path: lambda request: default_vmi(request, trusted),
        known.VMI_CREATE_VALIDATOR.path: lambda request: validate_vmi_create(request, trusted),
        known.VMI_UPDATE_VALIDATOR.path: lambda request: validate_vmi_update(request, trusted),
        known.DV_MUTATOR.path: lambda request: authorize_datavolume(request, around),
        known.DV_VALIDATOR.path: lambda request: validate_datavolume(request, around),
    }


def serve(address: tuple[str, int], cert: Path, key: Path, cluster: Cluster) -> HttpsServer:
    """Listen for admission reviews; run the result's `serve_forever` on a thread, end it with `shutdown`.

    Args:
        cert: the server's PEM certificate (with its chain); key: its private key.
        cluster: the API that the DataVolume rules ask; its user is taken for KubeVirt's own.

    Raises:
        InfraError: the address is taken.
    """
    return listen(address, cert, key, judges(cluster))
