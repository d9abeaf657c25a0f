"""Cache of artifacts: make each at most once, whole or not at all; prune what the catalogue no longer declares.

Layout: `<root>/<name>/<version>/<source>-<recipe hash>/` with `artifact.json` and `files/`; `current` beside it
names the one that was asked for last, which is what a mirror serves.

Pruning keeps every recipe of a declared version, from whichever source; what `current` names, because a mirror may
serve it; and whatever another process works on. All else is a former recipe's result, or a build that was killed.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from harness import paths
from harness.artifacts import builds, download
from harness.artifacts import catalogue as entries
from harness.artifacts.builds import Meter
from harness.artifacts.catalogue import IMAGE_PREFIX, LAYER_PREFIX, Catalogue, LayeredImage
from harness.artifacts.download import Download
from harness.artifacts.gomod import Build, GeneratedModule, together
from harness.artifacts.images import Assembly
from harness.artifacts.own.image import DebianLayer, SiteLayer, Stack
from harness.artifacts.recipe import (
    LIMITS,
    RECORD,
    ArtifactLimits,
    ArtifactPhase,
    Event,
    Progress,
    Recipe,
    Ref,
    Source,
    inputs_of,
    key,
    silent,
    ticking,
)
from harness.errors import BadInput, HarnessBug, InfraError
from harness.files import LOCK, TEMPORARY, hold, if_unlocked, sha256_of, working

FILES = "files"
Notes = Mapping[str, Any]
CURRENT = "current"


@dataclass(frozen=True)
class Artifact:
    """A finished artifact: where its files are, and what is known about how it came about."""

    ref: Ref
    source: str
    directory: Path
    facts: Mapping[str, Any]

    @property
    def files(self) -> Mapping[str, Path]:
        """Return its files by name."""
        return {name: self.directory / FILES / name for name in self.facts["files"]}

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(int(file["size"]) for file in self.facts["files"].values())

    def file(self, name: str) -> Path:
        """Return one file's path. Raises BadInput when the artifact has no such file."""
        if name not in self.facts["files"]:
            raise BadInput(f"{self.ref} has no file `{name}` (it has {', '.join(self.facts['files'])})")
        return self.directory / FILES / name


@dataclass(frozen=True)
class Store:
    """Obtains artifacts.

    Args:
        root: the cache; by default `artifacts` below the cache directory.
        source: where from; AUTO decides by itself and prefers what is cached already.
        bases: mirrors of release sites (base URL of the catalogue -> base URL to use).
        limits: how long the steps may take.
    """

    root: Path = field(default_factory=lambda: paths.cache_dir() / "artifacts")
    source: Source = Source.AUTO
    catalogue: Catalogue = field(default_factory=entries.load)
    bases: Mapping[str, str] = field(default_factory=dict)
    limits: ArtifactLimits = LIMITS

    def obtain(self, name: str, version: str, progress: Progress = silent) -> Artifact:
        """Return an artifact, making it first when it is not cached.

        Raises:
            BadInput: not in the catalogue.  InfraError: it could not be made; nothing of it stays behind.
        """
        ref = Ref(name, version)
        recipe = self.recipe(ref)
        artifact = self._read(ref, recipe)
        if artifact is None:
            self.ensure(inputs_of(recipe), progress)
            artifact = self._make(ref, recipe, progress)
        else:
            progress(Event(ref, ArtifactPhase.CACHED, recipe.source, 0.0, 0.0))
        self._point(artifact)
        return artifact

    def ensure(self, refs: Iterable[Ref], progress: Progress = silent) -> dict[Ref, Artifact]:
        """Obtain several artifacts; what is missing is made side by side (see `builds`)."""
        distinct = tuple(dict.fromkeys(refs))
        builds.make_missing(self, distinct, progress)
        return {ref: self.obtain(ref.name, ref.version, progress) for ref in distinct}

    def lacking(self, refs: Iterable[Ref]) -> dict[Ref, Recipe]:
        """Return what is not cached of artifacts and of what they are made of, each with how it would be made."""
        recipes: dict[Ref, Recipe] = {}
        for ref in dict.fromkeys(refs):
            recipe = self.recipe(ref)
            if self._read(ref, recipe) is None:
                recipes |= {**self.lacking(inputs_of(recipe)), ref: recipe}
        return recipes

    def cached(self, ref: Ref) -> Artifact | None:
        """Return an artifact when it is cached, from whichever source; make nothing, ask no site."""
        return self._read(ref, self._at_hand(ref))

    def recipe(self, ref: Ref) -> Recipe:
        """Decide how an artifact comes: a cached one first, then release sites if they answer, then a build."""
        recipes = self._recipes(ref, self.recipe)
        cached = next((recipe for recipe in recipes if self._read(ref, recipe) is not None), None)
        return cached or recipes[-1 if len(recipes) > 1 and not download.reachable() else 0]

    def refuse_absent(self, refs: Iterable[Ref]) -> None:
        """Refuse versions that a project adds, and whose source says that it does not have them; make nothing.

        Nothing is asked about what is cached. A source that does not answer says nothing.

        Raises:
            BadInput: what was asked for, and where.
        """
        every = dict.fromkeys(inner for ref in dict.fromkeys(refs) for inner in (ref, *inputs_of(self._at_hand(ref))))
        asked: set[str] = set()
        for ref in every:
            program = self.catalogue.programs.get(ref.name)
            where = program.recipes(ref.version).where if program is not None else ""
            if not where or where in asked or self.cached(ref) is not None:
                continue
            recipe = self.recipe(ref)
            if isinstance(recipe, Download) and recipe.where:
                recipe.refuse_absent()
            elif isinstance(recipe, Build) and recipe.generated is not None:
                recipe.generated.refuse_absent(self.limits)
                asked.add(where)

    def keys(self, ref: Ref) -> frozenset[str]:
        """Return every key under which a version may be kept, from whichever source; ask no site."""
        stores = [replace(self, source=source) for source in Source]
        return frozenset(key(recipe) for store in stores for recipe in store._recipes(ref, store._at_hand))

    def _at_hand(self, ref: Ref) -> Recipe:
        """Decide as `recipe` does, but without asking any site."""
        recipes = self._recipes(ref, self._at_hand)
        return next((recipe for recipe in recipes if self._read(ref, recipe) is not None), recipes[0])

    def _recipes(self, ref: Ref, choose: Callable[[Ref], Recipe]) -> Sequence[Recipe]:
        """Return the ways to make an artifact that the chosen source allows, best first, never none.

        `choose` decides how the programs in an image come.
        """
        self.catalogue.require(ref.name, ref.version)
        if ref.name.startswith(LAYER_PREFIX):
            return (self._layer(ref, choose),)
        if ref.name.startswith(IMAGE_PREFIX):
            return (self._image(ref, choose),)
        recipes = self.catalogue.program(ref.name).recipes(ref.version)
        if recipes.pinned is not None:
            return (Download(ref, recipes.pinned, where=recipes.where),)
        module, generated = recipes.gomod.module, None
        if recipes.sums:
            generated = GeneratedModule(self.catalogue, module, ref.version, recipes.sums, recipes.where)
        build = Build(ref, recipes.gomod, self.limits, self.catalogue.shared(module), generated)
        if recipes.release is None or self.source is Source.GOMOD:
            return (build,)
        fetch = Download(ref, recipes.release, self.bases)
        return (fetch,) if self.source is Source.RELEASE else (fetch, build)

    def _image(self, ref: Ref, choose: Callable[[Ref], Recipe]) -> Assembly | Stack:
        repository = ref.name.removeprefix(IMAGE_PREFIX)
        image = self.catalogue.image(repository)
        if isinstance(image, LayeredImage):
            layers = [Ref(name, version) for name, version in self.catalogue.layers().items()]
            below = f"{LAYER_PREFIX}{repository}/"
            return Stack(ref, image, self._inputs([layer for layer in layers if layer.name.startswith(below)], choose))
        version = self.catalogue.tags(repository)[ref.version]
        names = dict.fromkeys(source.partition("/")[0] for source in image.files.values())
        programs = [Ref(name, image.versions.get(name, version)) for name in names]
        return Assembly(ref, image, self._inputs(programs, choose), self.limits)

    def _layer(self, ref: Ref, choose: Callable[[Ref], Recipe]) -> DebianLayer | SiteLayer:
        repository, _, which = ref.name.removeprefix(LAYER_PREFIX).rpartition("/")
        image = self.catalogue.image(repository)
        if not isinstance(image, LayeredImage):
            raise HarnessBug(f"{ref} is a layer of an image that has none")
        if which == "debian":
            return DebianLayer(ref, image, self.limits)
        below = Ref(f"{LAYER_PREFIX}{repository}/debian", image.suite)
        return SiteLayer(ref, image, self._inputs([below], choose), self.limits)

    def _inputs(self, refs: Iterable[Ref], choose: Callable[[Ref], Recipe]) -> dict[Ref, tuple[str, Path]]:
        """Return the cache key and the folder of what an image is made of."""
        recipes = {ref: choose(ref) for ref in refs}
        return {ref: (key(recipe), self._directory(ref, recipe) / FILES) for ref, recipe in recipes.items()}

    def _directory(self, ref: Ref, recipe: Recipe) -> Path:
        return self.root / ref.name / ref.version / key(recipe)

    def _read(self, ref: Ref, recipe: Recipe) -> Artifact | None:
        """Return what is cached of a recipe, when all its files are there in their full size."""
        directory = self._directory(ref, recipe)
        try:
            facts = json.loads((directory / RECORD).read_text(encoding="utf-8"))
            for name, file in facts["files"].items():
                if (directory / FILES / name).stat().st_size != file["size"]:
                    return None
        except (FileNotFoundError, ValueError, KeyError):
            return None
        return Artifact(ref, recipe.source, directory, facts)

    def _make(self, ref: Ref, recipe: Recipe, progress: Progress) -> Artifact:
        builds.make_one(self, ref, recipe, progress)
        artifact = self._read(ref, recipe)
        if artifact is None:
            raise HarnessBug(f"{ref} was made and is not there")
        return artifact

    def make_all(self, recipes: Mapping[Ref, Recipe], label: Ref, seconds: float, progress: Progress) -> None:
        """Make artifacts by one piece of work: one of any kind, or builds that are alike; none that is there by then.

        Args:
            label, seconds: what progress calls the work, and how long it is expected to take.

        Raises:
            as the recipe's `make`; nothing of any of them stays behind.
        """
        source = next(iter(recipes.values())).source
        with ExitStack() as held:
            for ref, recipe in sorted(recipes.items()):  # in one order: two processes never wait for each other
                directory, event = self._directory(ref, recipe), Event(label, ArtifactPhase.WAITING, source, 0, seconds)
                held.enter_context(hold(directory.parent, directory.name, partial(progress, event)))
            missing = {ref: recipe for ref, recipe in recipes.items() if self._read(ref, recipe) is None}
            if not missing:  # another process made them while this one waited
                return
            homes = {ref: self._directory(ref, recipe) for ref, recipe in missing.items()}
            works = {ref: held.enter_context(working(home.parent, home.name)) for ref, home in homes.items()}
            meter = Meter()
            with ticking(progress, label, source, seconds, meter.look):
                self._work(label, missing, works, lambda: _notes(label, seconds, meter.look()))
                for ref, home in homes.items():
                    if home.exists():  # damaged: its record or one of its files does not fit
                        shutil.rmtree(home)
                    works[ref].rename(home)

    def _work(
        self, label: Ref, recipes: Mapping[Ref, Recipe], works: Mapping[Ref, Path], taken: Callable[[], Notes]
    ) -> None:
        """Make the files of artifacts and their records, each in a folder of its own. `taken`: what it took."""
        source = next(iter(recipes.values())).source
        log = self.root / ".logs" / f"{label.name.replace('/', '_')}-{label.version}-{source}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("", encoding="utf-8")
        began = time.monotonic()
        try:
            for work in works.values():
                (work / FILES).mkdir(parents=True)
            notes = _made(recipes, {ref: work / FILES for ref, work in works.items()}, log)
            notes, seconds = {**notes, **taken()}, round(time.monotonic() - began, 1)
            for ref, work in works.items():
                facts = {"name": ref.name, "version": ref.version, "source": source, "seconds": seconds, **notes}
                facts["files"] = _inventory(work / FILES)
                (work / RECORD).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise InfraError(f"{label} could not be written: {error}", hint="df -h", paths=[self.root]) from error

    def _point(self, artifact: Artifact) -> None:
        """Make `current` name this artifact's folder."""
        link = artifact.directory.parent / CURRENT
        if link.is_symlink() and os.readlink(link) == artifact.directory.name:
            return
        temporary = link.with_name(f".{CURRENT}-{os.getpid()}")
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(artifact.directory.name)
        temporary.replace(link)


def _made(recipes: Mapping[Ref, Recipe], targets: Mapping[Ref, Path], log: Path) -> Mapping[str, Any]:
    """Make artifacts in empty folders; return the facts that hold for all of them."""
    builds = [recipe for recipe in recipes.values() if isinstance(recipe, Build)]
    if len(builds) == len(recipes):
        return together(builds, targets, log)
    ((ref, recipe),) = recipes.items()
    return recipe.make(targets[ref], log)


def _notes(label: Ref, expected: float, used: float | None) -> Notes:
    """Return what later estimates are taken from: processor seconds of some work, expected and used."""
    known = {"of": str(label), "expected": round(expected, 1)}
    return {} if used is None else {"processor": {**known, "used": round(used, 1)}}


def _inventory(folder: Path) -> dict[str, dict[str, Any]]:
    """Return size (bytes) and SHA-256 of every file below a folder."""
    return {
        str(path.relative_to(folder)): {"size": path.stat().st_size, "sha256": sha256_of(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@dataclass(frozen=True)
class StaleArtifact:
    """A folder of the cache that nothing declares, and its size in bytes."""

    ref: Ref
    directory: Path
    size: int


def stale_artifacts(store: Store) -> tuple[StaleArtifact, ...]:
    """Return what nothing declares and nobody works on, in the order of the paths; asks no site, removes nothing."""
    declared = {Ref(name, version) for name in store.catalogue.names() for version in store.catalogue.versions(name)}
    stale = []
    for directory in _folders(store.root):
        ref = Ref(str(directory.parent.parent.relative_to(store.root)), directory.parent.name)
        if ref in declared and _kept(store, ref, directory):
            continue
        with if_unlocked(_lock(directory)) as free:
            if free:
                size = sum(path.lstat().st_size for path in directory.rglob("*"))
                stale.append(StaleArtifact(ref, directory, size))
    return tuple(stale)


def remove_stale(folder: StaleArtifact) -> bool:
    """Remove a stale folder; tell whether it was done, or another process has it."""
    directory = folder.directory
    with if_unlocked(_lock(directory)) as free:
        if not free:
            return False
        if not directory.name.startswith(TEMPORARY):  # at one stroke: nobody finds half of it
            directory = directory.rename(directory.with_name(f"{TEMPORARY}{directory.name}-{os.getpid()}"))
        shutil.rmtree(directory)
    link = directory.parent / CURRENT
    if link.is_symlink() and not link.exists():
        link.unlink()
    return True


def _folders(root: Path) -> Iterator[Path]:
    """Yield the finished and the half-done folders of the cache; both lie beside the locks of a version."""
    versions = sorted({lock.parent for lock in root.glob(f"**/{LOCK}*")})
    for version in versions:
        finished = {record.parent for record in version.glob(f"*/{RECORD}") if not record.parent.is_symlink()}
        yield from sorted(finished | set(version.glob(f"{TEMPORARY}*")))


def _kept(store: Store, ref: Ref, directory: Path) -> bool:
    link = directory.parent / CURRENT
    return directory.name in store.keys(ref) or (link.is_symlink() and os.readlink(link) == directory.name)


def _lock(directory: Path) -> Path:
    """Return the lock of the recipe that a folder is, or was to become, the result of."""
    name = directory.name
    key = name.removeprefix(TEMPORARY).rpartition("-")[0] if name.startswith(TEMPORARY) else name
    return directory.with_name(f"{LOCK}{key}")
