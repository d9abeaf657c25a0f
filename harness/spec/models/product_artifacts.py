"""What a product wants the mirror to have, of product.yml: own files, programs as upstream lays them out, images."""

from __future__ import annotations

import re
from string import Formatter
from typing import Annotated, Any

from pydantic import AfterValidator, Discriminator, Field, StringConstraints, Tag

from harness.spec.base import ARTIFACT, REPOSITORY, TAGGED, Model, Text

FIELDS = ("name", "version", "minor", "major_number", "minor_number", "arch", "mixed_arch")  # of a template
ARCHIVES = (".tar.gz", ".tgz", ".tar")  # what a path ends with that is served as an archive
PACKED = re.compile(r"\.(zip|gz|bz2|xz|zst|tbz2|txz)$")
RELATIVE = r"^[A-Za-z0-9_~][^\s/]*(/[^\s/]+)*$"


def _known_fields(template: str) -> str:
    """Refuse a template with a field that nothing fills."""
    try:
        parsed = [field for field in Formatter().parse(template) if field[1] is not None]
        found = [f"{name}{':' if form else ''}{form}{'!' if how else ''}{how or ''}" for _, name, form, how in parsed]
    except ValueError as error:
        raise ValueError(f"not a template: {error}") from error
    for name in found:
        if name not in FIELDS:
            raise ValueError(f"unknown field {{{name}}} in {template!r}; known: {', '.join(FIELDS)}")
    return template


def _served_path(template: str) -> str:
    """Refuse what no file of a mirror can be called, and archives of kinds that are not made."""
    _known_fields(template)
    if re.match(RELATIVE, template) is None or ".." in template.split("/"):
        raise ValueError(f"{template!r} is not a path below the mirror's files, such as host/folder/NAME-{{version}}")
    if PACKED.search(template) and not template.endswith(ARCHIVES):
        raise ValueError(f"{template!r}: only {', '.join(ARCHIVES)} archives can be made")
    return template


ServedPath = Annotated[str, AfterValidator(_served_path)]
Inside = Annotated[str, AfterValidator(_known_fields)]
ArtifactName = Annotated[str, StringConstraints(pattern=ARTIFACT)]
Repository = Annotated[str, StringConstraints(pattern=REPOSITORY)]
ImageName = Annotated[str, StringConstraints(pattern=TAGGED)]


class ServedProgram(Model):
    """A program of vmatrix's that the mirror serves at a path of the product's choice.

    artifact: NAME, in the version of the cell, or NAME@VERSION.
    as: the path below the mirror's files; one that ends in .tar.gz, .tgz or .tar is an archive.
    inside: the folder of the program's files in the archive.
    checksums: the path of the file that has the checksum; by default that of the file with .sha256 at its end.
    """

    artifact: ArtifactName
    as_: ServedPath = Field(alias="as")
    inside: Inside = ""
    checksums: ServedPath | None = None


class RenamedImage(Model):
    """An image of vmatrix's that the registry has by another name, too.

    artifact: NAME or NAME@TAG of an image.
    as: REPOSITORY, with the image's own tag, or REPOSITORY:TAG.
    """

    artifact: ArtifactName
    as_: Repository = Field(alias="as")


class OwnImage(Model):
    """An image of the product's that is pushed into the registry.

    archive: a file that `docker save` wrote, an OCI archive, or the folder of an OCI layout; relative to the project.
    name: REPOSITORY:TAG in the registry; by default what the archive calls its image, without the registry's host.
    """

    archive: Text
    name: ImageName | None = None


SERVE = "expected NAME, NAME@VERSION or {artifact: NAME, as: PATH, inside: FOLDER, checksums: PATH}"
IMAGE = "expected NAME, NAME@TAG, {artifact: NAME, as: REPOSITORY} or {archive: PATH, name: REPOSITORY:TAG}"


def _form(given: Any) -> str | None:
    """Tell which form an entry has, by its keys."""
    if isinstance(given, str):
        return "name"
    if isinstance(given, OwnImage) or (isinstance(given, dict) and "archive" in given):
        return "own"
    return "ours" if isinstance(given, dict | ServedProgram | RenamedImage) else None


Served = Annotated[
    Annotated[ArtifactName, Tag("name")] | Annotated[ServedProgram, Tag("ours")],
    Discriminator(_form, custom_error_type="unfit", custom_error_message=SERVE),
]
WantedImage = Annotated[
    Annotated[ArtifactName, Tag("name")] | Annotated[RenamedImage, Tag("ours")] | Annotated[OwnImage, Tag("own")],
    Discriminator(_form, custom_error_type="unfit", custom_error_message=IMAGE),
]


class ProductArtifacts(Model):
    """What guests find on the mirror because the product asks for it. A run obtains this, and what its checks need.

    folder: of files that the mirror serves as they are, relative to the project.
    serve: programs of vmatrix's; a bare name is served at its address upstream, without the https://.
    images: container images in the registry: names of vmatrix's, or archives of the product's own.
    """

    folder: Text | None = None
    serve: tuple[Served, ...] = ()
    images: tuple[WantedImage, ...] = ()
