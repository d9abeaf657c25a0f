"""Files of a product: where its sources lie, and what `artifacts` of product.yml names of them.

`{sources}` in product.yml stands for the folder of the sources. That of a Git repository is known before anything
is fetched: its place in the cache follows from the address and the revision.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints

from harness.paths import cache_dir
from harness.spec.base import DIGEST, TAGGED, Text
from harness.spec.declared import EACH, field, find, texts
from harness.spec.lines import Document, Finding, Location, dotted, printable
from harness.spec.models import Product
from harness.spec.shape import validate

MARK = "{sources}"
VARIABLE = "VMATRIX_PRODUCT_SOURCES"  # names a folder that is used in place of the sources of product.yml
NOT_PATHS = frozenset({"vars", "requires", "cluster", "checks"})  # keys in which the mark means nothing


def folder(sources: Any, project: Path) -> Path | None:
    """Return the folder of the sources, whether it is there or not; None where product.yml names none.

    Args:
        sources: the value of that key, of any shape.
    """
    if not isinstance(sources, Mapping):
        return None
    if folder_of_environment := os.environ.get(VARIABLE):
        return Path(folder_of_environment).absolute()
    path, git, revision = (sources.get(key) for key in ("path", "git", "revision"))
    if isinstance(path, str):
        return (project / path).absolute()
    if isinstance(git, str) and isinstance(revision, str):
        return cached(git, revision)
    return None


def cached(git: str, revision: str) -> Path:
    """Return where a revision of a repository lies once it was fetched."""
    digest = hashlib.sha256(f"{git}\n{revision}".encode()).hexdigest()[:16]
    return cache_dir() / "product" / "sources" / digest


def fetched_later(sources: Any, where: Path) -> bool:
    """Tell whether a folder of sources that is not there yet comes from a Git repository."""
    return isinstance(sources, Mapping) and where == cached(str(sources.get("git")), str(sources.get("revision")))


def located(product: Product, project: Path) -> Product:
    """Return a product with its folder of sources in place of the mark."""
    if product.sources is None:
        return product
    fields = product.model_dump(by_alias=True)
    return Product.model_validate(put(fields, folder(fields["sources"], project)))


def put(content: Any, where: Path | None) -> Any:
    """Return plain data with a folder in place of the mark; as it is without a folder."""
    if where is None:
        return content
    if isinstance(content, str):
        return content.replace(MARK, str(where))
    if isinstance(content, Mapping):
        return {key: inner if key in NOT_PATHS else put(inner, where) for key, inner in content.items()}
    return [put(inner, where) for inner in content] if isinstance(content, list | tuple) else content


def marked(content: Any) -> bool:
    """Tell whether the mark stands anywhere in plain data."""
    if isinstance(content, str):
        return MARK in content
    if isinstance(content, Mapping):
        return any(marked(inner) for key, inner in content.items() if key not in NOT_PATHS)
    return isinstance(content, list | tuple) and any(marked(inner) for inner in content)


DOCKER, OCI = "manifest.json", "index.json"
# of a manifest in an index: the second is what nerdctl and ctr write
NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
LISTS = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
FOR_ONE = "export it for one platform, as `skopeo copy` and `docker save --platform` do"
LARGEST = 1 << 20  # bytes of a manifest that are read
Member = Callable[[str], bytes | None]


@dataclass(frozen=True)
class ImageArchive:
    """One image in an archive. `name`: REPOSITORY:TAG without a registry, "" where the archive has none.

    `digest`: of the image's manifest, where the archive has one.
    """

    path: Path
    form: Literal["docker", "layout", "oci"]
    name: str
    digest: str


def look(path: Path) -> ImageArchive:
    """Return what an archive holds. Raises ValueError with what is wrong with it."""
    if path.is_dir():
        return _layout(path, "layout", lambda name: _read(path / name))
    if not path.is_file():
        raise ValueError(f"the image archive {path} does not exist")
    try:
        with tarfile.open(path, mode="r:") as tar:
            members = {entry.name.removeprefix("./"): entry for entry in tar if entry.isfile()}

            def member(name: str) -> bytes | None:
                stream = tar.extractfile(members[name]) if name in members else None
                return stream.read(LARGEST) if stream is not None else None

            return _docker(path, member) if DOCKER in members else _layout(path, "oci", member)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise ValueError(f"the image archive {path} is not an uncompressed tar archive: {error}") from error


class _Docker(BaseModel):
    """An image in manifest.json of what `docker save` writes; the names in it are those of files beside it."""

    model_config = ConfigDict(frozen=True)
    Config: Text
    RepoTags: tuple[Text, ...] | None = None
    Layers: Annotated[tuple[Text, ...], Field(min_length=1)]


class _Blob(BaseModel):
    """What an OCI layout says of a file in blobs/: https://github.com/opencontainers/image-spec, descriptor.md."""

    model_config = ConfigDict(frozen=True)
    mediaType: Text | None = None  # noqa: N815 - as in the file
    digest: Annotated[str, StringConstraints(pattern=DIGEST)]
    annotations: dict[str, str] | None = None

    @property
    def file(self) -> str:
        """Return its path in the layout."""
        return f"blobs/{self.digest.replace(':', '/')}"


class _Index(BaseModel):
    """index.json of an OCI layout. An entry is judged once it is known to be the only one."""

    model_config = ConfigDict(frozen=True)
    manifests: tuple[JsonValue, ...]


class _Manifest(BaseModel):
    """An image in an OCI layout."""

    model_config = ConfigDict(frozen=True)
    config: _Blob
    layers: Annotated[tuple[_Blob, ...], Field(min_length=1)]


M = TypeVar("M", bound=BaseModel)


def _docker(path: Path, member: Member) -> ImageArchive:
    images = _json(path, DOCKER, member)
    if not isinstance(images, list):
        raise _broken(path, f"{DOCKER} is not a list of images")
    image = _fitting(path, DOCKER, (0,), _only(path, images), _Docker)
    for part in (image.Config, *image.Layers):
        if member(part) is None:
            raise _broken(path, f"it lacks {printable(part)}, which {DOCKER} names")
    names = image.RepoTags or ()
    return ImageArchive(path, "docker", _plain(names[0]) if len(names) == 1 else "", "")


def _layout(path: Path, form: Literal["layout", "oci"], member: Member) -> ImageArchive:
    index = _fitting(path, OCI, (), _json(path, OCI, member), _Index)
    entry = _fitting(path, OCI, ("manifests", 0), _only(path, index.manifests), _Blob)
    if entry.mediaType in LISTS:
        raise ValueError(f"the image archive {path} has an image for several platforms; {FOR_ONE}")
    manifest = _fitting(path, entry.file, (), _json(path, entry.file, member), _Manifest)
    for part in (manifest.config, *manifest.layers):
        if member(part.file) is None:
            raise _broken(path, f"it lacks {part.file}, which {entry.file} names")
    notes = entry.annotations or {}
    name = next((notes[key] for key in NAMES if notes.get(key)), "")
    return ImageArchive(path, form, _plain(name) if ":" in name else "", entry.digest)


def _json(path: Path, name: str, member: Member) -> Any:
    raw = member(name)
    if raw is None:
        raise _broken(path, f"it lacks {name}")
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _broken(path, f"{name} is not JSON") from error


def _only(path: Path, images: Sequence[Any]) -> Any:
    if len(images) != 1:
        raise ValueError(f"the image archive {path} has {len(images)} images; it needs to have one")
    return images[0]


def _fitting(path: Path, name: str, at: Location, content: Any, model: type[M]) -> M:
    """Return what a place in a file of an archive says, as its model; its first mistake is an error."""
    made, problems = validate(Document(Path(name), content, {}), model)
    if made is None:
        where = ".".join(filter(None, (dotted(at), problems[0].path)))
        raise _broken(path, ": ".join(filter(None, (name, where, problems[0].message))))
    return made


def _broken(path: Path, what: str) -> ValueError:
    return ValueError(f"the image archive {path} is broken: {what}; write the archive again")


def _read(file: Path) -> bytes | None:
    if not file.is_file():
        return None
    with file.open("rb") as stream:
        return stream.read(LARGEST)


def _plain(name: str) -> str:
    """Return REPOSITORY:TAG of a full name, without the registry's host; "" where no registry takes that."""
    host, _, rest = name.partition("/")
    without = rest if rest and re.search(r"[.:]|^localhost$", host) else name
    tagged = without if ":" in without.rpartition("/")[2] else f"{without}:latest"
    return tagged if re.fullmatch(TAGGED, tagged) else ""


HINT = "add `name: REPOSITORY:TAG`"


def check(content: Any, project: Path) -> Iterator[Finding]:
    """Find what is missing or broken; paths are relative to the project, or in sources that are there already."""
    sources = folder(next((entry for _, entry in find(content, "product", "sources")), None), project)
    content = put(content, sources if sources is not None and _is_folder(sources) else None)
    for at, name in texts(content, "product", "artifacts", "folder"):
        if not marked(name) and not _is_folder(project / name):
            yield at, f"the folder {project / name} does not exist"
    yield from _served_twice(content)
    yield from _images(content, project)


def _served_twice(content: Any) -> Iterator[Finding]:
    artifact_by_path: dict[str, str] = {}
    for at, entry in find(content, "product", "artifacts", "serve", EACH):
        path, artifact = field(entry, "as"), field(entry, "artifact")
        if path is None or artifact is None:
            continue
        if path in artifact_by_path:
            yield (*at, "as"), f"{path} is already the path of {artifact_by_path[path]}; a path serves one file"
        artifact_by_path.setdefault(path, artifact)


def _images(content: Any, project: Path) -> Iterator[Finding]:
    archive_by_name: dict[str, str] = {}
    for at, entry in find(content, "product", "artifacts", "images", EACH):
        archive, name_of_entry = field(entry, "archive"), field(entry, "name")
        if archive is None or marked(archive):
            continue
        try:
            name = name_of_entry or look(project / archive).name
            if name_of_entry is not None:
                look(project / archive)
        except (ValueError, OSError) as error:
            yield (*at, "archive"), str(error)
            continue
        if not name:
            yield (
                (*at, "archive"),
                f"the image archive {project / archive} does not say what its image is called; {HINT}",
            )
        elif name in archive_by_name:
            yield (
                (*at, "archive"),
                f"{name} is already the image of {archive_by_name[name]}; give one of them another `name`",
            )
        archive_by_name.setdefault(name, archive)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
