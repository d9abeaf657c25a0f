"""What an embedded infra cluster gets from the artifacts: host programs, the services of its mirror, and what is in it.

The infrastructure does not know this package; whoever starts it hands these functions in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness import paths
from harness.artifacts import refs
from harness.artifacts.mirror import mirror_argv
from harness.artifacts.product.pushed import Upload
from harness.artifacts.publish import Published, publish_images
from harness.artifacts.recipe import Progress, Ref, silent
from harness.artifacts.registry import ServiceCommand, registry_command
from harness.artifacts.store import Store


@dataclass(frozen=True)
class Supply:
    """Everything for one embedded infra cluster.

    Args:
        infra_version: the Kubernetes version of the infra cluster's own control plane.
        images: the images that guests may pull; `refs.images` lists those of a Kubernetes version.
        uploads: the images of a product's own that they may pull.
        store: where artifacts come from.
        progress: told about everything that has to be made first.
    """

    infra_version: str
    images: Sequence[Ref] = ()
    store: Store = field(default_factory=Store)
    progress: Progress = silent
    uploads: Sequence[Upload] = ()

    def program(self, name: str) -> Path:
        """Return a host program (kube-apiserver, etcd, kubectl, ...), made first when it is not cached.

        Raises:
            BadInput: the infra cluster has no such program.  InfraError: it could not be made.
        """
        found = {ref.name: ref for ref in refs.host(self.store.catalogue, self.infra_version)}
        ref = found.get(name, Ref(name, self.infra_version))
        return self.store.obtain(ref.name, ref.version, self.progress).file(name)

    def mirror(self, address: str) -> ServiceCommand:
        """Return the service for binaries and disk images, at host:port."""
        return ServiceCommand(mirror_argv(address, paths.cache_dir()), {})

    def registry(self, address: str) -> ServiceCommand:
        """Return the service for images, at host:port. All instances of a machine share its storage."""
        return registry_command(address, _storage(), store=self.store, progress=self.progress)

    def publish(self, registry: str) -> tuple[Published, ...]:
        """Have the registry at host:port, one of ours, serve the images; those that are there are left alone."""
        root = _storage()
        return publish_images(
            self.images, registry, root=root, store=self.store, progress=self.progress, uploads=self.uploads
        )


def _storage() -> Path:
    """Return the folder of the images of all registries on this host."""
    return paths.cache_dir() / "registry"
