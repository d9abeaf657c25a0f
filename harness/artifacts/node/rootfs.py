"""Root file system of a node image: Debian, over it kind's own files, over these the programs and what is written.

The steps are those of kind's base image (images/base/Dockerfile in its sources).
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from harness import proc
from harness.artifacts import go_toolchain, refs
from harness.artifacts.catalogue import IMAGE_PREFIX, Catalogue
from harness.artifacts.recipe import ArtifactLimits, Ref
from harness.errors import InfraError

REPOSITORY = "vmatrix.invalid"  # what the images are called in a node: nobody can pull from there (RFC 2606)
KIND = "kind"
POD_RANGE = "10.244.0.0/24"  # of the first node, from kind's pod network 10.244.0.0/16
BUSYBOX = "image/e2e-test-images/busybox"
PROVISIONER = "image/local-path-provisioner"
PLUGINS = ("bridge", "host-local", "loopback", "portmap", "ptp")
ENABLED = ("containerd.service", "kubelet.service", "undo-mount-hacks.service")
MODULE = "sigs.k8s.io/kind"
SPEC_SECONDS = 30.0  # a program that prints JSON and ends
HOOK = {"path": "/kind/bin/mount-product-files.sh"}
EXECUTABLE = ("usr/local/bin/", "kind/bin/")
CONTAINERD = "etc/containerd/config.toml"
PAUSE = re.compile(r'(sandbox_image = )"[^"]*"')


STORAGE = Path(__file__).with_name("default-storage.yaml.in")


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


def network(pods: str = POD_RANGE) -> dict[str, object]:
    """Return the network of a node's pods, which have these addresses: no daemon, no image, nothing to wait for.

    A link for each pod, as with kindnet: `vmatrix infra up` sees to it that bridged machines reach pods over it
    (harness/infra/kind/cluster.py).
    """
    links = {
        "type": "ptp",
        "ipMasq": True,
        "mtu": 1500,
        "ipam": {
            "type": "host-local",
            "dataDir": "/run/cni-ipam-state",
            "ranges": [[{"subnet": pods}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.3.1", "name": "vmatrix", "plugins": [links, ports]}


def kind_files(version: str, limits: ArtifactLimits) -> Path:
    """Return kind's files for a node, from its sources in Go's module cache.

    Raises:
        InfraError: the module proxy does not give them out.
    """
    hint = "check that the Go module proxy (GOPROXY) can be reached"
    with proc.failing_as_infra(f"the sources of kind {version} could not be downloaded", hint=hint):
        found = go_toolchain.find_go("1.21", limits).download(f"{MODULE}@v{version}")
    folder = Path(found["Dir"]) / "images/base/files"
    if not folder.is_dir():
        raise InfraError(f"kind {version} has no files in images/base/files", paths=[folder.parent])
    return folder


def arrange(root: Path, files: Path, programs: Mapping[str, Path], texts: Mapping[str, str], *, pause: str) -> None:
    """Make a Debian root file system a node's.

    Args:
        root: the file system.
        files: kind's own, see `kind_files`.
        programs, texts: absolute path in the node -> the file to copy, or its text.
        pause: the image of pods' sandboxes.
    """
    _copy(files, root)
    for path, source in programs.items():
        target = _parent(root, path)
        shutil.copyfile(source, target)
        target.chmod(0o755)
    for path, text in texts.items():
        _parent(root, path).write_text(text, encoding="utf-8")
    (root / "etc/kubernetes/manifests").mkdir(parents=True, exist_ok=True)
    with (root / "etc/systemd/journald.conf").open("a", encoding="utf-8") as journald:
        journald.write("[Journal]\nReadKMsg=no\n")
    _enable(root)
    _configure(root, pause)
    (root / "etc/resolv.conf").unlink(missing_ok=True)


def _copy(files: Path, root: Path) -> None:
    """Copy kind's files with the modes that its image gives them: a module's are all read-only."""
    for source in sorted(files.rglob("*")):
        name = str(source.relative_to(files))
        if source.is_dir():
            (root / name).mkdir(parents=True, exist_ok=True)
            continue
        target = _parent(root, name)
        shutil.copyfile(source, target)
        target.chmod(0o755 if name.startswith(EXECUTABLE) else 0o644)


def _enable(root: Path) -> None:
    wants = root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    for unit in ENABLED:
        link = wants / unit
        link.unlink(missing_ok=True)
        link.symlink_to(f"/etc/systemd/system/{unit}")


def _configure(root: Path, pause: str) -> None:
    """Name the sandbox image, and write what every container starts from: no limits of its own, kind's hook."""
    config = root / CONTAINERD
    text, count = PAUSE.subn(rf'\1"{pause}"', config.read_text(encoding="utf-8"))
    if count != 1:
        raise InfraError("kind's containerd configuration does not set sandbox_image", paths=[config])
    config.write_text(text, encoding="utf-8")
    made = proc.run([root / "usr/local/bin/ctr", "oci", "spec"], timeout=SPEC_SECONDS)
    spec = json.loads(made.stdout)
    spec["process"].pop("rlimits", None)
    spec.setdefault("hooks", {}).setdefault("createContainer", []).append(HOOK)
    (root / "etc/containerd/cri-base.json").write_text(json.dumps(spec), encoding="utf-8")


def _parent(root: Path, path: str) -> Path:
    """Return a path in a node as one of this host, its folder made."""
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_symlink():  # never write through a link that leads out of the node
        os.unlink(target)
    return target
