"""The catalogue as data: programs and images, their versions, and how each is obtained.

Covers reading and validating catalogue.yml, the versions that a project adds in matrix/artifacts.yml, and looking
things up. Does not obtain anything.

A version that a project adds is made as the newest patch of its minor is that vmatrix has. It counts where something
names it: what names no version gets what it got before. If vmatrix has it as well, the project's source counts.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.artifacts.own import sources
from harness.errors import BadInput, HarnessBug
from harness.files import sha256_of
from harness.paths import MATRIX
from harness.spec import layers, lines
from harness.spec.lines import Document, Finding, Problem
from harness.spec.loader import refuse
from harness.spec.models import FILES, AddedVersion
from harness.spec.project import anywhere
from harness.spec.shape import unknown, validate
from harness.yaml_text import LOADER

HERE = Path(__file__).resolve().parent
CATALOGUE = HERE / "catalogue.yml"
ADDED = "artifacts.yml"  # of a project's matrix
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

    def sources(self, version: str) -> dict[str, str]:
        """Return the modules that have the sources of a version, each with its own version."""
        first, *others = self.requires
        path, _, tag = self.fork.format(version=version).partition("@") if self.fork else (first, "", f"v{version}")
        return {path: tag, **dict.fromkeys(others, f"v{version}")}


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

    `bare`: the published checksum is a digest alone, without the file's name. `checksum` is known from elsewhere.
    """

    base: str
    url: str
    checksum_url: str
    members: dict[str, str] = {}
    bare: bool = False
    checksum: str = ""


class Recipes(_Strict):
    """The ways to obtain a program. Without `release` its project publishes no file with a checksum.

    Of a version that a project adds, `where` is its place in the project's file as FILE:LINE: FIELD. It comes from the
    address `pinned`, or is built of modules with the checksums `sums`, by their paths.
    """

    gomod: GoRecipe
    release: ReleaseRecipe | None = None
    pinned: ReleaseRecipe | None = None
    sums: dict[str, str] = {}
    where: str = ""


class Program(Recipes):
    """One artifact of one or more executable files; `other` has the recipes of versions that differ from the rest."""

    versions: Literal["kubernetes"] | Annotated[list[str], Field(min_length=1)]
    other: dict[str, Recipes] = {}

    def recipes(self, version: str) -> Recipes:
        """Return the recipes of one version."""
        return self.other.get(version, self)


class Image(_Strict):
    """One OCI image: a layer of Debian packages of a suite (when there are any) below a layer with our files.

    `versions` are those of programs in it that are not of the version that its tag says.
    """

    tags: Literal["kubernetes"] | dict[str, str]
    versions: dict[str, str] = {}
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


AnyImage = LayeredImage | Image | ComposedImage
Added = Mapping[str, Mapping[str, AddedVersion]]  # the versions of a project by program


class Catalogue(_Strict):
    """All of it.

    network_plugins: images of network plugins, named as the plugin; cells that name no plugin get the first one's.
    add_ons: images of add-ons: in no cell whose variables do not name a version of them.
    """

    kubernetes: dict[str, KubernetesRelease]
    modules: dict[str, WrapperModule]
    programs: dict[str, Program]
    images: dict[str, AnyImage]
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

    def has(self, word: str) -> bool:
        """Tell whether there is the program or the image that a word names, in whatever version."""
        name = word.partition("@")[0]
        return name.removeprefix(IMAGE_PREFIX) in (self.images if name.startswith(IMAGE_PREFIX) else self.programs)

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

    def image(self, repository: str) -> AnyImage:
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

    def versions_of(self, name: str) -> tuple[str, ...]:
        """Return the versions of a program, or of Kubernetes as such."""
        return tuple(self.kubernetes) if name == KUBERNETES else self.versions(name)

    def of_minor(self, name: str, version: str) -> str | None:
        """Return the newest version of a program, or of Kubernetes, of the minor that a version is of."""
        same = [known for known in self.versions_of(name) if minor_of(known) == minor_of(version)]
        return max(same, key=numbers, default=None)

    def shape_of(self, name: str) -> WrapperModule | None:
        """Return the module that a program, or Kubernetes, is built from; None where the sources are vmatrix's own."""
        return self.modules.get(name if name == KUBERNETES else self.programs[name].gomod.module)

    def near(self, name: str, version: str) -> Recipes:
        """Return the recipes of the newest patch of a version's minor. Raises KeyError where there is none."""
        program = self.programs[name]
        return program.recipes(self.of_minor(name, version) or "")

    def go_modules(self, name: str, version: str) -> dict[str, str]:
        """Return the versions of the Go modules that a version of a program, or of Kubernetes, is built from."""
        module = KUBERNETES if name == KUBERNETES else self.near(name, version).gomod.module
        return self.modules[module].sources(version)

    def program_in(self, repository: str) -> str:
        """Return the program that an image is of; "" of one with Debian packages alone, or without such an image."""
        image = self.images.get(repository)
        return next((file.partition("/")[0] for file in image.files.values()), "") if image is not None else ""

    def inside(self, repository: str, tag: str, kubernetes: str, added: Added) -> str | None:
        """Return the version of the program in an image that a Kubernetes version asks for; None where there is none.

        A tag that the catalogue does not have is of the same Debian packages, of vmatrix's own program, of a program of
        that Kubernetes, or of a program's version that the project adds.
        """
        image, program = self.images[repository], self.program_in(repository)
        if isinstance(image.tags, dict) and tag in image.tags:
            return image.tags[tag]
        if not program:
            return ""
        if self.shape_of(program) is None:
            return self.versions(program)[0]
        if self.programs[program].versions == KUBERNETES:
            return kubernetes
        known = (*self.versions(program), *added.get(program, ()))
        return next((version for version in known if version == tag.removeprefix("v").partition("-")[0]), None)

    def names(self) -> tuple[str, ...]:
        """Return every artifact's name, programs first."""
        return (*self.programs, *self.layers(), *(IMAGE_PREFIX + repository for repository in self.images))


def load(path: Path = CATALOGUE) -> Catalogue:
    """Return a catalogue with the versions that the project adds, if this process works on one.

    Raises:
        BadInput: one of both files has mistakes; of the project's, all of them with their lines.
    """
    document, problems = layers.read(anywhere() / MATRIX, ADDED)
    versions = _checked(packaged(path), document, problems)
    return amended(packaged(path), versions, document) if versions else packaged(path)


def check(file: Path, text: str) -> None:
    """Check what is about to become a project's file of added versions. Raises BadInput as `load`."""
    _checked(packaged(), *lines.parse(file, text))


def _checked(catalogue: Catalogue, document: Document, problems: list[Problem]) -> Added:
    parsed, wrong = validate(document, FILES[ADDED])
    if problems or parsed is None:
        raise refuse(problems or wrong)
    versions: Added = dict(parsed)["artifacts"]
    if findings := list(mistakes(catalogue, versions)):
        raise refuse([document.problem(at, mistake) for at, mistake in findings])
    return versions


@cache
def packaged(path: Path = CATALOGUE) -> Catalogue:
    """Read and validate a catalogue. Raises BadInput when it does not fit the schema."""
    try:
        return Catalogue.model_validate(yaml.load(path.read_text(encoding="utf-8"), LOADER))  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValidationError) as error:
        raise BadInput(f"{path.name} is not a valid catalogue", detail=str(error), paths=[path]) from error


def mistakes(catalogue: Catalogue, added: Added) -> Iterator[Finding]:
    """Find what is wrong with versions that a project adds to a catalogue."""
    names = (KUBERNETES, *(name for name in catalogue.programs if catalogue.shape_of(name) is not None))
    for name, versions in added.items():
        if name not in names:
            yield ("artifacts", name), unknown("program", name, names)
            continue
        for version, entry in versions.items():
            at = ("artifacts", name, version)
            if catalogue.of_minor(name, version) is None:
                minors = ", ".join(dict.fromkeys(map(minor_of, catalogue.versions_of(name))))
                mistake = f"{version} is not a patch version of a minor that vmatrix has of {name}: {minors}"
                yield at, f"{mistake}; correct it, or update vmatrix for another minor"
                continue
            yield from ((((*at, *inner), mistake)) for inner, mistake in _unfit(catalogue, name, version, entry, added))


def _unfit(catalogue: Catalogue, name: str, version: str, entry: AddedVersion, added: Added) -> Iterator[Finding]:
    """Find what of one entry does not fit its program."""
    if name == KUBERNETES:
        yield from _unfit_release(catalogue, version, entry, added)
    elif entry.etcd is not None or entry.images:
        field = "images" if entry.etcd is None else "etcd"
        yield (field,), f"only versions of {KUBERNETES} have `{field}`; remove it"
    if name != KUBERNETES and catalogue.programs[name].versions == KUBERNETES:
        if entry.sums:
            yield ("sums",), f"{name} is built with all of Kubernetes: move this to `{KUBERNETES}`"
        if version not in catalogue.kubernetes and version not in added.get(KUBERNETES, {}):
            yield (), f"there is no Kubernetes {version}; add it to `{KUBERNETES}`, too"
    modules = catalogue.go_modules(name, version)
    if entry.sums and set(entry.sums) != set(modules):
        yield (
            ("sums",),
            f"{name} is built of {' and '.join(modules)}: give the checksum of each, and of no other module",
        )
    if entry.url is not None:
        yield from _unfit_members(catalogue, name, version, entry)


def _unfit_members(catalogue: Catalogue, name: str, version: str, entry: AddedVersion) -> Iterator[Finding]:
    if name == KUBERNETES:
        yield ("url",), "Kubernetes is several programs; give each its address by its own name, such as kubelet"
        return
    shape = catalogue.near(name, version)
    files = shape.gomod.files
    if set(entry.members) - set(files):
        yield ("members",), f"{name} has the files {', '.join(files)}; name these, and no others"
    elif entry.members and set(files) - set(entry.members):
        yield ("members",), f"say where {', '.join(sorted(set(files) - set(entry.members)))} is in the archive"
    elif not entry.members and files != (name,) and (shape.release is None or not shape.release.members):
        yield ("url",), f"{name} has the files {', '.join(files)}; say under `members` where they are in the archive"


def _unfit_release(catalogue: Catalogue, version: str, entry: AddedVersion, added: Added) -> Iterator[Finding]:
    """Find what a Kubernetes version is said to come with, and nothing provides."""
    release = catalogue.kubernetes[str(catalogue.of_minor(KUBERNETES, version))]
    etcd = entry.etcd or release.etcd
    if etcd not in catalogue.versions("etcd") and etcd not in added.get("etcd", {}):
        yield ("etcd",), f"nothing provides etcd {etcd}; add it to `etcd` and `etcdutl` of this file"
    for image, tag in entry.images.items():
        if image not in release.images:
            yield ("images", image), unknown("image", image, release.images)
        elif catalogue.inside(image, tag, version, added) is None:
            program = catalogue.program_in(image)
            yield ("images", image), f"nothing provides {image}:{tag}; add the version to `{program}` of this file"


def amended(catalogue: Catalogue, added: Added, document: Document) -> Catalogue:
    """Return a catalogue with versions that fit it; `document` says where each is."""
    programs, images, releases = dict(catalogue.programs), dict(catalogue.images), dict(catalogue.kubernetes)

    def add(name: str, version: str, entry: AddedVersion, field: str) -> None:
        program, shape = programs[name], catalogue.near(name, version)
        file, line = document.place_of(("artifacts", field, version))
        where = f"{file}:{line}: artifacts.{field}.{version}"
        recipes = Recipes(
            gomod=shape.gomod, release=shape.release, pinned=_pinned(shape, entry), sums=entry.sums, where=where
        )
        known = program.versions
        versions = known if isinstance(known, str) else list(_ordered(known, version))
        programs[name] = program.model_copy(update={"versions": versions, "other": {**program.other, version: recipes}})

    for name in (KUBERNETES, *(name for name in added if name != KUBERNETES)):
        for version, entry in added.get(name, {}).items():
            if name != KUBERNETES:
                add(name, version, entry, name)
                _tag(images, catalogue, name, version)
                continue
            base = catalogue.kubernetes[str(catalogue.of_minor(name, version))]
            tags = {**base.images, **entry.images}
            order = _ordered(releases, version)
            releases[version] = KubernetesRelease(etcd=entry.etcd or base.etcd, images=tags)
            releases = {each: releases[each] for each in order}
            for program in (each for each, known in catalogue.programs.items() if known.versions == KUBERNETES):
                add(program, version, entry, name)
            for image, tag in tags.items():
                inside = catalogue.inside(image, tag, version, added)
                images[image] = _tagged(images[image], tag, inside or "")
    return catalogue.model_copy(update={"kubernetes": releases, "programs": programs, "images": images})


def _pinned(shape: Recipes, entry: AddedVersion) -> ReleaseRecipe | None:
    if entry.url is None:
        return None
    members = entry.members or (shape.release.members if shape.release is not None else {})
    return ReleaseRecipe(base="", url=entry.url, checksum_url="", members=members, checksum=entry.checksum or "")


def _ordered(known: Mapping[str, object] | list[str], version: str) -> tuple[str, ...]:
    """Return versions with another one, newest first but for the first, which what names no version gets."""
    first, *others = known
    return tuple(dict.fromkeys((first, *sorted({*others, version}, key=numbers, reverse=True))))


def _tag(images: dict[str, AnyImage], catalogue: Catalogue, program: str, version: str) -> None:
    """Add the tag of a program's version to its image: that of the nearest version, with this one in it."""
    near = catalogue.of_minor(program, version)
    for name, image in catalogue.images.items():
        if catalogue.program_in(name) == program and isinstance(image.tags, dict):
            for tag, inside in image.tags.items():
                if inside == near and near in tag:
                    images[name] = _tagged(images[name], tag.replace(near, version), version)
                    break


def _tagged(image: AnyImage, tag: str, version: str) -> AnyImage:
    tags = image.tags
    known = tags if not isinstance(tags, dict) or tag in tags else {**tags, tag: version}
    return image.model_copy(update={"tags": known})


def numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers that can be compared."""
    return tuple(int(part) for part in version.split("."))


def minor_of(version: str) -> str:
    """Return the minor of a version: 1.36 of 1.36.3."""
    return ".".join(version.split(".")[:2])


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
