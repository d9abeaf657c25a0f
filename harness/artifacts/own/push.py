"""vmatrix's image on its way to those who run it: a registry anywhere, or those of the infra clusters of this host."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import paths, proc
from harness.artifacts import refs
from harness.artifacts.catalogue import IMAGE_PREFIX
from harness.artifacts.own.push_errors import check_name, explained
from harness.artifacts.product.pushed import crane
from harness.artifacts.publish import digest_in
from harness.artifacts.recipe import Progress, Ref, silent
from harness.artifacts.store import FILES, Artifact, Store
from harness.artifacts.uploads import writable

REPOSITORY = "vmatrix"


@dataclass(frozen=True)
class Login:
    """How a registry knows who pushes; empty: whatever this host's container tools are logged in as."""

    user: str = ""
    password: str = ""


def ref(store: Store) -> Ref:
    """Return the image of the vmatrix that runs."""
    return refs.newest(store.catalogue, IMAGE_PREFIX + REPOSITORY)


def pushed_name(registry: str, store: Store) -> str:
    """Return the name in a registry of the image of the vmatrix that runs. Raises BadInput if it is no registry."""
    check_name(registry)
    return f"{registry.rstrip('/')}/{REPOSITORY}:{ref(store).version}"


def made(store: Store, progress: Progress = silent) -> Artifact:
    """Return the image, made first when it is not cached. Raises as `Store.obtain` does."""
    wanted = ref(store)
    return store.obtain(wanted.name, wanted.version, progress)


def push(image: Artifact, registry: str, tags: Sequence[str], store: Store, *, login: Login, insecure: bool) -> None:
    """Push the image as REGISTRY/vmatrix:TAG, under each of the tags.

    Args:
        registry: HOST[:PORT][/PATH].
        insecure: plain HTTP, or a certificate that nobody vouches for.

    Raises:
        BadInput: the registry refuses the log-in, or speaks another way.
        InfraError: it does not answer, or does not take the image.
    """
    words = ["--insecure"] if insecure else []
    with TemporaryDirectory() as folder:
        environment = logged_in(registry.partition("/")[0], login, Path(folder))
        for tag in tags:
            name = f"{registry}/{REPOSITORY}:{tag}"
            argv: list[str | Path] = [crane(store), "push", *words, image.directory / FILES, name]
            try:
                proc.run(argv, timeout=store.limits.push, env=environment)
            except proc.CommandFailed as failed:
                raise explained(name, login.user, failed) from failed


def logged_in(host: str, login: Login, folder: Path) -> Mapping[str, str]:
    """Write a log-in at a host into a folder, as container tools keep it; return the variables that point to it."""
    if not login.user:
        return {}
    secret = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {host: {"auth": secret}}}), encoding="utf-8")
    return {"DOCKER_CONFIG": str(folder)}


def publish(image: Artifact, store: Store) -> bool:
    """Have the registries of this host's infra clusters serve the image; tell whether they had to be given it."""
    tag = image.ref.version
    with writable(paths.cache_dir() / "registry", store) as writer:
        if digest_in(writer, REPOSITORY, tag) == image.facts["digest"]:
            return False
        push(image, writer, [tag], store, login=Login(), insecure=True)
    return True
