"""Admission webhooks: their configurations, as KubeVirt and CDI install them, and the server that answers them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.embedded.admission.datavolume import Neighbours, authorize_datavolume, validate_datavolume
from harness.embedded.admission.vm import default_vm, default_vmi, validate_vm, validate_vmi_create, validate_vmi_update
from harness.kube.admission import Judge, listen
from harness.kube.client import Cluster, Json, allowed, as_reviewed, own_name
from harness.kube.resources import DATA_SOURCE, PVC
from harness.kube.serving import HttpsServer

TIMEOUT_SECONDS = 10  # the API server's limit for a webhook, as virt-operator installs it
CREATE, UPDATE = "CREATE", "UPDATE"
VMS, VMIS, DVS = "virtualmachines", "virtualmachineinstances", "datavolumes"


@dataclass(frozen=True)
class Webhook:
    """One webhook: the first word of its name, the path it is served at and what it judges."""

    first: str
    path: str
    plural: str
    mutating: bool = False
    operations: tuple[str, ...] = (CREATE, UPDATE)
    guards_status: bool = False

    @property
    def group(self) -> str:
        """Return the API group of the kind that it judges."""
        return "cdi.kubevirt.io" if self.plural == DVS else "kubevirt.io"

    @property
    def name(self) -> str:
        """Return its name within its configuration."""
        return f"{self.first}.{self.group}"

    @property
    def configuration(self) -> str:
        """Return the name of the configuration object that it is in."""
        if self.plural == DVS:
            return f"cdi-api-{self.first}"
        return "virt-api-mutator" if self.mutating else "virt-api-validator"


VM_MUTATOR = Webhook("virtualmachines-mutator", "/virtualmachines-mutate", VMS, mutating=True)
VM_VALIDATOR = Webhook("virtualmachine-validator", "/virtualmachines-validate", VMS)
VMI_MUTATOR = Webhook(
    "virtualmachineinstances-mutator", "/virtualmachineinstances-mutate", VMIS, mutating=True, guards_status=True
)
VMI_CREATE_VALIDATOR = Webhook(
    "virtualmachineinstances-create-validator", "/virtualmachineinstances-validate-create", VMIS, operations=(CREATE,)
)
VMI_UPDATE_VALIDATOR = Webhook(
    "virtualmachineinstances-update-validator",
    "/virtualmachineinstances-validate-update",
    VMIS,
    operations=(UPDATE,),
    guards_status=True,
)
DV_MUTATOR = Webhook("datavolume-mutate", "/datavolume-mutate", DVS, mutating=True)
DV_VALIDATOR = Webhook("datavolume-validate", "/datavolume-validate", DVS)
WEBHOOKS = (
    VM_MUTATOR,
    VMI_MUTATOR,
    VM_VALIDATOR,
    VMI_CREATE_VALIDATOR,
    VMI_UPDATE_VALIDATOR,
    DV_MUTATOR,
    DV_VALIDATOR,
)


def configurations(*, url: str, ca_bundle: bytes, trusted: str) -> list[Json]:
    """Return the Mutating- and ValidatingWebhookConfigurations.

    Args:
        url: where the webhooks are served: https://HOST:PORT, without a path.
        ca_bundle: the PEM certificates that sign the server's.
        trusted: the user that the embedded controllers run as. Guards of an instance's status and spec would let it
            pass, so updates by it are not sent at all: every status update of an instance would cost two calls.
    """
    rules: dict[tuple[bool, str], list[Json]] = {}
    for webhook in WEBHOOKS:
        rules.setdefault((webhook.mutating, webhook.configuration), []).append(_entry(webhook, url, ca_bundle, trusted))
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{'Mutating' if mutating else 'Validating'}WebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": entries,
        }
        for (mutating, name), entries in rules.items()
    ]


def _entry(webhook: Webhook, url: str, ca_bundle: bytes, trusted: str) -> Json:
    entry: Json = {
        "name": webhook.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": url + webhook.path, "caBundle": base64.b64encode(ca_bundle).decode()},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "rules": [
            {
                "apiGroups": [webhook.group],
                "apiVersions": ["v1beta1" if webhook.plural == DVS else "v1"],
                "operations": list(webhook.operations),
                "resources": [webhook.plural],
                "scope": "*",
            }
        ],
    }
    if webhook.guards_status:
        expression = f"request.operation == 'CREATE' || request.userInfo.username != '{trusted}'"
        entry["matchConditions"] = [{"name": "not-by-the-controllers", "expression": expression}]
    return entry


def neighbours(cluster: Cluster) -> Neighbours:
    """Return the look-ups that the DataVolume rules need, answered by a live API."""

    def may_clone(user: Json, namespace: str) -> bool:
        review = (
            {"group": "cdi.kubevirt.io", "resource": "datavolumes", "subresource": "source", "verb": "create"},
            {"group": "", "resource": "pods", "verb": "create"},
        )
        who = as_reviewed(user)
        return any(allowed(cluster, who, {**attributes, "namespace": namespace})[0] for attributes in review)

    return Neighbours(
        data_source=lambda namespace, name: cluster.get(DATA_SOURCE, name, namespace),
        claim=lambda namespace, name: cluster.get(PVC, name, namespace),
        may_clone=may_clone,
    )


def judges(cluster: Cluster) -> Mapping[str, Judge]:
    """Return who answers at which path."""
    trusted, around = frozenset({own_name(cluster)}), neighbours(cluster)
    return {
        VM_MUTATOR.path: default_vm,
        VM_VALIDATOR.path: validate_vm,
        VMI_MUTATOR.path: lambda request: default_vmi(request, trusted),
        VMI_CREATE_VALIDATOR.path: lambda request: validate_vmi_create(request, trusted),
        VMI_UPDATE_VALIDATOR.path: lambda request: validate_vmi_update(request, trusted),
        DV_MUTATOR.path: lambda request: authorize_datavolume(request, around),
        DV_VALIDATOR.path: lambda request: validate_datavolume(request, around),
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
