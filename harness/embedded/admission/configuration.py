"""The webhook configurations, named and ruled as KubeVirt and CDI install them, pointing at one URL."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from harness.embedded.admission.response import Json

TIMEOUT_SECONDS = 10


@dataclass(frozen=True)
class Webhook:
    """One webhook: its configuration's name, its own, the path it is served at and what it judges."""

    configuration: str
    name: str
    path: str
    mutating: bool
    group: str
    version: str
    plural: str
    operations: tuple[str, ...]
    guards_status: bool = False


KUBEVIRT = ("kubevirt.io", "v1")
CDI = ("cdi.kubevirt.io", "v1beta1")
CREATE, UPDATE = "CREATE", "UPDATE"

VM_MUTATOR = Webhook(
    "virt-api-mutator",
    "virtualmachines-mutator.kubevirt.io",
    "/virtualmachines-mutate",
    True,
    *KUBEVIRT,
    "virtualmachines",
    (CREATE, UPDATE),
)
VMI_MUTATOR = Webhook(
    "virt-api-mutator",
    "virtualmachineinstances-mutator.kubevirt.io",
    "/virtualmachineinstances-mutate",
    True,
    *KUBEVIRT,
    "virtualmachineinstances",
    (CREATE, UPDATE),
    guards_status=True,
)
VM_VALIDATOR = Webhook(
    "virt-api-validator",
    "virtualmachine-validator.kubevirt.io",
    "/virtualmachines-validate",
    False,
    *KUBEVIRT,
    "virtualmachines",
    (CREATE, UPDATE),
)
VMI_CREATE_VALIDATOR = Webhook(
    "virt-api-validator",
    "virtualmachineinstances-create-validator.kubevirt.io",
    "/virtualmachineinstances-validate-create",
    False,
    *KUBEVIRT,
    "virtualmachineinstances",
    (CREATE,),
)
VMI_UPDATE_VALIDATOR = Webhook(
    "virt-api-validator",
    "virtualmachineinstances-update-validator.kubevirt.io",
    "/virtualmachineinstances-validate-update",
    False,
    *KUBEVIRT,
    "virtualmachineinstances",
    (UPDATE,),
    guards_status=True,
)
DV_MUTATOR = Webhook(
    "cdi-api-datavolume-mutate",
    "datavolume-mutate.cdi.kubevirt.io",
    "/datavolume-mutate",
    True,
    *CDI,
    "datavolumes",
    (CREATE, UPDATE),
)
DV_VALIDATOR = Webhook(
    "cdi-api-datavolume-validate",
    "datavolume-validate.cdi.kubevirt.io",
    "/datavolume-validate",
    False,
    *CDI,
    "datavolumes",
    (CREATE, UPDATE),
)
WEBHOOKS: Sequence[Webhook] = (
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
    found: dict[tuple[bool, str], list[Json]] = {}
    for webhook in WEBHOOKS:
        found.setdefault((webhook.mutating, webhook.configuration), []).append(_entry(webhook, url, ca_bundle, trusted))
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{'Mutating' if mutating else 'Validating'}WebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": entries,
        }
        for (mutating, name), entries in found.items()
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
                "apiVersions": [webhook.version],
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
