"""matrix/artifacts.yml: patch versions of programs that a project adds to those that vmatrix can obtain.

Which programs there are, and what a version of each is made of, the catalogue knows: `harness.artifacts.catalogue`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from harness.spec.base import CHECKSUM, GO_SUM, MODULE_PATH, PATCH, URL, Model, Name, Text
from harness.spec.models.product import Inside, known_fields

PatchVersion = Annotated[str, StringConstraints(pattern=PATCH)]
Checksum = Annotated[str, StringConstraints(pattern=CHECKSUM)]
GoSum = Annotated[str, StringConstraints(pattern=GO_SUM)]
ModulePath = Annotated[str, StringConstraints(pattern=MODULE_PATH)]
Address = Annotated[str, StringConstraints(pattern=URL), AfterValidator(known_fields)]


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
