"""Python files compiled for the image, by the interpreter in the image: nothing can be compiled where it is read-only.

Its interpreter runs on this host through its own loader, in no container and without root. The result has the hash of
its source but is not compared with it (PEP 552): a tree without times has nothing else to compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness import proc
from harness.artifacts.own import tree
from harness.errors import InfraError

NEEDED = ("usr/bin/python", "usr/lib/python", "usr/lib/ld-linux", "lib64", "usr/lib64")
SECONDS = 600.0  # against hanging: the largest layer takes about ten


def interpreter(layer: Path, target: Path) -> Path:
    """Unpack what the interpreter of a Debian layer needs; return the folder."""
    tree.unpack(layer, target, wanted=_needed)
    return target


def _needed(name: str) -> bool:
    library = name.startswith("usr/lib/") and name.count("/") <= 3 and ".so" in name
    return name.startswith(NEEDED) or library or name in ("lib", "bin", "usr", "usr/lib", "usr/bin")


def compile_all(root: Path, folders: Sequence[tuple[Path, str]], log: Path) -> None:
    """Compile all Python files below folders, each with its path in the image.

    Args:
        root: a tree with the interpreter.

    Raises:
        InfraError: no interpreter there, or a file does not compile.
    """
    found = sorted(root.glob("usr/bin/python3.*[0-9]"))
    loaders = sorted([*root.glob("usr/lib/ld-linux-*"), *root.glob("usr/lib/*-linux-gnu*/ld-linux-*")])
    if not found or not loaders:
        raise InfraError(f"no Python interpreter of Debian's in {root}", paths=[log])
    libraries = ":".join(str(path) for path in sorted(root.glob("usr/lib/*-linux-gnu*")))
    python: list[str | Path] = [loaders[0], "--library-path", libraries, found[0], "-s"]
    env = {"PYTHONHOME": str(root / "usr"), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": ""}
    for folder, there in folders:
        words: list[str | Path] = [
            "-m",
            "compileall",
            "-q",
            "-f",
            "--invalidation-mode",
            "unchecked-hash",
            "-s",
            folder,
        ]
        with proc.failing_as_infra("Python files do not compile", hint=f"see {log}"):
            proc.run([*python, *words, "-p", there, folder], timeout=SECONDS, env=env, log=log)
