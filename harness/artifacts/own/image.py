"""The image of vmatrix itself: layers of Debian and Python packages, our own files above them.

Debian packages are unpacked, not installed, without what the image's program never reads. What their scripts would
make, and the program needs, is made here: the user database, the bundle of certificates, compiled Python files.

Wheels are installed into a folder on this host by uv or pip, whichever there is; what differs between these two and
between hosts is taken out: only what the wheels themselves say stays. The image's interpreter compiles them on this
host through its own loader, in no container and without root, since nothing can be compiled where the image is
read-only. The result has the hash of its source but is not compared with it (PEP 552): a tree without times has
nothing else to compare.

A packed tree depends on nothing but its contents: fixed times, one owner, fixed order, no set-uid or set-gid bits.

`python3 -m harness.artifacts.own.image FOLDER` lays the files of the vmatrix that runs into a folder as the image has
them, for deploy/operator/Dockerfile, which puts those of a checkout above an image that is there.
"""

from __future__ import annotations

import copy
import importlib.util
import io
import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from configparser import ConfigParser
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness import __version__, paths, proc
from harness.artifacts import images
from harness.artifacts.catalogue import HERE, PYTHON_ARCHITECTURES, LayeredImage, architecture
from harness.artifacts.images import FOLDERS, FOREIGN, PATH, UNREAD, USERS, write_layout
from harness.artifacts.own import sources
from harness.artifacts.recipe import ArtifactLimits, Ref
from harness.errors import BadInput, InfraError
from harness.files import sha256_of
from harness.interpreter import call

PERMISSIONS = 0o1777  # the image's one user must not become another one
NEEDED = ("usr/bin/python", "usr/lib/python", "usr/lib/ld-linux", "lib64", "usr/lib64")
GLIBC = 40  # 2.40: the newest manylinux that Debian 13, with glibc 2.41, fits
OLDEST = 17  # manylinux2014, the oldest of the platforms of today's wheels
INSTALLER = ("INSTALLER", "REQUESTED", "direct_url.json")  # what the installer writes about itself
SCRIPT = "#!/usr/local/bin/python3\nimport sys\n\nfrom {module} import {first}\n\nsys.exit({name}())\n"
LAYER = "layer.tar"
PYTHON = "usr/lib/python{}"
SITE = "usr/local/lib/python{}/dist-packages"  # where Debian's Python looks for what is not Debian's
COMMANDS = "usr/local/bin"
HOME = "/tmp"  # noqa: S108 - in the image, whose other folders cannot be written
FORMAT = 1  # raise it when the way the image is put together changes
DEBIAN_FORMAT = 1  # raise it when the way this layer is made changes
SITE_FORMAT = 1  # raise it when the way this layer is made changes
SECONDS = 5.0  # expected, for the progress display
INSTALL_SECONDS = 60.0  # expected, for the progress display
COMPILE_SECONDS = 600.0  # against hanging: the largest layer takes about ten


@dataclass(frozen=True)
class Stack:
    """vmatrix's image. `inputs`: its lower layers, in order -> their cache keys and the folders of their files."""

    ref: Ref
    image: LayeredImage
    inputs: Mapping[Ref, tuple[str, Path]]

    @property
    def source(self) -> str:
        """Return the source's name."""
        return "image"

    @property
    def seconds(self) -> float:
        """Return how long it is expected to take when the layers are there."""
        return SECONDS

    def ingredients(self) -> Mapping[str, Any]:
        """Return the entry, the recipes of the layers and all of our files."""
        return {
            "format": FORMAT,
            "image": self.image.model_dump(),
            "sources": sources.our_digest(),
            "inputs": {str(ref): digest for ref, (digest, _) in self.inputs.items()},
            "arch": architecture(),
        }

    def make(self, target: Path, log: Path) -> Mapping[str, Any]:
        """Write the image layout; return its digest and the bytes of its layers.

        Raises:
            InfraError: our files changed meanwhile, or do not compile.
        """
        layers = [folder / LAYER for _, folder in self.inputs.values()]
        with TemporaryDirectory(dir=target.parent) as temporary:
            root, made = Path(temporary) / "tree", Path(temporary) / LAYER
            there = f"/{SITE.format(self.image.python.version)}"
            lay_out(root, self.image.python.version)
            python = image_python(layers[0], Path(temporary) / "python")
            compile_all(python, [(root / there[1:], there)], log)
            pack_layer(root, made)
            kept = [_linked(path, Path(temporary) / f"{number}.tar") for number, path in enumerate(layers)]
            size = sum(path.stat().st_size for path in (*kept, made))
            digest = write_layout(target, [*kept, made], _config(self.image, self.ref.version))
        if sources.digest(sources.ours()) != sources.our_digest():
            raise InfraError(f"{self.ref} was changed while its image was made", hint="do it again")
        return {"digest": digest, "size": size}


def lay_out(folder: Path, python: str) -> None:
    """Lay the files and commands of the vmatrix that runs into a folder, as the image of a Python has them."""
    there = SITE.format(python)
    _copy(folder / there)
    write_scripts(folder / there, folder / COMMANDS)


def _copy(site: Path) -> None:
    """Lay our files, and what a wheel says about itself, as an installed wheel has them."""
    for name, path in sources.ours().items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, site / name)
        (site / name).chmod(0o755 if os.access(path, os.X_OK) else 0o644)
    info = site / f"{sources.NAME}-{__version__}.dist-info"
    info.mkdir()
    for name, text in sources.metadata(paths.packaged_dir()).items():
        (info / name).write_text(text, encoding="utf-8")


def _linked(layer: Path, target: Path) -> Path:
    """Give a kept layer a second name, which the image's folder takes."""
    os.link(layer, target)
    return target


def _config(image: LayeredImage, revision: str) -> dict[str, Any]:
    environment = {"PATH": PATH, "HOME": HOME, "LANG": "C.UTF-8", "VMATRIX_REVISION": revision}
    return {
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "WorkingDir": HOME,
        "Entrypoint": image.entrypoint,
        "Cmd": image.command,
        "User": image.user,
    }


@dataclass(frozen=True)
class DebianLayer:
    """The layer of Debian packages of one image."""

    ref: Ref
    image: LayeredImage
    limits: ArtifactLimits

    @property
    def source(self) -> str:
        """Return the source's name."""
        return "debian"

    @property
    def seconds(self) -> float:
        """Return how long it is expected to take."""
        return images.UNPACK_SECONDS

    def ingredients(self) -> Mapping[str, Any]:
        """Return all that the layer depends on, but for the day: Debian's archive has one version of a package."""
        fields = {"debian", "suite", "without", "links", "joined", "users"}
        image = self.image.model_dump(include=fields)
        return {"format": DEBIAN_FORMAT, "image": image, "python": self.image.python.version, "arch": architecture()}

    def make(self, target: Path, log: Path) -> Mapping[str, Any]:
        """Write the layer; return its digest."""
        with TemporaryDirectory(dir=target.parent) as temporary:
            base, root = Path(temporary) / "debian.tar", Path(temporary) / "tree"
            images.unpack_packages(self.image.debian, base, log, self.image.suite, self.limits.packages)
            unpack_tree(base, root, wanted=is_read)
            remove_matching(root, self.image.without)
            self.finish(root)
            stdlib = PYTHON.format(self.image.python.version)
            compile_all(root, [(root / stdlib, f"/{stdlib}")], log)
            pack_layer(root, target / LAYER)
        return {"digest": f"sha256:{sha256_of(target / LAYER)}"}

    def finish(self, root: Path) -> None:
        """Make what the scripts of packages would make."""
        for path, mode in FOLDERS.items():
            (root / path[1:]).mkdir(parents=True, exist_ok=True)
            (root / path[1:]).chmod(mode)
        for master, path in USERS.items():
            lines = (root / master).read_text(encoding="utf-8")
            form = "{0}:x:{1}:{1}::{2}:/usr/sbin/nologin\n" if path.endswith("passwd") else "{0}:x:{1}:\n"
            lines += "".join(form.format(name, number, HOME) for name, number in self.image.users.items())
            (root / path).write_text(lines, encoding="utf-8")
        for path, pattern in self.image.joined.items():
            parts = [part.read_bytes() for part in sorted(root.glob(pattern))]
            (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            (root / path[1:]).write_bytes(b"".join(parts))
        for path, destination in self.image.links.items():
            (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            (root / path[1:]).unlink(missing_ok=True)
            (root / path[1:]).symlink_to(destination)


@dataclass(frozen=True)
class SiteLayer:
    """The layer of wheels of one image. `inputs`: the Debian layer -> its cache key and the folder of its files."""

    ref: Ref
    image: LayeredImage
    inputs: Mapping[Ref, tuple[str, Path]]
    limits: ArtifactLimits

    @property
    def source(self) -> str:
        """Return the source's name."""
        return "wheels"

    @property
    def seconds(self) -> float:
        """Return how long it is expected to take."""
        return INSTALL_SECONDS

    def ingredients(self) -> Mapping[str, Any]:
        """Return all that the layer depends on; of the Debian layer only which Python it has."""
        return {
            "format": SITE_FORMAT,
            "python": self.image.python.model_dump(),
            "suite": self.image.suite,
            "lock": sha256_of(HERE / self.image.python.lock),
            "arch": architecture(),
        }

    def make(self, target: Path, log: Path) -> Mapping[str, Any]:
        """Write the layer; return its digest."""
        python = self.image.python
        with TemporaryDirectory(dir=target.parent) as temporary:
            root = Path(temporary) / "tree"
            site = root / SITE.format(python.version)
            install_wheels(HERE / python.lock, python.version, site, log, self.limits.packages)
            clean_site(site)
            write_scripts(site, root / COMMANDS)
            remove_matching(site, python.without)
            ((_, folder),) = self.inputs.values()
            interpreter = image_python(folder / LAYER, Path(temporary) / "python")
            compile_all(interpreter, [(site, f"/{SITE.format(python.version)}")], log)
            for path in python.compiled:
                keep_alone(site / path)
            pack_layer(root, target / LAYER)
        return {"digest": f"sha256:{sha256_of(target / LAYER)}"}


def unpack_tree(archive: Path, target: Path, *, wanted: Callable[[str], bool] = lambda _: True) -> None:
    """Unpack the files, folders and links of an archive that are wanted by their paths (`usr/bin/ssh`).

    `extractall(filter=)` is newer than Debian 12's Python 3.11.2, so the entries are chosen before.
    """

    def chosen(stream: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
        for entry in stream:
            name = entry.name.removeprefix("./").strip("/")
            if name and not entry.isdev() and wanted(name):
                renamed = copy.copy(entry)
                renamed.name = name
                yield renamed

    target.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as stream:
        stream.extraction_filter = lambda entry, _: entry  # later releases would refuse links that a layer has
        stream.extractall(target, members=chosen(stream))  # noqa: S202 - what this host unpacked itself


def is_read(name: str) -> bool:
    """Tell whether a container reads a path of Debian's at all."""
    return not any(name == folder or name.startswith(f"{folder}/") for folder in (*UNREAD, *FOREIGN))


def remove_matching(tree: Path, patterns: list[str]) -> None:
    """Remove the files, links and folders whose paths match one of the patterns (`usr/bin/perl*`)."""
    for path in sorted(tree.rglob("*")):
        name = path.relative_to(tree).as_posix()
        if not any(fnmatchcase(name, pattern) for pattern in patterns):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)  # it may have gone with its folder


def pack_layer(tree: Path, target: Path) -> None:
    """Write everything in a tree as a layer."""
    with tarfile.open(target, mode="w", format=tarfile.PAX_FORMAT) as layer:
        for path in _sorted(tree):
            entry = layer.gettarinfo(path, arcname=path.relative_to(tree).as_posix())
            if entry.islnk():  # a second name of a file: found in the order of paths, so it is always the same one
                layer.addfile(_plain(entry))
            elif entry.isreg():
                layer.addfile(_plain(entry), io.BytesIO(path.read_bytes()))
            else:
                layer.addfile(_plain(entry))


def _sorted(tree: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(tree):
        folders.sort()
        yield from (Path(folder, name) for name in sorted([*folders, *files]))


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode &= PERMISSIONS
    return entry


def image_python(layer: Path, target: Path) -> Path:
    """Unpack what the interpreter of a Debian layer needs; return the folder."""
    unpack_tree(layer, target, wanted=_needed)
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
    interpreters = sorted(root.glob("usr/bin/python3.*[0-9]"))
    loaders = sorted([*root.glob("usr/lib/ld-linux-*"), *root.glob("usr/lib/*-linux-gnu*/ld-linux-*")])
    if not interpreters or not loaders:
        raise InfraError(f"no Python interpreter of Debian's in {root}", paths=[log])
    libraries = ":".join(str(path) for path in sorted(root.glob("usr/lib/*-linux-gnu*")))
    python: list[str | Path] = [loaders[0], "--library-path", libraries, interpreters[0], "-s"]
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
            proc.run([*python, *words, "-p", there, folder], timeout=COMPILE_SECONDS, env=env, log=log)


def keep_alone(folder: Path) -> None:
    """Put compiled files in the place of their sources, where the interpreter finds them as well."""
    for source in sorted(folder.rglob("*.py")):
        (compiled,) = source.parent.glob(f"__pycache__/{source.stem}.*.pyc")
        compiled.rename(source.with_suffix(".pyc"))
        source.unlink()
    for cache in sorted(folder.rglob("__pycache__")):
        cache.rmdir()


def install_wheels(lock: Path, python: str, target: Path, log: Path, seconds: float) -> None:
    """Install the wheels of a lock for another Python into a folder; wheels only, each of a hash in the lock.

    Raises:
        BadInput: neither uv nor pip is there.  InfraError: a wheel cannot be downloaded, or has another hash.
    """
    argv = _uv(python) or _pip(python)
    if argv is None:
        raise BadInput("building the image needs uv or pip", hint="python3 -m pip install uv")
    words: list[str | Path] = [
        "--require-hashes",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--target",
        target,
        "-r",
        lock,
    ]
    hint = "check that this machine can install Python packages: python3 -m pip download pip"
    with proc.failing_as_infra("Python packages could not be downloaded", hint=hint):
        proc.run([*argv, *words], timeout=seconds, log=log)


def _uv(python: str) -> list[str] | None:
    program = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    platform = f"{PYTHON_ARCHITECTURES[architecture()]}-manylinux_2_{GLIBC}"
    options = ["--quiet", "--python-version", python, "--python-platform", platform, "--link-mode", "copy"]
    return [program, "pip", "install", *options] if program else None


def _pip(python: str) -> list[str] | None:
    if importlib.util.find_spec("pip") is None:
        return None
    words = call("pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
    words += ["--implementation", "cp", "--python-version", python]
    for minor in range(GLIBC, OLDEST - 1, -1):
        words += ["--platform", f"manylinux_2_{minor}_{PYTHON_ARCHITECTURES[architecture()]}"]
    return words


def clean_site(site: Path) -> None:
    """Remove what tells which installer ran, where and when."""
    shutil.rmtree(site / "bin", ignore_errors=True)
    (site / ".lock").unlink(missing_ok=True)
    for info in sorted(site.glob("*.dist-info")):
        for name in INSTALLER:
            (info / name).unlink(missing_ok=True)
        lines = (info / "RECORD").read_text(encoding="utf-8").splitlines()
        kept = sorted(line for line in lines if (site / line.split(",")[0]).is_file() and not line.startswith(".."))
        (info / "RECORD").write_text("\n".join(kept) + "\n", encoding="utf-8")


def write_scripts(site: Path, target: Path) -> None:
    """Write the commands that packages declare."""
    for path in sorted(site.glob("*.dist-info/entry_points.txt")):
        points = ConfigParser(delimiters=("=",), interpolation=None)
        points.optionxform = str  # type: ignore[assignment,method-assign] # names as they are
        points.read_string(path.read_text(encoding="utf-8"))
        declared = points["console_scripts"] if points.has_section("console_scripts") else {}
        for command, where in declared.items():
            module, _, name = where.partition("[")[0].strip().partition(":")
            target.mkdir(parents=True, exist_ok=True)
            text = SCRIPT.format(module=module, first=name.partition(".")[0], name=name)
            (target / command).write_text(text, encoding="utf-8")
            (target / command).chmod(0o755)


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]), f"{sys.version_info.major}.{sys.version_info.minor}")
