"""Serve artifacts by a mirror and a registry, of an embedded infra cluster or alone.

The infrastructure does not know this package; whoever starts it hands these functions in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness import paths, proc
from harness.artifacts import refs
from harness.artifacts.listening import GRACE_SECONDS, READY_SECONDS, listens
from harness.artifacts.mirror import mirror_argv
from harness.artifacts.product.images import Upload
from harness.artifacts.recipe import Progress, Ref, silent
from harness.artifacts.registry import Published, ServiceCommand, command, publish_images, registry_command
from harness.artifacts.store import Store
from harness.errors import InfraError
from harness.until import Deadline, NotYet, until


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
        programs = {ref.name: ref for ref in refs.host(self.store.catalogue, self.infra_version)}
        ref = programs.get(name, Ref(name, self.infra_version))
        return self.store.obtain(ref.name, ref.version, self.progress).file(name)

    def mirror(self, address: str) -> ServiceCommand:
        """Return the service for binaries and disk images, at host:port."""
        return ServiceCommand(mirror_argv(address, paths.cache_dir()), {})

    def registry(self, address: str) -> ServiceCommand:
        """Return the service for images, at host:port. All instances of a machine share its storage."""
        return registry_command(address, _storage(), store=self.store, progress=self.progress)

    def deliveries(self, address: str, root: Path) -> ServiceCommand:
        """Return the registry at host:port that pods of one instance push to, with its storage in a folder."""
        return command(address, root, self.store, self.progress, read_only=False)

    def pulls(self, address: str, root: Path) -> ServiceCommand:
        """Return a registry at host:port on the storage of another that only reads, for who logs in as PULLER."""
        return command(address, root, self.store, self.progress, read_only=True, log_in=True)

    def publish(self, registry: str) -> tuple[Published, ...]:
        """Have the registry at host:port, one of ours, serve the images; those that are there are left alone."""
        root = _storage()
        return publish_images(
            self.images, registry, root=root, store=self.store, progress=self.progress, uploads=self.uploads
        )


def _storage() -> Path:
    """Return the folder of the images of all registries on this host."""
    return paths.cache_dir() / "registry"


@dataclass(frozen=True)
class Serving:
    """A mirror and a registry that run; `published`: how many images the registry has."""

    services: tuple[proc.Service, ...]
    published: int

    def wait(self) -> None:
        """Wait until one of the two has ended."""
        until(lambda: _ended(self.services), deadline=Deadline.after(float("inf")), what="a service to end")


@contextmanager
def serving(supply: Supply, images: Sequence[Ref], *, mirror: str, registry: str) -> Iterator[Serving]:
    """Run a mirror and a registry with images as long as the body runs.

    Args:
        mirror, registry: their addresses, host:port.

    Raises:
        InfraError: one of them ended at once, or the registry does not answer.
    """
    logs = paths.cache_dir() / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    services: list[proc.Service] = []
    try:
        for name, command in (("mirror", supply.mirror(mirror)), ("registry", supply.registry(registry))):
            services.append(proc.spawn(command.argv, env=command.env, log=logs / f"serve-{name}.log"))
        ready = Deadline.after(READY_SECONDS)
        until(lambda: _answering(services, registry, logs), deadline=ready, what="the registry to answer")
        yield Serving(tuple(services), len(replace(supply, images=images).publish(registry)))
    finally:
        for service in services:
            service.stop(grace=GRACE_SECONDS)


def _answering(services: Sequence[proc.Service], address: str, logs: Path) -> bool | NotYet:
    ended = _ended(services)
    if isinstance(ended, str):
        raise InfraError(f"`{ended}` ended at once", hint="is its address in use?", paths=[logs])
    return listens(address)


def _ended(services: Sequence[proc.Service]) -> str | NotYet:
    """Return the command of a service that has ended."""
    ended = [service for service in services if not service.alive()]
    return proc.pasteable(ended[0].argv) if ended else NotYet("all are running")
