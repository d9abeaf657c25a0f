"""Attestations of images: what packages are in one (SBOM), and how it was built (provenance).

Both refer to the image in its registry. Sources: https://slsa.dev/spec/v1.0/provenance,
https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md, https://cyclonedx.org/docs/1.6/json/
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.parser import HeaderParser
from typing import Any
from urllib.parse import quote

from harness import __version__
from harness.http_client import TooMuch
from harness.operator.build import oci

PROVENANCE, STATEMENT = "https://slsa.dev/provenance/v1", "application/vnd.in-toto+json"
SBOM = "application/vnd.cyclonedx+json"
BUILD_TYPE = "https://vmatrix.dev/delivery/v1"
LARGEST_LAYER = 256 * 1024 * 1024  # that is looked into
DPKG, APK = "var/lib/dpkg/status", "lib/apk/db/installed"
WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"  # https://github.com/opencontainers/image-spec/blob/main/layer.md


def sbom(contents: Contents, image: str, made: str) -> dict[str, Any]:
    """Return the list of an image's packages. `made`: RFC 3339; of the same image it is always the same."""
    unread = [{"name": "vmatrix:unread-layer", "value": digest} for digest in contents.unread]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": made,
            "component": {"type": "container", "name": image.partition("@")[0], "version": image.partition("@")[2]},
            "tools": {"components": [{"type": "application", "name": "vmatrix", "version": __version__}]},
            **({"properties": unread} if unread else {}),
        },
        "components": [
            {
                "type": "library",
                "name": package.name,
                "version": package.version,
                "purl": package.purl,
                "bom-ref": package.purl,
            }
            for package in contents.all()
        ],
    }


def provenance(
    image: str, *, asked: Mapping[str, Any], revision: str, bases: Sequence[str], made: str
) -> dict[str, Any]:
    """Return how an image was built.

    Args:
        image: by digest.  asked: what the Delivery says of source and build; no Secret is in it.
        revision: full SHA.  bases: images by digest.  made: RFC 3339.
    """
    name, _, digest = image.partition("@")
    git = {"uri": f"git+{asked['source']['git']}", "digest": {"gitCommit": revision}}
    images = [
        {"uri": f"pkg:docker/{base.partition('@')[0]}", "digest": {"sha256": base.rpartition(":")[2]}} for base in bases
    ]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}}],
        "predicateType": PROVENANCE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": dict(asked),
                "resolvedDependencies": [git, *images],
            },
            "runDetails": {
                "builder": {"id": "https://vmatrix.dev/operator", "version": {"vmatrix": __version__}},
                "metadata": {"startedOn": made},
            },
        },
    }


def contents_of(repository: oci.Repository, manifest: Mapping[str, Any]) -> Contents:
    """Look into an image in a registry. Raises RegistryFailed by its kind."""
    contents = Contents()
    for layer in oci.layers_of(repository, manifest):
        digest = str(layer["digest"])
        try:
            contents.add(repository.blob(digest, largest=LARGEST_LAYER))
        except (TooMuch, tarfile.TarError, OSError, EOFError):
            contents.unread.append(digest)
    return contents


@dataclass
class Contents:
    """What is in an image, layer over layer; `packages` by the file that says so."""

    packages: dict[str, tuple[Package, ...]] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)  # digests of layers that were too large, or are of another kind

    def add(self, layer: bytes) -> None:
        """Look into a layer above those before. Raises tarfile.TarError, OSError, EOFError: it is not an archive."""
        with tarfile.open(fileobj=io.BytesIO(layer), mode="r|*") as stream:
            for entry in stream:
                name = entry.name.removeprefix("./").strip("/")
                folder, _, last = name.rpartition("/")
                if last == OPAQUE:
                    self._remove(f"{folder}/")
                elif last.startswith(WHITEOUT):
                    self._remove(f"{folder}/{last.removeprefix(WHITEOUT)}".lstrip("/"))
                elif entry.isfile() and (kind := _kind(name)):
                    content = stream.extractfile(entry)
                    if content is not None:
                        text = content.read().decode("utf-8", "replace")
                        self.packages[name] = tuple(_listed(kind, text))

    def _remove(self, path: str) -> None:
        inner = path if path.endswith("/") else f"{path}/"
        for name in [package for package in self.packages if package == path or package.startswith(inner)]:
            del self.packages[name]

    def all(self) -> list[Package]:
        """Return every package once, in order."""
        everything = {package for packages in self.packages.values() for package in packages}
        return sorted(everything, key=lambda package: (package.kind, package.name, package.version))


@dataclass(frozen=True)
class Package:
    """One package of an image: its type as purl has it, its name and its version."""

    kind: str
    name: str
    version: str

    @property
    def purl(self) -> str:
        """Return its address: https://github.com/package-url/purl-spec."""
        name = "/".join(quote(part, safe="") for part in self.name.split("/"))
        return f"pkg:{self.kind}/{name}@{quote(self.version, safe='')}"


def _kind(name: str) -> str:
    if name in (DPKG, APK):
        return "deb" if name == DPKG else "apk"
    if name.startswith("var/lib/dpkg/status.d/") and not name.endswith(".md5sums"):  # of images without a shell
        return "deb"
    return "pypi" if name.endswith((".dist-info/METADATA", ".egg-info/PKG-INFO")) else ""


def _listed(kind: str, text: str) -> Iterator[Package]:
    """Yield the packages that a file names."""
    if kind == "apk":
        for block in text.split("\n\n"):
            lines = dict(line.split(":", 1) for line in block.splitlines() if ":" in line)
            if "P" in lines and "V" in lines:
                yield Package("apk", lines["P"], lines["V"])
        return
    for block in text.split("\n\n") if kind == "deb" else [text]:
        fields = HeaderParser().parsestr(block)
        installed = kind != "deb" or "not-installed" not in str(fields.get("Status", ""))
        if fields.get("Name" if kind == "pypi" else "Package") and fields.get("Version") and installed:
            name = str(fields.get("Name") or fields.get("Package"))
            yield Package(kind, name.lower().replace("_", "-") if kind == "pypi" else name, str(fields["Version"]))
