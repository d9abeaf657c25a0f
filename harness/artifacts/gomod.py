"""The source `gomod`: programs built from the Go module proxy by way of committed wrapper modules."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness import proc
from harness.artifacts import toolchain
from harness.artifacts.catalogue import GoRecipe, architecture, fill, module_dir
from harness.artifacts.recipe import LIMITS, ArtifactLimits, Ref, Source
from harness.errors import BadInput, InfraError

ASK_SECONDS = 30.0  # pkg-config reads one file


@dataclass(frozen=True)
class Build:
    """One program of one version, built."""

    ref: Ref
    recipe: GoRecipe
    limits: ArtifactLimits = LIMITS

    @property
    def source(self) -> str:
        """Return the source's name."""
        return Source.GOMOD

    @property
    def seconds(self) -> float:
        """Return how long the build takes cold on two cores, from the catalogue."""
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
        flags = self.recipe.model_dump(exclude={"seconds"} if self.recipe.libraries else {"seconds", "libraries"})
        return {"flags": flags, "ldflags": self.ldflags(), "module": texts, "arch": architecture()}

    def ldflags(self) -> str:
        """Return the linker's flags: stripped, version stamped, and static when C is linked in."""
        stamps = [
            f"-X {name}={fill(value, self.ref.name, self.ref.version)}" for name, value in self.recipe.stamps.items()
        ]
        static = ["-linkmode external -extldflags -static"] if self.recipe.cgo else []
        return " ".join(["-s -w", *stamps, *static])

    def argv(self, go: Path, package: str, output: Path) -> list[str | Path]:
        """Return the command that builds one package."""
        verb = ["test", "-c", "-vet=off"] if self.recipe.test else ["build"]
        tags = [f"-tags={','.join(self.recipe.tags)}"] if self.recipe.tags else []
        return [go, *verb, "-mod=readonly", "-trimpath", *tags, "-ldflags", self.ldflags(), "-o", output, package]

    def make(self, target: Path, log: Path) -> Mapping[str, Any]:
        """Build every package into `target`. Go's own work lies beside it, where a killed build is swept up."""
        floor = re.search(r"^go (\S+)", (self.folder / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
        go = toolchain.find(floor.group(1) if floor else "1.21", self.limits)
        self._require_c()
        hint = f"read the log; with internet access, try: vmatrix artifacts build --source release {self.ref}"
        with TemporaryDirectory(dir=target.parent) as temporary:
            env = {**go.env(cgo=self.recipe.cgo), "GOTMPDIR": temporary}
            for file, package in self.recipe.packages.items():
                argv = [*proc.ending_with_us(), *self.argv(go.path, package, target / file)]
                with proc.failing_as_infra(f"building {self.ref} failed in {self.folder}", hint=hint):
                    proc.run(argv, cwd=self.folder, env=env, timeout=self.limits.build, log=log)
                if not (target / file).exists():
                    raise InfraError(
                        f"building {self.ref} did not produce {file}: {package} is not a command", paths=[log]
                    )
        return {"go": go.version}

    def _require_c(self) -> None:
        """Raise BadInput when a C compiler or a C library that the build needs is not installed."""
        if self.recipe.cgo and shutil.which("gcc") is None:
            raise BadInput(f"building {self.ref} needs a C compiler", hint="apt-get install --yes gcc libc6-dev")
        if self.recipe.libraries and shutil.which("pkg-config") is None:
            raise BadInput(f"building {self.ref} needs pkg-config", hint="apt-get install --yes pkg-config")
        for library, package in self.recipe.libraries.items():
            if proc.run(["pkg-config", "--exists", library], timeout=ASK_SECONDS, check=False).returncode != 0:
                raise BadInput(f"building {self.ref} needs {library}", hint=f"apt-get install --yes {package}")
