"""OCI registry that guests pull from: the distribution project's, with its storage in a folder, over plain HTTP.

Nobody writes to it: it answers 405 to every request that would. Images get into its storage through a second one on
this host's loopback, as long as that takes; only those that it does not have yet, by digest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness import proc
from harness.artifacts import refs
from harness.artifacts.catalogue import IMAGE_PREFIX
from harness.artifacts.images import MANIFEST
from harness.artifacts.listening import GRACE_SECONDS, LOOPBACK, READY_SECONDS, free_port, listens
from harness.artifacts.product.images import Upload, crane, pushable
from harness.artifacts.recipe import Progress, Ref, silent
from harness.artifacts.store import Store
from harness.errors import InfraError
from harness.files import write_atomically
from harness.http_client import NoAnswer, WebRequest, ask
from harness.until import Deadline, NotYet, until

CONFIG = """\
version: 0.1
log:
  level: error
  accesslog:
    disabled: true
storage:
  filesystem:
    rootdirectory: {root}
  cache:
    blobdescriptor: inmemory
  maintenance:
    readonly:
      enabled: {read_only}
http:
  secret: {secret}
"""
AUTHENTICATED = """\
auth:
  htpasswd:
    realm: deliveries
    path: {users}
"""
# Who pulls what was delivered. Everybody knows the password: it is there so that pulls without one fail, as in a
# private registry; it opens nothing else, and only an instance's own machines and its host reach the port.
PULLER, PULL_PASSWORD = "guest", "guest"
PULLER_ENTRY = (
    "guest:$2b$10$vmatrixdeliveriespulleQ8SKiL8MkQByJ5kO7j36A8w4LzPBQF2\n"  # bcrypt, as htpasswd -B writes it
)
# Signs the state of uploads that continue on another replica; there is no other replica and no authentication.
SECRET = "single-replica"  # noqa: S105 - see above
DOCKER = "application/vnd.docker.distribution.manifest.v2+json"  # of an archive that `docker save` wrote
ANSWER_SECONDS = 10.0  # of a registry on this host


@dataclass(frozen=True)
class ServiceCommand:
    """A service to start: its argument list and the variables to add to its environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


def registry_command(
    address: str, root: Path, *, store: Store | None = None, progress: Progress = silent
) -> ServiceCommand:
    """Return how to start the registry, which only reads; it ends on SIGTERM and finds its images in `root`.

    Args:
        address: host:port to listen on.
        root: a folder for its storage and its configuration; two instances may share it.
    """
    return command(address, root, store or Store(), progress, read_only=True)


def command(
    address: str, root: Path, store: Store, progress: Progress, *, read_only: bool, log_in: bool = False
) -> ServiceCommand:
    """Return how to start a registry on a storage, for pulls alone or for uploads, to all or to PULLER alone."""
    ref = refs.newest(store.catalogue, "registry")
    program = store.obtain(ref.name, ref.version, progress).file("registry")
    root.mkdir(parents=True, exist_ok=True)
    config = root / ("config.yml" if read_only else "config-push.yml")
    text = CONFIG.format(root=root / "storage", secret=SECRET, read_only=str(read_only).lower())
    if log_in:
        users = root / "users"
        write_atomically(users, PULLER_ENTRY)
        text += AUTHENTICATED.format(users=users)
    write_atomically(config, text)
    # The address is the one thing that is not the same for all: a file per address would stay when its registry ends.
    # It reads variables as YAML, to which the brackets of an IPv6 address are a list.
    return ServiceCommand(
        (str(program), "serve", str(config)),
        {"OTEL_TRACES_EXPORTER": "none", "REGISTRY_HTTP_ADDR": json.dumps(address)},
    )


@contextmanager
def writable(root: Path, store: Store) -> Iterator[str]:
    """Run a registry that takes uploads into `root` as long as the body runs; give its address on the loopback.

    It ends with this process, even a killed one.

    Raises:
        InfraError: it does not answer.
    """
    address = f"{LOOPBACK}:{free_port()}"
    start = command(address, root, store, silent, read_only=False)
    log = root / "push.log"
    service = proc.spawn([*proc.ending_with_us(), *start.argv], log=log, env=start.env)
    try:
        ready = Deadline.after(READY_SECONDS)
        until(lambda: _answers(service, address, log), deadline=ready, what="a registry to push to")
        yield address
    finally:
        service.stop(grace=GRACE_SECONDS)


def _answers(service: proc.Service, address: str, log: Path) -> bool | NotYet:
    if not service.alive():
        raise InfraError(f"the registry to push to ended at once; it was to listen on {address}", paths=[log])
    return listens(address)


@dataclass(frozen=True)
class Published:
    """An image in a registry: its reference there, its digest, and whether it had to be pushed."""

    reference: str
    digest: str
    pushed: bool


def publish_images(
    images: Sequence[Ref],
    registry: str,
    *,
    root: Path,
    store: Store,
    progress: Progress = silent,
    uploads: Sequence[Upload] = (),
) -> tuple[Published, ...]:
    """Put images into the storage of a registry that only reads.

    Args:
        registry: host:port, spoken to in plain HTTP.
        root: the folder of its storage.
        uploads: what a product has pushed besides.

    Raises:
        BadInput: an image is not in the catalogue.  InfraError: the registry does not answer, or has other storage.
    """
    store.ensure(images, progress)
    every = (*(Upload(f"{ref.name.removeprefix(IMAGE_PREFIX)}:{ref.version}", ref) for ref in images), *uploads)
    with ExitStack() as open_ones:
        sources = {upload: open_ones.enter_context(pushable(upload, store)) for upload in dict.fromkeys(every)}
        missing = [up for up, (_, digest) in sources.items() if digest_in(registry, up.repository, up.tag) != digest]
        if missing:
            with writable(root, store) as writer:
                for upload in missing:
                    _push(store, sources[upload][0], f"{writer}/{upload.name}")
        for upload in missing:
            digest = sources[upload][1]
            if (served := digest_in(registry, upload.repository, upload.tag)) != digest:
                why = f"has digest {served or 'none'} after a push of {digest} to {root}"
                raise InfraError(f"{registry}/{upload.name} {why}")
    return tuple(Published(f"{registry}/{up.name}", digest, up in missing) for up, (_, digest) in sources.items())


def _push(store: Store, source: Path, reference: str) -> None:
    proc.run([crane(store), "push", "--insecure", source, reference], timeout=store.limits.push)


def digest_in(registry: str, repository: str, tag: str) -> str:
    """Return the digest of an image in a registry; empty when it is not there.

    Raises:
        InfraError: the registry does not answer.
    """
    url, accepted = f"http://{registry}/v2/{repository}/manifests/{tag}", {"Accept": f"{MANIFEST}, {DOCKER}"}
    try:
        reply = ask(WebRequest(url, "HEAD", headers=accepted, direct=True), ANSWER_SECONDS)
    except NoAnswer as error:
        raise InfraError(f"the registry at {registry} does not answer: {error}", hint="vmatrix infra status") from error
    return reply.headers.get("Docker-Content-Digest", "") if reply.ok else ""
