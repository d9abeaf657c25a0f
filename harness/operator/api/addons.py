"""Add-ons: those that the playbooks deploy, and those that are manifests; and what became of each in a cluster."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from harness.kube.kinds.models import ApiModel, Cel, StatusModel
from harness.operator.api.resources import ComponentVersion, Line, ObjectName

BUILT_IN = ("metrics-server", "local-path-provisioner", "metallb", "kube-router", "traefik")
MISSING = "Missing"  # the reason of a built-in add-on of which something is gone
AddonName = Annotated[str, StringConstraints(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=40)]
ManifestUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s/]+/\S*$", max_length=1024)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$", max_length=64)]
Digest = Annotated[str, StringConstraints(max_length=128)]

_KNOWN = f"self.name in [{', '.join(repr(name) for name in BUILT_IN)}]"
ONE_SOURCE = Cel(
    "has(self.configMap) != has(self.url)",
    "manifests come from one place",
    "set either configMap, or url with sha256",
    holds=lambda manifests: (manifests.config_map is None) != (manifests.url is None),
)
UNVERIFIED = Cel(
    "!has(self.url) || has(self.sha256)",
    "a file from a URL is only applied if it is the one that was meant",
    "set sha256 to the checksum of the file, as sha256sum prints it",
    ".sha256",
    holds=lambda manifests: manifests.url is None or manifests.sha256 is not None,
)
NO_FILE = Cel(
    "!has(self.sha256) || has(self.url)",
    "sha256 is the checksum of a file from a URL",
    "remove sha256, or set url",
    ".sha256",
    holds=lambda manifests: manifests.sha256 is None or manifests.url is not None,
)
UNKNOWN = Cel(
    f"has(self.manifests) || {_KNOWN}",
    "the playbooks have no add-on of this name",
    f"use {', '.join(BUILT_IN)}, or say with manifests what it consists of",
    ".name",
    holds=lambda addon: addon.manifests is not None or addon.name in BUILT_IN,
)
TAKEN = Cel(
    f"!has(self.manifests) || !({_KNOWN})",
    "the playbooks have an add-on of this name",
    "give manifests of your own another name",
    ".name",
    holds=lambda addon: addon.manifests is None or addon.name not in BUILT_IN,
)
NO_VERSION = Cel(
    "!has(self.manifests) || !has(self.version)",
    "manifests are of one version, whatever is set here",
    "remove version",
    ".version",
    holds=lambda addon: addon.manifests is None or addon.version is None,
)


class ManifestSource(ApiModel):
    """Where the manifests of an add-on are."""

    cel: ClassVar[tuple[Cel, ...]] = (ONE_SOURCE, UNVERIFIED, NO_FILE)
    config_map: ObjectName | None = Field(
        default=None, description="ConfigMap in the same namespace; its keys *.yml and *.yaml count, in their order."
    )
    url: ManifestUrl | None = Field(default=None, description="URL of a file with objects in YAML; needs sha256.")
    sha256: Sha256 | None = Field(default=None, description="Checksum of the file.")


class ClusterAddon(ApiModel):
    """One add-on: of the playbooks, or with manifests."""

    cel: ClassVar[tuple[Cel, ...]] = (UNKNOWN, TAKEN, NO_VERSION)
    name: AddonName = Field(description=f"{', '.join(BUILT_IN)}; any other with manifests.")
    version: ComponentVersion | None = Field(
        default=None, description="Version of an add-on of the playbooks; default: the release table."
    )
    manifests: ManifestSource | None = Field(
        default=None, description="Objects that the operator applies in the cluster, keeps as they are, and prunes."
    )


class AddonStatus(StatusModel):
    """What became of one add-on."""

    name: str = Field(description="Name of the add-on.")
    source: Digest | None = Field(default=None, description="Digest of the entry of the spec that this is about.")
    digest: Digest | None = Field(default=None, description="Digest of the objects that were last applied.")
    objects: int | None = Field(default=None, description="How many objects that is.")
    ready: bool | None = Field(default=None, description="Whether all of it works; not set if nobody can tell.")
    reason: str = Field(description="Why, as one word for programs.")
    message: Line = Field(default="", description="Why, for people.")
    sequence: int | None = Field(default=None, description="The last operation before a built-in one was incomplete.")
