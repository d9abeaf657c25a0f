"""What a Machine is made of, as objects of KubeVirt: its image, its disk, what cloud-init is told, its VirtualMachine.

All of it goes with the Machine, and an image with the last set that needs it, whether or not an operator runs then.
"""

from __future__ import annotations

from typing import Any

from harness.kube.client import Json
from harness.kube.objects import controller_of, owner_reference
from harness.machines.kubevirt.manifests import GoldenImage, MachinePlan, Origin, golden, machine
from harness.model import LABEL_MANAGED, MANAGED_BY, PlannedMachine
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.made import KubevirtMachine
from harness.operator.api.resources import GROUP, MACHINE
from harness.operator.decide.desired import digest_of
from harness.paths import packaged_dir
from harness.spec.project import TEMPLATES

MACHINE_LABEL = f"{GROUP}/machine"
RUN_STRATEGY = "Always"  # a machine of a cluster that stays comes back with its disk
DOMAIN = "cluster.local"
SHARED = ("apiVersion", "kind", "name", "uid")


def image_of(made: KubevirtMachine, user: str) -> GoldenImage:
    """Return the image that disks are cloned from; whoever asks for the same gets the same name."""
    image, source = made.image, made.model_dump(include={"image", "disk", "storage_class"})
    return GoldenImage(
        name=f"vmatrix-image-{digest_of(source)}",
        url=image.url,
        checksum=image.checksum,
        size=f"{made.disk_gib}Gi",
        user=user,
        credentials=image.credentials or "",
        certificates=image.certificates or "",
    )


def image_object(found: Json, made: KubevirtMachine, image: GoldenImage) -> Json:
    """Return the DataVolume that imports an image, owned by what asks for it.

    Args:
        found: the Machine, as the API has it.
    """
    body = golden(
        image,
        labels={LABEL_MANAGED: MANAGED_BY},
        storage_class=made.storage_class,
        directory=packaged_dir() / TEMPLATES,
        namespace=found["metadata"]["namespace"],
    )
    body["metadata"]["ownerReferences"] = [image_owner(found)]
    return body


def image_owner(found: Json) -> Json:
    """Return the reference to what an image stays for: a Machine's set, or the Machine where it has none."""
    owner = controller_of(found) or owner_reference(found, MACHINE)
    return {name: owner[name] for name in SHARED}


def machine_objects(
    found: Json, model: DeclaredMachine, made: KubevirtMachine, public_key: str, domain: str
) -> list[Json]:
    """Return a Machine's disk, Secret for cloud-init and VirtualMachine, in the order in which they are made."""
    meta = model.metadata
    owner: dict[str, Any] = owner_reference(found, MACHINE)
    plan = MachinePlan(
        namespace=meta.namespace,
        labels={LABEL_MANAGED: MANAGED_BY, MACHINE_LABEL: meta.name},
        public_key=public_key,
        dns_domain=domain,
        storage_class=made.storage_class,
        owner=owner,
        run_strategy=RUN_STRATEGY,
        nodes=made.node_selector,
    )
    image = image_of(made, model.spec.user)
    planned = PlannedMachine(meta.name, (), made.cpus, made.memory_mib, made.disk_gib, image.name)
    origin = Origin("claim", meta.namespace, image.name)
    objects = machine(plan, planned, image, directory=packaged_dir() / TEMPLATES, origin=origin)
    objects[1]["metadata"]["ownerReferences"] = [owner]
    return objects
