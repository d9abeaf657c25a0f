"""What the machine that runs pods is made of, given by the caller: where artifacts come from is not known here."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.infra.host import pki
from harness.model import Mirror

NAMESPACE_NAME = "vmatrix-pods"
NAME = "pods"
CPUS, MEMORY_MIB, DISK_GIB = 2, 1536, 16
OWN_MIB = 256  # of its memory is for the kubelet, containerd, kube-proxy and systemd: 190 MiB resident when measured
POD_NETWORK = "10.88.0.0/16"  # the machine's own; its pods go out with the machine's address
PROGRAMS = ("containerd", "runc", "cni-plugins", "kubelet", "kube-proxy")  # fetched from the mirror at the first boot
PAUSE = "pause"  # the image of a pod's sandbox
PROVISIONER, BUSYBOX = "local-path-provisioner", "e2e-test-images/busybox"  # the images that make claims' folders
IMAGES = (PAUSE, PROVISIONER, BUSYBOX)
CERTIFICATES = ("ca", "pods-kubelet", "pods-proxy")  # of the instance


@dataclass(frozen=True)
class BootDisk:
    """The disk image of the machine: its file at the mirror, and that file's SHA-256 in hex."""

    file: str
    sha256: str


@dataclass(frozen=True)
class PodsMachine:
    """Everything that the machine is told at its first boot.

    Attributes:
        node: the name of its Node.
        server: the URL of the infra cluster's API.
        versions: of PROGRAMS and IMAGES.
        host: the Node of this host, which runs machines only.
        pki: the folder of the instance's certificates.
        memory_mib: its memory.
    """

    node: str
    server: str
    mirror: Mirror
    disk: BootDisk
    versions: Mapping[str, str]
    pki: Path
    host: str = ""
    memory_mib: int = MEMORY_MIB

    def issued(self, stem: str) -> tuple[str, str]:
        """Return a certificate of the instance and its key, as PEM."""
        files = pki.issued(self.pki, stem)
        return files.certificate.read_text(encoding="ascii"), files.key.read_text(encoding="ascii")

    def image(self, name: str) -> str:
        """Return the reference of one of IMAGES, in the instance's registry."""
        return f"{self.mirror.registry}/{name}:{self.versions[name]}"

    def certificates(self) -> str:
        """Return a digest of what it is told of the instance's certificates: another one once they are renewed."""
        texts = [text for stem in CERTIFICATES for text in self.issued(stem)]
        return hashlib.sha256("".join(texts).encode("ascii")).hexdigest()
