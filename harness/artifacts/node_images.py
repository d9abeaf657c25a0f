"""Node images for kind, made at most once of our own artifacts: root file system, container images, archive.

The steps are those of kind's base image (images/base/Dockerfile in its sources).

The archive is one that `docker load` and `podman load` read: the file system as one layer, and how it runs. The
format: https://github.com/moby/docker-image-spec/blob/main/v1.2.md#combined-image-json--filesystem-changeset-format
Container images are put into the node's containerd before there is a node, by a containerd of this host.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness import paths, proc
from harness.artifacts import go_toolchain, refs
from harness.artifacts.catalogue import IMAGE_PREFIX, Catalogue
from harness.artifacts.disk import build
from harness.artifacts.disk.build import Say
from harness.artifacts.disk.catalogue import load_recipe
from harness.artifacts.images import PATH, of_layers
from harness.artifacts.recipe import ArtifactLimits, Progress, Ref, silent
from harness.artifacts.store import FILES, Store
from harness.errors import BadInput, InfraError
from harness.files import hold, sha256_of, working
from harness.spec.project import templates_dir
from harness.until import Deadline, NotYet, until

REPOSITORY = "vmatrix.invalid"  # what the images are called in a node: nobody can pull from there (RFC 2606)
KIND = "kind"
POD_RANGE = "10.244.0.0/24"  # of the first node, from kind's pod network 10.244.0.0/16
BUSYBOX = "image/e2e-test-images/busybox"
PROVISIONER = "image/local-path-provisioner"
PLUGINS = ("bridge", "host-local", "loopback", "portmap", "ptp")
ENABLED = ("containerd.service", "kubelet.service", "undo-mount-hacks.service")
MODULE = "sigs.k8s.io/kind"
HOOK = {"path": "/kind/bin/mount-product-files.sh"}
EXECUTABLE = ("usr/local/bin/", "kind/bin/")
CONTAINERD = "etc/containerd/config.toml"
PAUSE = re.compile(r'(sandbox_image = )"[^"]*"')
STORAGE = Path(__file__).with_name("node_storage.yaml.in")
LAYER = "layer.tar"
# How kind's nodes are started and stopped (images/base/Dockerfile in its sources); systemd ends on this signal.
IMAGE_CONFIG = {
    "Entrypoint": ["/usr/local/bin/entrypoint", "/sbin/init"],
    "Env": [f"PATH={PATH}", "container=docker"],
    "StopSignal": "SIGRTMIN+3",
}
NAMESPACE = "k8s.io"  # where the CRI plugin looks for images
CONTAINERD_CONFIG = """\
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
FORMAT = 2  # raise it when the way node images are put together changes
RECIPE = "kind-node"
NAME = "vmatrix/kind-node"
SPEC_SECONDS = 30.0  # a program that prints JSON and ends
START_SECONDS = 60.0  # a containerd without images or containers
IMPORT_SECONDS = 300.0  # one image from a local file
ANSWER_SECONDS = 10.0  # over a socket of this host
STOP_SECONDS = 10.0  # for a containerd of this host to end before it is killed
TAR_SECONDS = 600.0  # twenty times as long as packing is expected to take


@dataclass(frozen=True)
class NodeImage:
    """A node image in the cache: the Kubernetes version, the digest of its inputs, the archive."""

    version: str
    key: str
    archive: Path

    @property
    def reference(self) -> str:
        """Return what the image is called."""
        return f"{NAME}:v{self.version}-{self.key}"


@dataclass(frozen=True)
class NodeImages:
    """Makes node images.

    Args:
        store: where programs and container images come from.
        root: where node images are kept; by default `nodes` below the cache directory.
        recipes: the folder with the recipe of the Debian below.
    """

    store: Store
    root: Path = field(default_factory=lambda: paths.cache_dir() / "nodes")
    recipes: Path = field(default_factory=lambda: templates_dir() / "images")
    mirror: str = field(default_factory=lambda: os.environ.get("VMATRIX_DEBIAN_MIRROR", ""))

    def cached(self, version: str) -> NodeImage | None:
        """Return the image of a Kubernetes version if it is there; make nothing."""
        image = self._named(version)
        return image if image.archive.is_file() else None

    def ensure(self, version: str, say: Say, progress: Progress = silent) -> NodeImage:
        """Return the image of a Kubernetes version, made first when it is not there.

        Raises:
            BadInput: the version is not in the catalogue, or this is not root.
            InfraError: it could not be made; nothing but a log stays behind.
        """
        if (made := self.cached(version)) is not None:
            return made
        catalogue = self.store.catalogue
        self.store.ensure((*node_programs(catalogue, version), *node_container_images(catalogue, version)), progress)
        with hold(self.root, version, lambda: say("waiting for another process that builds the node image")):
            image = self._named(version)
            if not image.archive.is_file():
                self._make(image, say)
        return image

    def _named(self, version: str) -> NodeImage:
        key = self._key(version)
        return NodeImage(version, key, self.root / f"v{version}-{key}.tar")

    def _key(self, version: str) -> str:
        """Return a digest of all that goes in, but for the versions of Debian's packages."""
        catalogue = self.store.catalogue
        images = node_container_images(catalogue, version)
        artifacts = (*node_programs(catalogue, version), *images)
        facts = {
            "format": FORMAT,
            "debian": load_recipe(self.recipes, RECIPE).key(size_gib=0),
            "kind": catalogue.versions(KIND)[0],
            "artifacts": {str(ref): self._directory(ref) for ref in artifacts},
            "texts": node_texts(version, images),
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]

    def _directory(self, ref: Ref) -> str:
        artifact = self.store.cached(ref)
        return artifact.directory.name if artifact is not None else ""

    def _make(self, image: NodeImage, say: Say) -> None:
        if os.geteuid() != 0:
            raise BadInput("building a node image needs root", hint="run it as root")
        log = self.root / f"v{image.version}.log"
        log.write_text("", encoding="utf-8")
        with working(self.root, image.version) as work:
            work.mkdir()
            self._fill(work / "root", image.version, log, work, say)
            say("packing the node image (about 30 s)")
            packed = work / LAYER
            archive: list[str | Path] = ["tar", "--create", "--file", packed, "--numeric-owner", "--sort=name"]
            with proc.failing_as_infra("the node image could not be packed", hint="df -h"):
                proc.run([*archive, "--directory", work / "root", "."], timeout=TAR_SECONDS, log=log)
            loaded = work / "image.tar"
            write_archive(loaded, packed, image.reference)
            loaded.replace(image.archive)
        for former in self.root.glob(f"v{image.version}-*.tar"):
            if former != image.archive:
                former.unlink(missing_ok=True)

    def _fill(self, root: Path, version: str, log: Path, work: Path, say: Say) -> None:
        catalogue, hint = self.store.catalogue, "check that this machine can install Debian packages: apt-get update"
        debian = load_recipe(self.recipes, RECIPE)
        files = kind_files(catalogue.versions(KIND)[0], self.store.limits)
        say(f"installing {len(debian.packages)} packages and their dependencies (about {build.INSTALL_SECONDS:.0f} s)")
        with proc.failing_as_infra("Debian could not be installed in the node image", hint=hint):
            build.root_file_system(debian, root, log, mirror=self.mirror, seconds=self.store.limits.install)
        held = self.store.ensure(node_programs(catalogue, version))
        programs = {name: path for artifact in held.values() for name, path in artifact.files.items()}
        images = node_container_images(catalogue, version)
        pause = next(reference(ref) for ref in images if ref.name == "image/pause")
        arrange(root, files, places(programs), node_texts(version, images), pause=pause)
        say(f"adding {len(images)} container images (about 30 s)")
        layouts = {reference(ref): a.directory / FILES for ref, a in self.store.ensure(images).items()}
        short = work / "c"  # sockets are made in there, whose paths may have 108 bytes
        short.mkdir()
        preload(root, layouts, containerd=programs["containerd"], ctr=programs["ctr"], work=short, log=log)


def node_programs(catalogue: Catalogue, version: str) -> tuple[Ref, ...]:
    """Return the programs of a node of a Kubernetes version."""
    kubernetes = [Ref(name, version) for name in refs.GUEST]
    return (*kubernetes, *(refs.newest(catalogue, name) for name in refs.RUNTIME))


def node_container_images(catalogue: Catalogue, version: str) -> tuple[Ref, ...]:
    """Return the container images that a node has from the start: the control plane's and the storage's."""
    of_tests = IMAGE_PREFIX + "e2e-test-images/"
    all_images = refs.images(catalogue, version, {refs.PLUGIN: "none"})
    needed = [ref for ref in all_images if not ref.name.startswith(of_tests) or ref.name == BUSYBOX]
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


def node_texts(version: str, images: tuple[Ref, ...]) -> dict[str, str]:
    """Return the files that are written into a node, by their absolute path in it."""
    tags = {ref.name: ref.version for ref in images}
    storage = STORAGE.read_text(encoding="utf-8")
    values = {"registry": REPOSITORY, "busybox": tags[BUSYBOX], "provisioner": tags[PROVISIONER]}
    for name, value in values.items():
        storage = storage.replace(f"{{{name}}}", value)
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
        module = go_toolchain.find_go("1.21", limits).download(f"{MODULE}@v{version}")
    folder = Path(module["Dir"]) / "images/base/files"
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
    config.write_text(CONTAINERD_CONFIG.format(root=folder, state=work / "state", socket=socket), encoding="utf-8")
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


def write_archive(target: Path, layer: Path, reference: str) -> None:
    """Write the archive of an image, called `reference` (NAME:TAG), of one layer: a tar archive of its file system."""
    manifest = [{"Config": "config.json", "RepoTags": [reference], "Layers": [LAYER]}]
    with tarfile.open(target, "w") as archive:
        _add_member(archive, "config.json", of_layers([sha256_of(layer)], IMAGE_CONFIG))
        archive.add(layer, arcname=LAYER)
        _add_member(archive, "manifest.json", manifest)


def _add_member(archive: tarfile.TarFile, name: str, content: object) -> None:
    raw = json.dumps(content).encode()
    entry = tarfile.TarInfo(name)
    entry.size = len(raw)
    archive.addfile(entry, io.BytesIO(raw))
