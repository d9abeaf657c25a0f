"""The source `gomod`: programs built from the Go module proxy by way of committed wrapper modules."""

from __future__ import annotations

import re
import shutil
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness import proc
from harness.artifacts import gocache, toolchain
from harness.artifacts.catalogue import GoRecipe, architecture, fill, module_dir
from harness.artifacts.recipe import LIMITS, ArtifactLimits, Ref, Source
from harness.errors import BadInput, InfraError

ASK_SECONDS = 30.0  # pkg-config reads one file


@dataclass(frozen=True)
class Build:
    """One program of one version, built. `shared`: processor seconds for what all programs of its module share."""

    ref: Ref
    recipe: GoRecipe
    limits: ArtifactLimits = LIMITS
    shared: float = 0.0

    @property
    def source(self) -> str:
        """Return the source's name."""
        return Source.GOMOD

    @property
    def seconds(self) -> float:
        """Return how many processor seconds the build takes, from the catalogue."""
        return self.recipe.seconds

    @property
    def folder(self) -> Path:
        """Return the wrapper module's folder. Raises BadInput when it was never generated."""
        folder = module_dir(self.recipe.module, self.ref.version)
        if not (folder / "go.mod").exists():
            raise BadInput(
                f"no wrapper module for {self.ref}",
                hint=f"vmatrix artifacts module {self.recipe.module} {self.ref.version}",
                paths=[folder],
            )
        return folder

    def ingredients(self) -> Mapping[str, Any]:
        """Return the flags and the wrapper module's text; the Go version is noted with the result instead, so that
        a new compiler does not throw away a whole cache."""
        files = sorted(path for path in self.folder.rglob("*") if path.is_file())
        texts = {str(path.relative_to(self.folder)): path.read_text(encoding="utf-8") for path in files}
        later = {
            name for name in ("libraries", "copies", "c_programs") if not getattr(self.recipe, name)
        }  # keys of before hold
        flags = self.recipe.model_dump(exclude={"seconds", *later})
        return {"flags": flags, "ldflags": self.ldflags(), "module": texts, "arch": architecture()}

    def ldflags(self) -> str:
        """Return the linker's flags: stripped, version stamped, and static when C is linked in."""
        stamps = [
            f"-X {name}={fill(value, self.ref.name, self.ref.version)}" for name, value in self.recipe.stamps.items()
        ]
        static = ["-linkmode external -extldflags -static"] if self.recipe.cgo else []
        return " ".join(["-s -w", *stamps, *static])

    @property
    def alike(self) -> Hashable:
        """Return what builds have in common that one command can do: the module, and all flags. Tests stand alone."""
        recipe = self.recipe
        alone = self.ref if recipe.test else None
        return (self.folder, recipe.cgo, tuple(recipe.tags), tuple(recipe.libraries), self.ldflags(), alone)

    def make(self, target: Path, log: Path) -> Mapping[str, Any]:
        """Build every package into `target`. Go's own work lies beside it, where a killed build is swept up."""
        return together([self], {self.ref: target}, log)

    def require_c(self) -> None:
        """Raise BadInput when a C compiler or a C library that the build needs is not installed."""
        if self.recipe.cgo and shutil.which("gcc") is None:
            raise BadInput(f"building {self.ref} needs a C compiler", hint="apt-get install --yes gcc libc6-dev")
        if self.recipe.libraries and shutil.which("pkg-config") is None:
            raise BadInput(f"building {self.ref} needs pkg-config", hint="apt-get install --yes pkg-config")
        for library, package in self.recipe.libraries.items():
            if proc.run(["pkg-config", "--exists", library], timeout=ASK_SECONDS, check=False).returncode != 0:
                raise BadInput(f"building {self.ref} needs {library}", hint=f"apt-get install --yes {package}")


def together(builds: Sequence[Build], targets: Mapping[Ref, Path], log: Path) -> Mapping[str, Any]:
    """Build programs that are alike by one command, so that one is linked while others compile; return the facts.

    Args:
        builds: at least one; all with the same `alike`.
        targets: an empty folder for each. Go's own work lies beside the first one.
    """
    first, names = builds[0], ", ".join(str(build.ref) for build in builds)
    floor = re.search(r"^go (\S+)", (first.folder / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    go = toolchain.find(floor.group(1) if floor else "1.21", first.limits)
    first.require_c()
    hint = f"read the log; with internet access, try: vmatrix artifacts build --source release {first.ref}"
    with gocache.building(), TemporaryDirectory(dir=targets[first.ref].parent) as temporary:
        made = Path(temporary) / "made"
        made.mkdir()
        env = {**go.env(cgo=first.recipe.cgo), "GOTMPDIR": temporary}
        argv = [*proc.ending_with_us(), *command(builds, made, go.path)]
        with proc.failing_as_infra(f"building {names} failed in {first.folder}", hint=hint):
            proc.run(argv, cwd=first.folder, env=env, timeout=sum(one.limits.build for one in builds), log=log)
        for build in builds:
            for file, package in build.recipe.packages.items():
                if not (made / _named(package)).exists():
                    said = f"building {build.ref} did not produce {file}: {package} is not a command"
                    raise InfraError(said, paths=[log])
                (made / _named(package)).rename(targets[build.ref] / file)
            _copy(build, targets[build.ref], go)
            _compile(build, targets[build.ref], go, log)
    gocache.learned(first.folder.name)
    return {"go": go.version}


def _copy(build: Build, target: Path, go: toolchain.Go) -> None:
    """Copy the files that a recipe takes as they are from the sources of its module."""
    for file, source in build.recipe.copies.items():
        package, _, name = source.rpartition("/")
        argv: list[str | Path] = [go.path, "list", "-mod=readonly", "-find", "-f", "{{.Dir}}", package]
        folder = proc.run(argv, cwd=build.folder, env=go.env(), timeout=build.limits.modules).stdout.strip()
        shutil.copyfile(Path(folder) / name, target / file)


def _compile(build: Build, target: Path, go: toolchain.Go, log: Path) -> None:
    """Compile a recipe's programs that are written in C, static and stripped."""
    for file, folder in build.recipe.c_programs.items():
        package = next(iter(build.recipe.packages.values()))
        argv: list[str | Path] = [go.path, "list", "-mod=readonly", "-find", "-f", "{{.Module.Dir}}", package]
        module = Path(proc.run(argv, cwd=build.folder, env=go.env(), timeout=build.limits.modules).stdout.strip())
        with proc.failing_as_infra(f"compiling {file} of {build.ref} failed", hint="read the log"):
            proc.run(c_command(module, folder, target / file), timeout=build.limits.build, log=log)


def c_command(module: Path, folder: str, output: Path) -> list[str | Path]:
    """Return the command that makes one program of all sources in a folder of a module."""
    flags = ["-std=c99", "-Os", "-static", "-s", f"-ffile-prefix-map={module}=."]
    return ["gcc", *flags, "-o", output, *sorted((module / folder).glob("*.c"))]


def command(builds: Sequence[Build], made: Path, go: Path | str = "go") -> list[str | Path]:
    """Return the command that builds all packages into a folder, each under its command's name.

    The linker strips debugging information; not to write it for every package saves a twentieth of the time and a
    quarter of Go's cache.
    """
    recipe, packages = builds[0].recipe, [package for build in builds for package in build.recipe.packages.values()]
    output = made / _named(packages[0]) if recipe.test else f"{made}/"
    verb = ["test", "-c", "-vet=off"] if recipe.test else ["build"]
    tags = [f"-tags={','.join(recipe.tags)}"] if recipe.tags else []
    flags = ["-mod=readonly", "-trimpath", "-gcflags=all=-dwarf=false", *tags, "-ldflags", builds[0].ldflags()]
    return [go, *verb, *flags, "-o", output, *packages]


def _named(package: str) -> str:
    """Return the name that Go gives a package's command: the last part of its path that is no major version."""
    *_, before, last = ["", *package.split("/")]
    return before if re.fullmatch(r"v[0-9]+", last) else last
