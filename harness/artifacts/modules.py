"""Wrapper modules: the go.mod, go.sum and tools.go that pin what a build of one upstream version reads.

A version of Kubernetes cannot be required plainly: its own go.mod names its staging repositories at v0.0.0, which only
means something inside its source tree. The wrapper replaces each of them by the release that was cut with it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness import proc
from harness.artifacts import gocache, toolchain
from harness.artifacts.catalogue import PROGRAMS, Catalogue, WrapperModule, module_dir, own_path
from harness.artifacts.recipe import LIMITS, ArtifactLimits
from harness.errors import BadInput


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
        CommandFailed: Go could not resolve the requirements.
    """
    if module not in catalogue.modules:
        known = ", ".join(catalogue.modules)
        raise BadInput(f"unknown wrapper module `{module}` (known: {known})")
    recipe = catalogue.modules[module]
    folder = target or module_dir(module, version)
    upstream = _download(recipe, version, limits, part="GoMod")
    go_line = _one(r"^go (\S+)", upstream.read_text(encoding="utf-8"))
    go = toolchain.find(go_line, limits)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.mod").write_text(_go_mod(module, version, recipe, upstream, go_line), encoding="utf-8")
    if recipe.program:
        (folder / "main.go").unlink(missing_ok=True)
        (folder / "main.go").symlink_to(os.path.relpath(PROGRAMS / recipe.program, folder))
    (folder / "tools.go").unlink(missing_ok=True)
    if packages := _foreign_packages(catalogue, module):
        (folder / "tools.go").write_text(_tools_go(packages), encoding="utf-8")
    (folder / "go.sum").unlink(missing_ok=True)
    if recipe.sums:
        sums = _download(recipe, version, limits, part="Dir") / "go.sum"
        (folder / "go.sum").write_text(sums.read_text(encoding="utf-8"), encoding="utf-8")
    with gocache.building():
        _complete(go, recipe, folder, go_line, limits)
    return folder


def _complete(go: toolchain.Go, recipe: WrapperModule, folder: Path, go_line: str, limits: ArtifactLimits) -> None:
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


def sources(recipe: WrapperModule, version: str) -> str:
    """Return the module that has the sources of the first required one, as PATH@VERSION."""
    return recipe.fork.format(version=version) if recipe.fork else f"{recipe.requires[0]}@v{version}"


def _download(recipe: WrapperModule, version: str, limits: ArtifactLimits, *, part: str) -> Path:
    """Download the upstream module; return where a part of it lies: its go.mod (GoMod), or its files (Dir)."""
    module = sources(recipe, version)
    try:
        return Path(toolchain.find("1.21", limits).download(module, **_unlisted(recipe))[part])
    except proc.CommandFailed as error:
        raise BadInput(
            f"the Go module proxy has no {module.replace('@', ' ')}",
            hint="check the version; GOPROXY names the proxy",
            detail=error.done.stdout or error.detail,
        ) from error


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
        text += f"\nreplace {recipe.requires[0]} => {sources(recipe, version).replace('@', ' ')}\n"
    if recipe.replaces:
        text += "".join(f"\n{line}\n" for line in substitutions(upstream.read_text(encoding="utf-8")))
    return text


def substitutions(go_mod: str) -> tuple[str, ...]:
    """Return what a go.mod excludes and replaces by other modules, a directive each; folders are its own affair."""
    bare = re.sub(r"[ \t]*//.*", "", go_mod)
    found = re.findall(r"^(replace|exclude)\s+([^\s(].*)$", bare, re.MULTILINE)
    for verb, block in re.findall(r"^(replace|exclude)\s*\(([^)]*)\)", bare, re.MULTILINE):
        found += [(verb, line.strip()) for line in block.splitlines() if line.strip()]
    return tuple(f"{verb} {said}" for verb, said in found if not re.search(r"=>\s*\.", said))


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
    found = re.search(pattern, text, re.MULTILINE)
    return found.group(1) if found else "1.21"
