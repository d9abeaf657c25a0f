"""The catalogue as data: programs and images, their versions, and how each is obtained.

Covers reading and validating catalogue.yml and looking things up in it. Does not obtain anything.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.artifacts.own import sources
from harness.errors import BadInput, HarnessBug
from harness.files import sha256_of
from harness.yaml_text import LOADER

HERE = Path(__file__).resolve().parent
CATALOGUE = HERE / "catalogue.yml"
MODULES = HERE / "modules"
PROGRAMS = HERE / "programs"
KUBERNETES = "kubernetes"
IMAGE_PREFIX = "image/"
LAYER_PREFIX = "layer/"  # layer/<repository>/<which>: what an image of several layers is made of
SUITE = "trixie"  # whose packages an image has that names no other

# Go's and Debian's word for each machine that uname(2) names, and the word of projects that mix both
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PYTHON_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
MIXED = {"amd64": "x86_64", "arm64": "arm64"}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KubernetesRelease(_Strict):
    """What belongs to one Kubernetes release: the etcd version, and the tag of every image besides its own four."""

    etcd: str
    images: dict[str, str]


class WrapperModule(_Strict):
    """What a generated go.mod requires at the module's version, and which indirect requirements it raises.

    `absent` modules are asked for by tests alone and cannot be downloaded: an empty module stands for each.
    `replaces`: upstream's go.mod replaces or excludes modules, which would hold for its own builds alone. `sums`:
    upstream's own go.sum vouches for what it requires, where the checksum database lacks some of it. `fork` is the
    module whose sources are taken for the first of `requires`, as PATH@VERSION with `{version}` in it; the checksum
    database is not asked for it. `program` names the file in programs/ that is the module's own command, instead of
    upstream's. `seconds` of the processors go into what programs of the module share, besides those of each.
    """

    requires: list[str]
    staging: bool = False
    sums: bool = False
    raises: dict[str, str] = {}
    absent: list[str] = []
    replaces: bool = False
    fork: str = ""
    program: str = ""
    seconds: float = 0.0


class GoRecipe(_Strict):
    """How a program is built: output file -> package, and the flags.

    `stamps` are -X variables; `libraries` maps the pkg-config name of a C library to the Debian package it is in.
    `copies` are files that lie beside the sources of a Go package, taken as they are: output file -> PACKAGE/FILE.
    `c_programs` are written in C alone: output file -> folder of the module that the first package is in.
    `seconds` of the processors go into it.
    """

    module: str
    packages: dict[str, str]
    cgo: bool = False
    test: bool = False
    tags: list[str] = []
    stamps: dict[str, str] = {}
    libraries: dict[str, str] = {}
    copies: dict[str, str] = {}
    c_programs: dict[str, str] = {}
    seconds: float

    @property
    def files(self) -> tuple[str, ...]:
        """Return the names of the programs that a build makes."""
        return (*self.packages, *self.c_programs)


class ReleaseRecipe(_Strict):
    """How a program is downloaded. Without `members` the URL is the file itself.

    `bare`: the published checksum is a digest alone, without the file's name.
    """

    base: str
    url: str
    checksum_url: str
    members: dict[str, str] = {}
    bare: bool = False


class Recipes(_Strict):
    """The ways to obtain a program. Without `release` its project publishes no file with a checksum."""

    gomod: GoRecipe
    release: ReleaseRecipe | None = None


class Program(Recipes):
    """One artifact of one or more executable files; `other` has the recipes of versions that differ from the rest."""

    versions: Literal["kubernetes"] | Annotated[list[str], Field(min_length=1)]
    other: dict[str, Recipes] = {}

    def recipes(self, version: str) -> Recipes:
        """Return the recipes of one version."""
        return self.other.get(version, self)


class Image(_Strict):
    """One OCI image: a layer of Debian packages of a suite (when there are any) below a layer with our files."""

    tags: Literal["kubernetes"] | dict[str, str]
    files: dict[str, str] = {}
    debian: list[str] = []
    suite: str = SUITE
    links: dict[str, str] = {}
    applets: str = ""
    entrypoint: list[str] = []
    command: list[str] = []
    user: str = ""


class ComposedImage(Image):
    """An image with small files of its own: `texts` by path, `modes` (octal) of files that need another than 0755.

    `suites` names the Debian suite of single tags, for images of which two versions must differ.
    """

    texts: dict[str, str] = {}
    modes: dict[str, str] = {}
    suites: dict[str, str] = {}

    def suite_of(self, tag: str) -> str:
        """Return the Debian suite of a tag's packages."""
        return self.suites.get(tag, self.suite)


class Wheels(_Strict):
    """Python packages for the image's Python of a version: a lock beside this file, and paths that are left out.

    Of `compiled` folders the sources are left out: code that is generated, and large.
    """

    version: str
    lock: str
    without: list[str] = []
    compiled: list[str] = []


class LayeredImage(Image):
    """The image of vmatrix itself, of layers that are made and kept one by one.

    Its one tag names the vmatrix that runs. `without` are patterns of Debian's paths that are left out, `joined` maps a
    file to the pattern of its parts, and `users` gives users of no rights their number.
    """

    tags: Literal["kubernetes"] | dict[str, str] = {}
    python: Wheels
    without: list[str] = []
    joined: dict[str, str] = {}
    users: dict[str, int] = {}


class Catalogue(_Strict):
    """All of it.

    network_plugins: images of network plugins, named as the plugin; cells that name no plugin get the first one's.
    add_ons: images of add-ons: in no cell whose variables do not name a version of them.
    """

    kubernetes: dict[str, KubernetesRelease]
    modules: dict[str, WrapperModule]
    programs: dict[str, Program]
    images: dict[str, LayeredImage | Image | ComposedImage]
    network_plugins: list[str] = []
    add_ons: list[str] = []

    def versions(self, name: str) -> tuple[str, ...]:
        """Return the versions of a program, or the tags of an image (`image/<repository>`), newest entry first."""
        if name.startswith(IMAGE_PREFIX):
            return tuple(self.tags(name.removeprefix(IMAGE_PREFIX)))
        if name in self.layers():
            return (self.layers()[name],)
        versions = self.program(name).versions
        return tuple(self.kubernetes) if versions == KUBERNETES else tuple(versions)

    def require(self, name: str, version: str) -> None:
        """Raise BadInput when there is no such program or image, or not in that version."""
        known = self.versions(name)
        if version not in known:
            raise BadInput(
                f"{name} has no version {version} (known: {', '.join(known)})", hint="vmatrix artifacts list"
            )

    def tags(self, repository: str) -> dict[str, str]:
        """Return an image's tags, each with the version of the programs in it."""
        image = self.image(repository)
        if isinstance(image, LayeredImage):
            return {sources.tag(image.model_dump(), sha256_of(HERE / image.python.lock), architecture()): ""}
        tags = image.tags
        return tags if isinstance(tags, dict) else {f"v{version}": version for version in self.kubernetes}

    def layers(self) -> dict[str, str]:
        """Return the layers of images of several, lowest first, each with its version."""
        layered = {name: image for name, image in self.images.items() if isinstance(image, LayeredImage)}
        return {
            f"{LAYER_PREFIX}{repository}/{which}": version
            for repository, image in layered.items()
            for which, version in (("debian", image.suite), ("python", image.python.version))
        }

    def program(self, name: str) -> Program:
        """Return a program's entry. Raises BadInput when there is none."""
        if name not in self.programs:
            raise BadInput(f"there is no artifact `{name}`", hint="vmatrix artifacts list")
        return self.programs[name]

    def shared(self, module: str) -> float:
        """Return the processor seconds that go into what programs of a wrapper module share."""
        return self.modules[module].seconds if module in self.modules else 0.0

    def image(self, repository: str) -> LayeredImage | Image | ComposedImage:
        """Return an image's entry. Raises BadInput when there is none."""
        if repository not in self.images:
            raise BadInput(f"there is no artifact `{IMAGE_PREFIX}{repository}`", hint="vmatrix artifacts list")
        return self.images[repository]

    def release(self, version: str) -> KubernetesRelease:
        """Return what belongs to a Kubernetes version. Raises BadInput when it is not declared."""
        if version not in self.kubernetes:
            known = ", ".join(self.kubernetes)
            raise BadInput(
                f"Kubernetes {version} is not in the catalogue (known: {known})",
                hint=f"add it to {CATALOGUE.name}, then: vmatrix artifacts module kubernetes {version}",
                paths=[CATALOGUE],
            )
        return self.kubernetes[version]

    def names(self) -> tuple[str, ...]:
        """Return every artifact's name, programs first."""
        return (*self.programs, *self.layers(), *(IMAGE_PREFIX + repository for repository in self.images))


@cache
def load(path: Path = CATALOGUE) -> Catalogue:
    """Read and validate a catalogue. Raises BadInput when it does not fit the schema."""
    try:
        return Catalogue.model_validate(yaml.load(path.read_text(encoding="utf-8"), LOADER))  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValidationError) as error:
        raise BadInput(f"{path.name} is not a valid catalogue", detail=str(error), paths=[path]) from error


def architecture() -> str:
    """Return this machine's architecture in Go's words. Raises BadInput on one that nothing is built for."""
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise BadInput(f"unsupported machine architecture {machine} (supported: {', '.join(ARCHITECTURES)})")
    return ARCHITECTURES[machine]


def fill(template: str, name: str, version: str) -> str:
    """Fill a catalogue template for one version of a program."""
    numbers = version.split(".")
    try:
        return template.format(
            name=name,
            version=version,
            minor=".".join(numbers[:2]),
            major_number=numbers[0],
            minor_number=numbers[1] if len(numbers) > 1 else "0",
            arch=architecture(),
            mixed_arch=MIXED[architecture()],
        )
    except (KeyError, IndexError) as error:
        raise HarnessBug(f"template `{template}` of {CATALOGUE.name} has an unknown field: {error}") from error


def module_dir(module: str, version: str) -> Path:
    """Return the folder of a wrapper module."""
    return MODULES / f"{module}-{version}"


def own_path(module: str) -> str:
    """Return the path by which Go knows a wrapper module, and the command in it where it has one."""
    return f"vmatrix.dev/artifacts/{module}"
