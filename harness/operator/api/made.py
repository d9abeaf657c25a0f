"""Machines that the operator makes of KubeVirt: what they are made of, for one Machine and for a set."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from harness.kube.kinds.models import ApiModel, StatusModel, listed, mapped
from harness.operator.api.base import LabelValue, Line, LoginUser, ObjectName

ZONE_LABEL = "topology.kubernetes.io/zone"  # of nodes: https://kubernetes.io/docs/reference/labels-annotations-taints/
MIB = {"Mi": 1, "Gi": 1024, "Ti": 1024 * 1024}
ImageUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$", max_length=2048)]
Checksum = Annotated[str, StringConstraints(pattern=r"^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$", max_length=135)]
Memory = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,6}(Mi|Gi)$", max_length=9)]
DiskSize = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,6}(Gi|Ti)$", max_length=9)]


class MadeImage(ApiModel):
    """The image that a machine's disk is made from, with cloud-init in it."""

    url: ImageUrl = Field(description="URL of a disk image, qcow2 or raw, from which KubeVirt's importers get it.")
    checksum: Checksum = Field(description="sha256:HEX or sha512:HEX of the file.")
    credentials: ObjectName | None = Field(default=None, description="Secret with the log-in of the image's server.")
    certificates: ObjectName | None = Field(default=None, description="ConfigMap with the CA of the image's server.")


class KubevirtMachine(ApiModel):
    """What one machine is made of."""

    image: MadeImage = Field(description="The image that its disk is made from.")
    cpus: int = Field(default=2, ge=1, le=512, description="Number of processors.")
    memory: Memory = Field(description="Memory, such as 2048Mi or 4Gi.")
    disk: DiskSize = Field(description="Size of the disk, such as 20Gi; not smaller than the image.")
    storage_class: ObjectName | None = Field(default=None, description="Class of the disk; default: the cluster's.")
    node_selector: dict[str, LabelValue] = mapped("Labels of the nodes that it may run on.", max_length=20)

    @property
    def memory_mib(self) -> int:
        """Return the memory in MiB."""
        return mebibytes(self.memory)

    @property
    def disk_gib(self) -> int:
        """Return the size of the disk in GiB."""
        return mebibytes(self.disk) // MIB["Gi"]


class KubevirtMachines(KubevirtMachine):
    """What the machines of a set are made of. A change holds for machines that are made after it."""

    user: LoginUser = Field(default="vmatrix", description="User who logs in; cloud-init makes it.")
    zones: tuple[LabelValue, ...] = listed(
        "Zones to spread over, by the label topology.kubernetes.io/zone of nodes.",
        default=(),
        max_length=20,
    )

    @property
    def one(self) -> KubevirtMachine:
        """Return what each of the machines is made of."""
        return KubevirtMachine.model_validate(self.model_dump(exclude={"user", "zones"}))


class MachineInfrastructure(StatusModel):
    """The machine as a VirtualMachineInstance."""

    address: Line = Field(default="", description="IP address at which other machines reach it.")
    instance: Line = Field(default="", description="UID of the VirtualMachineInstance.")
    disk: Line = Field(default="", description="UID of its disk's PersistentVolumeClaim.")
    node: Line = Field(default="", description="Node that it runs on.")


def mebibytes(text: str) -> int:
    """Return a size of one of the patterns above in MiB."""
    return int(text[:-2]) * MIB[text[-2:]]
