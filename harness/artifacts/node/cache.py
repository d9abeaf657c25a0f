"""Node images, made at most once: an archive that engines load for each digest of what goes into it.

The archive is one that `docker load` and `podman load` read: the file system as one layer, and how it runs. The
format: https://github.com/moby/docker-image-spec/blob/main/v1.2.md#combined-image-json--filesystem-changeset-format
Container images are put into the node's containerd before there is a node, by a containerd of this host.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness import paths, proc
from harness.artifacts.disk import build
from harness.artifacts.disk.build import Say
from harness.artifacts.disk.catalogue import load_recipe
from harness.artifacts.images import PATH, of_layers
from harness.artifacts.node import rootfs
from harness.artifacts.recipe import Progress, Ref, silent
from harness.artifacts.store import FILES, Store
from harness.artifacts.workdir import hold, working
from harness.errors import BadInput, InfraError
from harness.files import sha256_of
from harness.spec.project import templates_dir
from harness.until import Deadline, NotYet, until

LAYER = "layer.tar"
# How kind's nodes are started and stopped (images/base/Dockerfile in its sources); systemd ends on this signal.
IMAGE_CONFIG = {
    "Entrypoint": ["/usr/local/bin/entrypoint", "/sbin/init"],
    "Env": [f"PATH={PATH}", "container=docker"],
    "StopSignal": "SIGRTMIN+3",
}
START_SECONDS = 60.0  # a containerd without images or containers
IMPORT_SECONDS = 300.0  # one image from a local file
ANSWER_SECONDS = 10.0  # over a socket of this host
STOP_SECONDS = 10.0  # for a containerd of this host to end before it is killed
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
TAR_SECONDS = 600.0  # twenty times as long as packing is expected to take
RECIPE = "kind-node"
NAME = "vmatrix/kind-node"


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
        if (found := self.cached(version)) is not None:
            return found
        catalogue = self.store.catalogue
        self.store.ensure((*rootfs.programs(catalogue, version), *rootfs.images(catalogue, version)), progress)
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
        wanted = rootfs.images(catalogue, version)
        artifacts = (*rootfs.programs(catalogue, version), *wanted)
        facts = {
            "format": FORMAT,
            "debian": load_recipe(self.recipes, RECIPE).key(size_gib=0),
            "kind": catalogue.versions(rootfs.KIND)[0],
            "artifacts": {str(ref): self._directory(ref) for ref in artifacts},
            "texts": rootfs.texts(version, wanted),
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]

    def _directory(self, ref: Ref) -> str:
        found = self.store.cached(ref)
        return found.directory.name if found is not None else ""

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
        files = rootfs.kind_files(catalogue.versions(rootfs.KIND)[0], self.store.limits)
        say(f"installing {len(debian.packages)} packages and their dependencies (about {build.INSTALL_SECONDS:.0f} s)")
        with proc.failing_as_infra("Debian could not be installed in the node image", hint=hint):
            build.root_file_system(debian, root, log, mirror=self.mirror, seconds=self.store.limits.install)
        held = self.store.ensure(rootfs.programs(catalogue, version))
        programs = {name: path for artifact in held.values() for name, path in artifact.files.items()}
        wanted = rootfs.images(catalogue, version)
        pause = next(rootfs.reference(ref) for ref in wanted if ref.name == "image/pause")
        rootfs.arrange(root, files, rootfs.places(programs), rootfs.texts(version, wanted), pause=pause)
        say(f"adding {len(wanted)} container images (about 30 s)")
        layouts = {rootfs.reference(ref): a.directory / FILES for ref, a in self.store.ensure(wanted).items()}
        short = work / "c"  # sockets are made in there, whose paths may have 108 bytes
        short.mkdir()
        preload(root, layouts, containerd=programs["containerd"], ctr=programs["ctr"], work=short, log=log)


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
