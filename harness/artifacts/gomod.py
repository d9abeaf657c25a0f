"""The source `gomod`: programs built from the Go module proxy by way of committed wrapper modules.

A wrapper module is the go.mod, go.sum and tools.go that pin what a build of one upstream version reads. A version of
Kubernetes cannot be required plainly: its own go.mod names its staging repositories at v0.0.0, which only means
something inside its source tree. The wrapper replaces each of them by the release that was cut with it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness import paths, proc
from harness.artifacts import go_toolchain
from harness.artifacts.catalogue import (
    PROGRAMS,
    Catalogue,
    GoRecipe,
    WrapperModule,
    architecture,
    fill,
    module_dir,
    own_path,
)
from harness.artifacts.recipe import LIMITS, ArtifactLimits, Ref, Source
from harness.errors import BadInput, InfraError, InfraRetriable
from harness.files import hold, working

ASK_SECONDS = 30.0  # pkg-config reads one file
GENERATED = "modules"  # in the cache: wrapper modules of versions that projects add
KEY_DIGITS = 12
LEAVE_OUT = "the sources lack a part of this version: remove it, or choose another one"
SHARE = 15  # looks at a version, each a small file, in the time for a module and its requirements
# What Go says of a module that its proxy answered for: it has no such version.
ABSENT = re.compile(r"\b(404|410|403)\b|not found|no matching versions|unknown revision|no such file or directory")


@dataclass(frozen=True)
class GeneratedModule:
    """The wrapper module of a version that a project adds, which is made in the cache when it is needed first.

    sums: the checksums of what it requires.  where: the place in the project's file.
    """

    catalogue: Catalogue
    name: str
    version: str
    sums: Mapping[str, str]
    where: str

    def ingredients(self) -> Mapping[str, Any]:
        """Return all that it is made from."""
        recipe = self.catalogue.modules[self.name]
        program = (PROGRAMS / recipe.program).read_text(encoding="utf-8") if recipe.program else ""
        packages = _foreign_packages(self.catalogue, self.name)
        flags = recipe.model_dump(exclude={"seconds"})
        return {"recipe": flags, "version": self.version, "sums": self.sums, "program": program, "packages": packages}

    @property
    def folder(self) -> Path:
        """Return where it is, or will be."""
        text = json.dumps(self.ingredients(), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]
        return paths.cache_dir() / GENERATED / f"{self.name}-{self.version}-{digest}"

    def obtain(self, limits: ArtifactLimits = LIMITS) -> Path:
        """Make it if it is not there; return the folder.

        Raises:
            BadInput: the module proxy does not have the version, or has it with another checksum.
            InfraError: the module proxy does not answer, or lacks something that the version requires.
        """
        folder = self.folder
        with hold(folder.parent, folder.name, lambda: None), working(folder.parent, folder.name) as work:
            if not folder.is_dir():
                self._verify(limits)
                with proc.failing_as_infra(
                    f"{self.where}: Go cannot resolve what {self.name} requires", hint=LEAVE_OUT
                ):
                    generate(self.catalogue, self.name, self.version, work, limits)
                work.rename(folder)
        return folder

    def refuse_absent(self, limits: ArtifactLimits = LIMITS) -> None:
        """Refuse a version that the module proxy says it does not have; one that does not answer says nothing.

        Raises:
            BadInput: what was asked for, and where.
        """
        if self.folder.is_dir():
            return
        go = go_toolchain.find_go("1.21", limits)
        env = {**go.env(), "GOFLAGS": "-mod=mod", **_unlisted(self.catalogue.modules[self.name])}
        for path, version in self.catalogue.modules[self.name].sources(self.version).items():
            argv: list[str | Path] = [go.path, "list", "-m", "-json", f"{path}@{version}"]
            try:
                done = proc.run(argv, cwd=Path("/"), env=env, timeout=limits.modules / SHARE, check=False)
            except proc.CommandFailed:
                return  # no answer in time
            if done.returncode != 0 and ABSENT.search(done.stderr):
                raise _absent(go, f"{path} {version}", done.stderr, self.where)

    def _verify(self, limits: ArtifactLimits) -> None:
        """Compare the checksums of what is required with those of the project."""
        recipe = self.catalogue.modules[self.name]
        for path, version in recipe.sources(self.version).items():
            checksum = _download(recipe, path, version, limits, where=self.where)["Sum"]
            if checksum != self.sums[path]:
                raise BadInput(
                    f"{self.where}.sums: {path} {version} has the checksum {checksum}, not {self.sums[path]}",
                    hint="if you trust the Go module proxy, write the checksum that it has",
                )


def sums_of(catalogue: Catalogue, name: str, version: str, limits: ArtifactLimits = LIMITS) -> dict[str, str]:
    """Return the checksums of the Go modules that a version of a program, or of Kubernetes, is built from.

    Raises:
        BadInput: the module proxy does not have one of them.  InfraRetriable: it does not answer.
    """
    modules = catalogue.go_modules(name, version)
    recipe = catalogue.shape_of(name)
    assert recipe is not None  # noqa: S101 - sources of vmatrix's own have no such modules
    return {path: _download(recipe, path, tag, limits)["Sum"] for path, tag in modules.items()}


@dataclass(frozen=True)
class Build:
    """One program of one version, built.

    shared: processor seconds for what all programs of its module share.  generated: its module, of a project's version.
    """

    ref: Ref
    recipe: GoRecipe
    limits: ArtifactLimits = LIMITS
    shared: float = 0.0
    generated: GeneratedModule | None = None

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
        """Return the wrapper module's folder. Raises BadInput when it ought to be there and is not."""
        if self.generated is not None:
            return self.generated.folder
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
        texts: Mapping[str, Any]
        if self.generated is not None:
            texts = self.generated.ingredients()
        else:
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
    if first.generated is not None:
        first.generated.obtain(first.limits)
    floor = re.search(r"^go (\S+)", (first.folder / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    go = go_toolchain.find_go(floor.group(1) if floor else "1.21", first.limits)
    first.require_c()
    hint = f"read the log; with internet access, try: vmatrix artifacts build --source release {first.ref}"
    with go_toolchain.building(), TemporaryDirectory(dir=targets[first.ref].parent) as temporary:
        made = Path(temporary) / "made"
        made.mkdir()
        env = {**go.env(cgo=first.recipe.cgo), "GOTMPDIR": temporary}
        argv = [*proc.ending_with_us(), *command(builds, made, go.path)]
        with proc.failing_as_infra(f"building {names} failed in {first.folder}", hint=hint):
            proc.run(argv, cwd=first.folder, env=env, timeout=sum(one.limits.build for one in builds), log=log)
        for build in builds:
            for file, package in build.recipe.packages.items():
                if not (made / _named(package)).exists():
                    message = f"building {build.ref} did not produce {file}: {package} is not a command"
                    raise InfraError(message, paths=[log])
                (made / _named(package)).rename(targets[build.ref] / file)
            _copy(build, targets[build.ref], go)
            _compile(build, targets[build.ref], go, log)
    go_toolchain.note_built(first.folder.name)
    return {"go": go.version}


def _copy(build: Build, target: Path, go: go_toolchain.Go) -> None:
    """Copy the files that a recipe takes as they are from the sources of its module."""
    for file, source in build.recipe.copies.items():
        package, _, name = source.rpartition("/")
        argv: list[str | Path] = [go.path, "list", "-mod=readonly", "-find", "-f", "{{.Dir}}", package]
        folder = proc.run(argv, cwd=build.folder, env=go.env(), timeout=build.limits.modules).stdout.strip()
        shutil.copyfile(Path(folder) / name, target / file)


def _compile(build: Build, target: Path, go: go_toolchain.Go, log: Path) -> None:
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
    """Return the name that Go gives a package's command: the last part of its path that is not a major version."""
    *_, before, last = ["", *package.split("/")]
    return before if re.fullmatch(r"v[0-9]+", last) else last


def generate(
    catalogue: Catalogue, module: str, version: str, target: Path | None = None, limits: ArtifactLimits = LIMITS
) -> Path:
    """Write the wrapper module of one upstream version and let Go complete it.

    Args:
        module: a name under `modules` in the catalogue.
        version: the upstream version without `v`.
        target: the folder to write to; by default the one in this package.

    Returns: the folder.

    Raises:
        BadInput: unknown module, or a version that the Go module proxy does not have.
        InfraRetriable: the module proxy does not answer.
        CommandFailed: Go could not resolve the requirements.
    """
    if module not in catalogue.modules:
        known = ", ".join(catalogue.modules)
        raise BadInput(f"unknown wrapper module `{module}` (known: {known})")
    recipe = catalogue.modules[module]
    folder = target or module_dir(module, version)
    first, *_ = recipe.sources(version).items()
    sources = _download(recipe, *first, limits)
    upstream = Path(sources["GoMod"])
    go_line = _one(r"^go (\S+)", upstream.read_text(encoding="utf-8"))
    go = go_toolchain.find_go(go_line, limits)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.mod").write_text(_go_mod(module, version, recipe, upstream, go_line), encoding="utf-8")
    if recipe.program:
        (folder / "main.go").unlink(missing_ok=True)
        if target is None:
            (folder / "main.go").symlink_to(os.path.relpath(PROGRAMS / recipe.program, folder))
        else:
            shutil.copyfile(PROGRAMS / recipe.program, folder / "main.go")
    (folder / "tools.go").unlink(missing_ok=True)
    if packages := _foreign_packages(catalogue, module):
        (folder / "tools.go").write_text(_tools_go(packages), encoding="utf-8")
    (folder / "go.sum").unlink(missing_ok=True)
    if recipe.sums:
        sums = (Path(sources["Dir"]) / "go.sum").read_text(encoding="utf-8")
        (folder / "go.sum").write_text(sums, encoding="utf-8")
    with go_toolchain.building():
        _complete(go, recipe, folder, go_line, limits)
    return folder


def _complete(go: go_toolchain.Go, recipe: WrapperModule, folder: Path, go_line: str, limits: ArtifactLimits) -> None:
    """Let Go write all that a module requires, and its checksums."""
    env = {**go.env(), **_unlisted(recipe)}
    for path, raised in recipe.raises.items():
        proc.run([go.path, "get", f"{path}@{raised}"], cwd=folder, env=env, timeout=limits.modules)
    for path in recipe.absent:
        empty = folder / _stand_in(path)
        empty.mkdir(parents=True, exist_ok=True)
        (empty / "go.mod").write_text(f"module {path}\n\ngo {go_line}\n", encoding="utf-8")
    env = {**env, "GOFLAGS": "-mod=mod"}
    regardless = ["-e"] if recipe.absent else []  # of what imports them
    proc.run([go.path, "mod", "tidy", *regardless], cwd=folder, env=env, timeout=limits.modules)


def _stand_in(path: str) -> str:
    """Return the folder of the empty module that stands for an absent one, relative to the wrapper's."""
    return f"absent/{path.replace('/', '_')}"


def _unlisted(recipe: WrapperModule) -> Mapping[str, str]:
    """Return what keeps Go from asking the checksum database for a fork, which the wrapper's go.sum pins."""
    return {"GONOSUMDB": recipe.fork.partition("@")[0]} if recipe.fork else {}


def _download(
    recipe: WrapperModule, path: str, version: str, limits: ArtifactLimits, *, where: str = ""
) -> Mapping[str, str]:
    """Download an upstream module; return where its parts lie (GoMod, Dir) and its checksum (Sum).

    Args:
        where: the place in a project's file that asks for it.
    """
    go = go_toolchain.find_go("1.21", limits)
    try:
        return go.download(f"{path}@{version}", **_unlisted(recipe))
    except proc.CommandFailed as error:
        output = error.done.stdout or error.detail
        if ABSENT.search(output):
            raise _absent(go, f"{path} {version}", output, where) from error
        raise InfraRetriable(
            f"the Go module proxy ({go.proxy()}) does not answer for {path} {version}",
            hint="GOPROXY names the proxy",
            detail=output,
        ) from error


def _absent(go: go_toolchain.Go, module: str, output: str, where: str) -> BadInput:
    asked = f"the Go module proxy ({go.proxy()}) has no {module}"
    hint = "correct or remove the version; `vmatrix artifacts newer` lists what there is; GOPROXY names the proxy"
    return BadInput(f"{where}: {asked}" if where else asked, hint=hint, detail=output)


def _go_mod(module: str, version: str, recipe: WrapperModule, upstream: Path, go_line: str) -> str:
    """Render a wrapper's go.mod; the indirect requirements are left to `go mod tidy`."""
    requires = "".join(f"\t{path} v{version}\n" for path in sorted(recipe.requires))
    text = f"module {own_path(module)}\n\ngo {go_line}\n\nrequire (\n{requires})\n"
    if recipe.staging:
        text += "\nreplace (\n"
        for path in staging_modules(upstream.read_text(encoding="utf-8")):
            text += f"\t{path} => {path} {staging_version(version)}\n"
        text += ")\n"
    for path in recipe.absent:
        text += f"\nreplace {path} => ./{_stand_in(path)}\n"
    if recipe.fork:
        path, tag = next(iter(recipe.sources(version).items()))
        text += f"\nreplace {recipe.requires[0]} => {path} {tag}\n"
    if recipe.replaces:
        text += "".join(f"\n{line}\n" for line in substitutions(upstream.read_text(encoding="utf-8")))
    return text


def substitutions(go_mod: str) -> tuple[str, ...]:
    """Return what a go.mod excludes and replaces by other modules, a directive each; folders are its own affair."""
    bare = re.sub(r"[ \t]*//.*", "", go_mod)
    directives = re.findall(r"^(replace|exclude)\s+([^\s(].*)$", bare, re.MULTILINE)
    for verb, block in re.findall(r"^(replace|exclude)\s*\(([^)]*)\)", bare, re.MULTILINE):
        directives += [(verb, line.strip()) for line in block.splitlines() if line.strip()]
    return tuple(f"{verb} {text}" for verb, text in directives if not re.search(r"=>\s*\.", text))


def staging_modules(go_mod: str) -> tuple[str, ...]:
    """Return the modules that a Kubernetes go.mod requires at the placeholder version v0.0.0, sorted."""
    return tuple(sorted(set(re.findall(r"^\s*(k8s\.io/\S+) v0\.0\.0\s*(?://.*)?$", go_mod, re.MULTILINE))))


def staging_version(version: str) -> str:
    """Return the version of the staging repositories that were cut with a Kubernetes version (1.36.3: v0.36.3)."""
    return "v0." + version.split(".", 1)[1]


def _foreign_packages(catalogue: Catalogue, module: str) -> list[str]:
    """Return the packages that are built from a module and are not its own."""
    recipes = (each.gomod for program in catalogue.programs.values() for each in (program, *program.other.values()))
    built = {package for recipe in recipes if recipe.module == module for package in recipe.packages.values()}
    return sorted(built - {own_path(module)})


def _tools_go(packages: Sequence[str]) -> str:
    """Render a file that imports packages, so that tidy keeps what they need."""
    imports = "".join(f'\t_ "{package}"\n' for package in packages)
    doc = "// Package tools names what is built from this module."
    return f"//go:build tools\n\n{doc}\npackage tools\n\nimport (\n{imports})\n"


def _one(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    return match.group(1) if match else "1.21"
