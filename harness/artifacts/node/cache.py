"""Node images, made at most once: an archive that engines load for each digest of what goes into it."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from harness import paths, proc
from harness.artifacts.disk import build, recipe
from harness.artifacts.disk.build import Say
from harness.artifacts.node import archives, contents, preload, tree
from harness.artifacts.recipe import Progress, Ref, silent
from harness.artifacts.store import FILES, Store
from harness.artifacts.workdir import hold, working
from harness.errors import BadInput
from harness.spec.project import templates_dir

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
        self.store.ensure((*contents.programs(catalogue, version), *contents.images(catalogue, version)), progress)
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
        wanted = contents.images(catalogue, version)
        artifacts = (*contents.programs(catalogue, version), *wanted)
        facts = {
            "format": FORMAT,
            "debian": recipe.load(self.recipes, RECIPE).key(size_gib=0),
            "kind": catalogue.versions(contents.KIND)[0],
            "artifacts": {str(ref): self._directory(ref) for ref in artifacts},
            "texts": contents.texts(version, wanted),
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
            packed = work / archives.LAYER
            archive: list[str | Path] = ["tar", "--create", "--file", packed, "--numeric-owner", "--sort=name"]
            with proc.failing_as_infra("the node image could not be packed", hint="df -h"):
                proc.run([*archive, "--directory", work / "root", "."], timeout=TAR_SECONDS, log=log)
            loaded = work / "image.tar"
            archives.write(loaded, packed, image.reference)
            loaded.replace(image.archive)
        for former in self.root.glob(f"v{image.version}-*.tar"):
            if former != image.archive:
                former.unlink(missing_ok=True)

    def _fill(self, root: Path, version: str, log: Path, work: Path, say: Say) -> None:
        catalogue, hint = self.store.catalogue, "check that this machine can install Debian packages: apt-get update"
        debian = recipe.load(self.recipes, RECIPE)
        files = tree.kind_files(catalogue.versions(contents.KIND)[0], self.store.limits)
        say(f"installing {len(debian.packages)} packages and their dependencies (about {build.INSTALL_SECONDS:.0f} s)")
        with proc.failing_as_infra("Debian could not be installed in the node image", hint=hint):
            build.root_file_system(debian, root, log, mirror=self.mirror, seconds=self.store.limits.install)
        held = self.store.ensure(contents.programs(catalogue, version))
        programs = {name: path for artifact in held.values() for name, path in artifact.files.items()}
        wanted = contents.images(catalogue, version)
        pause = next(contents.reference(ref) for ref in wanted if ref.name == "image/pause")
        tree.arrange(root, files, contents.places(programs), contents.texts(version, wanted), pause=pause)
        say(f"adding {len(wanted)} container images (about 30 s)")
        layouts = {contents.reference(ref): a.directory / FILES for ref, a in self.store.ensure(wanted).items()}
        short = work / "c"  # sockets are made in there, whose paths may have 108 bytes
        short.mkdir()
        preload.preload(root, layouts, containerd=programs["containerd"], ctr=programs["ctr"], work=short, log=log)
