"""Container images put into a node's containerd before there is a node, by a containerd of this host for a moment."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from pathlib import Path

from harness import proc
from harness.errors import InfraError
from harness.until import Deadline, NotYet, until

START_SECONDS = 60.0  # a containerd without images or containers
IMPORT_SECONDS = 300.0  # one image from a local file
ANSWER_SECONDS = 10.0  # over a socket of this host
STOP_SECONDS = 10.0  # for a containerd of this host to end before it is killed
NAMESPACE = "k8s.io"  # where the CRI plugin looks for images
CONFIG = """\
version = 2
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.nri.v1.nri", "io.containerd.cri.v1.images",
  "io.containerd.cri.v1.runtime"]
[grpc]
  address = "{socket}"
[ttrpc]
  address = "{socket}.ttrpc"
"""


def preload(root: Path, images: Mapping[str, Path], *, containerd: Path, ctr: Path, work: Path, log: Path) -> None:
    """Import images into the containerd of a node's root file system, unpacked and ready to be started.

    Args:
        root: the node's root file system.
        images: what each is called in the node -> its OCI image layout.
        containerd, ctr: the programs, of the version that the node has.
        work: a folder for what is only needed meanwhile.

    Raises:
        InfraError: containerd did not start, or refused an image.
    """
    socket = work / "c.sock"
    config = work / "containerd.toml"
    folder = root / "var/lib/containerd"
    folder.mkdir(parents=True, exist_ok=True)
    config.write_text(CONFIG.format(root=folder, state=work / "state", socket=socket), encoding="utf-8")
    service = proc.spawn([containerd, "--config", config, "--log-level", "warn"], log=log, cwd=work)
    client: list[str | Path] = [ctr, "--address", socket, "--namespace", NAMESPACE]

    def serving() -> bool | NotYet:
        if not service.alive():
            raise InfraError("containerd ended before it accepted an image", paths=[log])
        answer = proc.run([*client, "version"], timeout=ANSWER_SECONDS, check=False)
        return answer.returncode == 0 or NotYet((answer.stderr or answer.stdout).strip()[-200:])

    try:
        until(serving, deadline=Deadline.after(START_SECONDS), what="containerd to accept images", interval=0.2)
        for name, layout in images.items():
            archive = work / "image.tar"
            with tarfile.open(archive, "w") as tar:
                tar.add(layout, arcname=".")
            take = ["images", "import", "--local", "--discard-unpacked-layers", "--index-name", name]
            with proc.failing_as_infra(f"image {name} could not be imported into the node image", hint="read the log"):
                proc.run([*client, *take, archive], timeout=IMPORT_SECONDS, log=log)
            archive.unlink()
    finally:
        service.stop(grace=STOP_SECONDS)
