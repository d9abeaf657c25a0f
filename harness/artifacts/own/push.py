"""Push vmatrix's images to a registry anywhere, or to those of the infra clusters of this host; explain refusals."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import paths, proc
from harness.artifacts import refs
from harness.artifacts.catalogue import IMAGE_PREFIX
from harness.artifacts.product.images import crane
from harness.artifacts.recipe import Progress, Ref, silent
from harness.artifacts.registry import digest_in, writable
from harness.artifacts.store import FILES, Artifact, Store
from harness.errors import BadInput, InfraError, VmatrixError
from harness.proc import CommandFailed
from harness.urls import is_registry, is_tag

REPOSITORY, BUILDER = "vmatrix", "buildkit"


@dataclass(frozen=True)
class Login:
    """How a registry knows who pushes; empty: whatever this host's container tools are logged in as."""

    user: str = ""
    password: str = ""


def ref(store: Store) -> Ref:
    """Return the image of the vmatrix that runs."""
    return refs.newest(store.catalogue, IMAGE_PREFIX + REPOSITORY)


def pushed_name(registry: str, store: Store) -> str:
    """Return the name in a registry of the image of the vmatrix that runs. Raises BadInput if it is not a registry."""
    check_name(registry)
    return f"{registry.rstrip('/')}/{REPOSITORY}:{ref(store).version}"


def obtain_image(store: Store, progress: Progress = silent) -> Artifact:
    """Return the image, made first when it is not cached. Raises as `Store.obtain` does."""
    image = ref(store)
    return store.obtain(image.name, image.version, progress)


def obtain_builder(store: Store, progress: Progress = silent) -> Artifact:
    """Return the image with BuildKit's programs, which build what a Delivery names. Raises as `Store.obtain` does."""
    builder = refs.newest(store.catalogue, IMAGE_PREFIX + BUILDER)
    return store.obtain(builder.name, builder.version, progress)


def push(image: Artifact, registry: str, tags: Sequence[str], store: Store, *, login: Login, insecure: bool) -> None:
    """Push an image as REGISTRY/REPOSITORY:TAG, under each of the tags.

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
            name = f"{registry}/{_repository(image)}:{tag}"
            argv: list[str | Path] = [crane(store), "push", *words, image.directory / FILES, name]
            try:
                proc.run(argv, timeout=store.limits.push, env=environment)
            except proc.CommandFailed as failed:
                raise explained(name, login.user, failed) from failed


def _repository(image: Artifact) -> str:
    return image.ref.name.removeprefix(IMAGE_PREFIX)


def logged_in(host: str, login: Login, folder: Path) -> Mapping[str, str]:
    """Write a log-in at a host into a folder, as container tools keep it; return the variables that point to it."""
    if not login.user:
        return {}
    secret = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {host: {"auth": secret}}}), encoding="utf-8")
    return {"DOCKER_CONFIG": str(folder)}


def publish(image: Artifact, store: Store) -> bool:
    """Have the registries of this host's infra clusters serve an image; tell whether they had to be given it."""
    tag = image.ref.version
    with writable(paths.cache_dir() / "registry", store) as writer:
        if digest_in(writer, _repository(image), tag) == image.facts["digest"]:
            return False
        push(image, writer, [tag], store, login=Login(), insecure=True)
    return True


@dataclass(frozen=True)
class Reason:
    """A kind of failure: what crane's words look like, what it means, and what to do."""

    words: re.Pattern[str]
    kind: type[VmatrixError]
    said: str
    hint: str


REASONS = (
    Reason(
        re.compile(r"\b401\b|\b403\b|UNAUTHORIZED|DENIED"),
        BadInput,
        "the registry refused {who}",
        "check --user and --password, and whether that user may push there",
    ),
    Reason(
        re.compile(r"HTTP response to HTTPS client"),
        BadInput,
        "the registry speaks plain HTTP",
        "add --insecure",
    ),
    Reason(
        re.compile(r"x509|certificate"),
        BadInput,
        "the registry's certificate is not trusted",
        "name its authority (SSL_CERT_FILE=FILE), or add --insecure",
    ),
    Reason(
        re.compile(r"\b405\b|UNSUPPORTED"),
        BadInput,
        "the registry only serves pulls",
        "for the registries of this host's infra clusters, use --publish instead of --push",
    ),
    Reason(
        re.compile(r"\bdial tcp\b|\btimeout\b|\bEOF\b"),
        InfraError,
        "the registry does not answer",
        "check its address, and whether it runs",
    ),
)


OTHER = Reason(re.compile(""), InfraError, "the registry did not take it", "see what it answered")


def check_name(registry: str, tags: Sequence[str] = ()) -> None:
    """Refuse what cannot be the name of a registry, and tags that none takes. Raises BadInput."""
    for tag in tags:
        if not is_tag(tag):
            raise BadInput(f"--tag {tag!r} is not a tag", hint="use up to 128 letters, digits and _.-")
    if not is_registry(f"{registry.rstrip('/')}/{REPOSITORY}") or not is_registry(registry):
        raise BadInput(
            f"{registry!r} is not a registry",
            hint="use HOST[:PORT][/PATH] without https://, the path in lower case, such as registry.example.org/group",
        )


def explained(name: str, user: str, failed: CommandFailed) -> VmatrixError:
    """Return what to tell the person who pushes an image of a name as a user (empty: none was given)."""
    reason = next((known for known in REASONS if known.words.search(failed.detail)), OTHER)
    message = reason.said.format(who=f"user {user}" if user else "a push without --user")
    return reason.kind(f"{name} could not be pushed: {message}", detail=failed.detail, hint=reason.hint)
