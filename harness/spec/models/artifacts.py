"""matrix/artifacts.yml and matrix/images.yml: patch versions of programs that a project adds, and disk images.

Which programs there are and what a version of each is made of, the catalogue knows: `harness.artifacts.catalogue`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from harness.spec.base import CHECKSUM, GO_SUM, MODULE_PATH, PATCH, URL, USER, Day, Model, Name, Text, Url, Whole
from harness.spec.models.product import Inside, known_fields

PatchVersion = Annotated[str, StringConstraints(pattern=PATCH)]
Checksum = Annotated[str, StringConstraints(pattern=CHECKSUM)]
GoSum = Annotated[str, StringConstraints(pattern=GO_SUM)]
ModulePath = Annotated[str, StringConstraints(pattern=MODULE_PATH)]
Address = Annotated[str, StringConstraints(pattern=URL), AfterValidator(known_fields)]
User = Annotated[str, StringConstraints(pattern=USER)]


class AddedVersion(Model):
    """Where a version comes from: the Go module proxy (`sums`), or an address (`url` and `checksum`).

    sums: the checksum of each Go module that it is built from, by the module's path, as go.sum has it.
    url: of the program, or of an archive with its files; {version}, {arch} and the like stand for what they name.
    checksum: of what is there, `sha256:` or `sha512:` and the digits.
    members: the path in the archive of each of the program's files; default: as in upstream's archive.
    etcd: of Kubernetes, the etcd that belongs to it; default: that of the newest patch which vmatrix has.
    images: of Kubernetes, tags by image; those that are left out are as with that patch.
    """

    sums: dict[ModulePath, GoSum] = Field(default_factory=dict)
    url: Address | None = None
    checksum: Checksum | None = None
    members: dict[Text, Inside] = Field(default_factory=dict)
    etcd: PatchVersion | None = None
    images: dict[Text, Text] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_source(self) -> AddedVersion:
        if (self.url is None) == (not self.sums):
            raise ValueError("needs either `sums`, for the Go module proxy, or `url` and `checksum`")
        if (self.url is None) != (self.checksum is None):
            raise ValueError("needs `url` and `checksum` together: nothing is downloaded that cannot be verified")
        if self.url is None and self.members:
            raise ValueError("has `members` without `url`; only an archive has members")
        return self


AddedVersions = dict[Name, Annotated[dict[PatchVersion, AddedVersion], Field(min_length=1)]]


class BuildSource(Model):
    """An image that vmatrix builds, from the recipe in vm-templates/images/RECIPE/.

    kind: `build`.  recipe: the name of the folder.
    bootable: with a kernel and boot loaders, for virtual machines. Without them it boots on the host's kernel only.
    """

    kind: Literal["build"]
    recipe: Name
    bootable: bool = False


class UrlSource(Model):
    """A published qcow2 image with its checksum: the checksum itself, or the URL of a file that lists it.

    kind: `url`.  url: where it is.
    checksum: `sha256:` or `sha512:` and the digits of the file's checksum.  checksum_url: a file that lists it.
    credentials, certificates: a Secret (accessKeyId, secretKey) and a ConfigMap (PEM files) in the namespace of the
        golden images, where its server asks for a login or has a certificate of an authority of its own.
    """

    kind: Literal["url"]
    url: Url
    checksum: Checksum | None = None
    checksum_url: Url | None = None
    credentials: Name | None = None
    certificates: Name | None = None

    @model_validator(mode="after")
    def _one_checksum(self) -> UrlSource:
        if (self.checksum is None) == (self.checksum_url is None):
            raise ValueError("an image by URL needs either `checksum` or `checksum_url`")
        return self


class DiskImage(Model):
    """One disk image.

    name: what values of the matrix call it.  os: the operating system, such as `debian`.  version: its version.
    source: where the image is from: built here, or published.  user: the login user that cloud-init makes.
    size_gib: the disk's virtual size (GiB), which a machine's disk may exceed but not undercut.
    end_of_life: the last day (date) with security updates from its makers.
    """

    name: Name
    os: Name
    version: Text
    source: Annotated[BuildSource | UrlSource, Field(discriminator="kind")]
    user: User
    size_gib: Whole = Field(ge=1, le=1024)
    end_of_life: Day


class ImagesFile(Model):
    """The catalogue of disk images; names are unique.

    images: the disk images.
    """

    images: tuple[DiskImage, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _unique_names(self) -> ImagesFile:
        names = [image.name for image in self.images]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"image names must be unique; duplicates: {', '.join(twice)}")
        return self
