"""What is in a node image: which artifacts, where they lie in it, and the files that are written for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from harness.artifacts import refs
from harness.artifacts.catalogue import IMAGE_PREFIX, Catalogue
from harness.artifacts.recipe import Ref

REPOSITORY = "vmatrix.invalid"  # what the images are called in a node: nobody can pull from there (RFC 2606)
KIND = "kind"
POD_RANGE = "10.244.0.0/24"  # of the one node, from kind's pod network 10.244.0.0/16
STORAGE = Path(__file__).with_name("default-storage.yaml.in")
BUSYBOX = "image/e2e-test-images/busybox"
PROVISIONER = "image/local-path-provisioner"
PLUGINS = ("bridge", "host-local", "loopback", "portmap", "ptp")
ENABLED = ("containerd.service", "kubelet.service", "undo-mount-hacks.service")


def programs(catalogue: Catalogue, version: str) -> tuple[Ref, ...]:
    """Return the programs of a node of a Kubernetes version."""
    kubernetes = [Ref(name, version) for name in refs.GUEST]
    return (*kubernetes, *(refs.newest(catalogue, name) for name in refs.RUNTIME))


def images(catalogue: Catalogue, version: str) -> tuple[Ref, ...]:
    """Return the container images that a node has from the start: the control plane's and the storage's."""
    of_tests = IMAGE_PREFIX + "e2e-test-images/"
    wanted = refs.images(catalogue, version, {refs.PLUGIN: "none"})
    needed = [ref for ref in wanted if not ref.name.startswith(of_tests) or ref.name == BUSYBOX]
    return (*needed, refs.newest(catalogue, PROVISIONER))


def reference(image: Ref) -> str:
    """Return what an image is called in a node."""
    return f"{REPOSITORY}/{image.name.removeprefix(IMAGE_PREFIX)}:{image.version}"


def places(files: Mapping[str, Path]) -> dict[str, Path]:
    """Return where programs' files, given by name, lie in a node: absolute path in it -> the file to copy."""
    kubernetes = {f"/usr/bin/{name}": files[name] for name in refs.GUEST}
    runtime = {f"/usr/local/bin/{name}": files[name] for name in ("containerd", "containerd-shim-runc-v2", "ctr")}
    plugins = {f"/opt/cni/bin/{name}": files[name] for name in PLUGINS}
    return {**kubernetes, **runtime, **plugins, "/usr/local/sbin/runc": files["runc"]}


def texts(version: str, wanted: tuple[Ref, ...]) -> dict[str, str]:
    """Return the files that are written into a node, by their absolute path in it."""
    tags = {ref.name: ref.version for ref in wanted}
    storage = STORAGE.read_text(encoding="utf-8")
    values = {"registry": REPOSITORY, "busybox": tags[BUSYBOX], "provisioner": tags[PROVISIONER]}
    for field, value in values.items():
        storage = storage.replace(f"{{{field}}}", value)
    return {
        "/kind/version": f"v{version}",
        "/kind/manifests/default-storage.yaml": storage,
        "/etc/cni/net.d/10-vmatrix.conflist": json.dumps(network(), indent=1) + "\n",
    }


def network() -> dict[str, object]:
    """Return the pods' network of a cluster of one node: no daemon, no image, nothing to wait for.

    A link for each pod, as with kindnet: `vmatrix infra up` sees to it that bridged machines reach pods over it
    (harness/infra/kind/cluster.py).
    """
    pods = {
        "type": "ptp",
        "ipMasq": True,
        "mtu": 1500,
        "ipam": {
            "type": "host-local",
            "dataDir": "/run/cni-ipam-state",
            "ranges": [[{"subnet": POD_RANGE}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.3.1", "name": "vmatrix", "plugins": [pods, ports]}
