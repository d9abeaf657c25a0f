"""The source `image`: OCI images put together from our programs, and Debian packages where a program needs them.

An image is kept as an OCI image layout (a folder), with a digest that follows from its contents alone: a layer is a
tar archive with fixed times, no user names and a fixed order. Layers are not compressed: guests pull them over a
local wire, where unpacking would cost more than the bytes. Debian packages are unpacked, not installed: no
maintainer script runs, so nothing here depends on the host or on the clock.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from harness import proc
from harness.artifacts.catalogue import ComposedImage, Image, architecture
from harness.artifacts.recipe import LIMITS, ArtifactLimits, Ref
from harness.errors import BadInput
from harness.files import sha256_of

UNPACK_SECONDS = 60.0  # expected, for the progress display
# What nothing in a container reads, by far the largest part of a small Debian tree
UNREAD = ("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian", "boot", "var")
# What belongs to the machine that unpacked the tree, or to the runtime that starts the container
FOREIGN = ("etc/hostname", "etc/resolv.conf", "etc/apt", "etc/fstab", "dev", "proc", "sys")
USERS = {"usr/share/base-passwd/passwd.master": "etc/passwd", "usr/share/base-passwd/group.master": "etc/group"}
FORMAT = 1  # raise it when the way images are put together changes
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
EPOCH = "1970-01-01T00:00:00Z"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
FOLDERS = {"/etc": 0o755, "/tmp": 0o1777, "/var": 0o755, "/var/tmp": 0o1777, "/run": 0o755}  # noqa: S108 - in the image
PACKAGES_SECONDS, COPY_SECONDS = 8.0, 1.0  # of the processors, expected: for the progress display
APPLET_SECONDS = 10.0  # a program that prints a list and ends


@dataclass(frozen=True)
class Assembly:
    """One image of one tag. `inputs`: each program in it -> its cache key and the folder of its files."""

    ref: Ref
    image: Image
    inputs: Mapping[Ref, tuple[str, Path]]
    limits: ArtifactLimits = LIMITS

    @property
    def source(self) -> str:
        """Return the source's name."""
        return "image"

    @property
    def seconds(self) -> float:
        """Return what it takes when the programs are there: copying, or unpacking Debian packages as well."""
        return PACKAGES_SECONDS if self.image.debian else COPY_SECONDS

    @property
    def _suite(self) -> str:
        image = self.image
        return image.suite_of(self.ref.version) if isinstance(image, ComposedImage) else image.suite

    def ingredients(self) -> Mapping[str, Any]:
        """Return the entry, and the recipes of the programs in it."""
        return {
            "format": FORMAT,
            "image": self.image.model_dump(exclude={"tags", "suite", "suites", "versions"}),
            "suite": self._suite if self.image.debian else "",
            "inputs": {str(ref): artifact for ref, (artifact, _) in self.inputs.items()},
            "arch": architecture(),
        }

    def make(self, target: Path, log: Path) -> Mapping[str, Any]:
        """Write the image layout; return its digest."""
        folders = {ref.name: folder for ref, (_, folder) in self.inputs.items()}
        sources = {path: source.partition("/") for path, source in self.image.files.items()}
        files = {path: folders[name] / file for path, (name, _, file) in sources.items()}
        with TemporaryDirectory(dir=target.parent) as temporary:
            base = None
            if self.image.debian:
                base = Path(temporary) / "debian.tar"
                unpack_packages(self.image.debian, base, log, self._suite, self.limits.packages)
            links = {**self._applets(base, Path(temporary)), **self.image.links}
            made = Path(temporary) / "layer.tar"
            own = _own(self.image, Path(temporary))
            modes = self.image.modes if isinstance(self.image, ComposedImage) else {}
            write_layer(
                made,
                files={**files, **own},
                links=links,
                base=base,
                directories=FOLDERS,
                modes={**dict.fromkeys(own, 0o644), **{path: int(mode, 8) for path, mode in modes.items()}},
            )
            return {"digest": write_layout(target, [made], _config(self.image))}

    def _applets(self, base: Path | None, folder: Path) -> Mapping[str, str]:
        """Return a link for every applet of the multi-call program in the image, asked of the program itself."""
        if not self.image.applets or base is None:
            return {}
        program = folder / PurePosixPath(self.image.applets).name  # it goes by the name it is called with
        program.write_bytes(archive_member(base, self.image.applets))
        program.chmod(0o755)
        listed = proc.run([program, "--list"], timeout=APPLET_SECONDS).stdout.split()
        return {f"/usr/bin/{applet}": self.image.applets for applet in listed}


def _own(image: Image, folder: Path) -> Mapping[str, Path]:
    """Write the small files of an image's own; return them by their paths in the image."""
    written: dict[str, Path] = {}
    for number, (path, text) in enumerate(image.texts.items() if isinstance(image, ComposedImage) else ()):
        written[path] = folder / f"text-{number}"
        written[path].write_text(text, encoding="utf-8")
    return written


def write_layout(target: Path, layers: Sequence[Path], config: Mapping[str, Any]) -> str:
    """Write an OCI image layout into an empty folder; move the layers there; return the image's digest.

    Args:
        layers: tar archives, lowest first.
        config: how it runs.
    """
    blobs = target / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    described = [(sha256_of(path), path.stat().st_size) for path in layers]
    for path, (digest, _) in zip(layers, described, strict=True):
        path.rename(blobs / digest)
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _blob(blobs, CONFIG, of_layers([digest for digest, _ in described], config)),
        "layers": [{"mediaType": LAYER, "digest": f"sha256:{digest}", "size": size} for digest, size in described],
    }
    descriptor = _blob(blobs, MANIFEST, manifest)
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [descriptor]}
    (target / "index.json").write_text(json.dumps(index), encoding="utf-8")
    (target / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}', encoding="utf-8")
    return str(descriptor["digest"])


def of_layers(digests: Sequence[str], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of an image, by the SHA-256 of its layers; `config` says how it runs."""
    return {
        "architecture": architecture(),
        "os": "linux",
        "created": EPOCH,
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        "history": [{"created": EPOCH, "created_by": "vmatrix"} for _ in digests],
    }


def _config(image: Image) -> dict[str, Any]:
    own = {"Entrypoint": image.entrypoint, "Cmd": image.command, "User": image.user}
    return {"Env": [f"PATH={PATH}"], "WorkingDir": "/", **{name: value for name, value in own.items() if value}}


def _blob(blobs: Path, media_type: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Write JSON as a blob; return its descriptor."""
    raw = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    digest = hashlib.sha256(raw).hexdigest()
    (blobs / digest).write_bytes(raw)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(raw)}


def unpack_packages(packages: Sequence[str], target: Path, log: Path, suite: str, seconds: float) -> None:
    """Write a tar archive of a suite's packages and their dependencies.

    Args:
        seconds: how long it may take.

    Raises:
        BadInput: mmdebstrap is not installed.  InfraError: it failed.
    """
    if shutil.which("mmdebstrap") is None:
        raise BadInput(
            "building an image with Debian packages needs mmdebstrap", hint="apt-get install --yes mmdebstrap"
        )
    argv = ["mmdebstrap", "--variant=extract", f"--include={','.join(packages)}", suite, str(target)]
    hint = "check that this machine can install Debian packages: apt-get update"
    with proc.failing_as_infra(f"Debian packages could not be downloaded ({', '.join(packages)})", hint=hint):
        proc.run(argv, timeout=seconds, log=log, env={"SOURCE_DATE_EPOCH": "0", "TMPDIR": str(target.parent)})


def write_layer(
    target: Path,
    *,
    files: Mapping[str, Path],
    links: Mapping[str, str],
    base: Path | None = None,
    directories: Mapping[str, int],
    modes: Mapping[str, int] | None = None,
) -> None:
    """Write a layer.

    Args:
        files: absolute path in the image -> the file to put there, in the place of the Debian tree's.
        links: absolute path in the image -> target of a symbolic link.
        base: a tar archive of a Debian tree to put below all of it.
        directories: absolute path -> mode of folders to add.
        modes: of files that are not 0755.
    """
    with tarfile.open(target, mode="w", format=tarfile.PAX_FORMAT) as layer:
        written: set[str] = set()
        if base is not None:
            _copy(base, layer, written, frozenset(_clean(path) for path in files))
        for path, mode in sorted(directories.items()):
            _folder(layer, path, mode, written)
        for path, source in sorted(files.items()):
            _parents(layer, path, written)
            entry = _entry(path, mode=(modes or {}).get(path, 0o755))
            entry.size = source.stat().st_size
            with source.open("rb") as content:
                layer.addfile(entry, content)
        for path, destination in sorted(links.items()):
            _parents(layer, path, written)
            _link(layer, path, destination, written)


def archive_member(archive: Path, path: str) -> bytes:
    """Return the content of one regular file in a tar archive, named by its absolute path."""
    with tarfile.open(archive) as stream:
        for entry in stream:
            content = stream.extractfile(entry) if _clean(entry.name) == path.strip("/") else None
            if content is not None:
                return content.read()
    raise FileNotFoundError(f"{archive} holds no {path}")


def _copy(base: Path, layer: tarfile.TarFile, written: set[str], replaced: frozenset[str]) -> None:
    """Copy a Debian tree, without what nothing reads or is replaced, and with its user database in place."""
    with tarfile.open(base) as stream:
        for entry in stream:
            name = _clean(entry.name)
            if not name or _below(name, (*UNREAD, *FOREIGN)) or entry.isdev() or name in replaced:
                continue
            content = stream.extractfile(entry) if entry.isfile() else None
            data = content.read() if content is not None else b""
            copy = _entry(name, mode=entry.mode)
            copy.type, copy.linkname, copy.size = entry.type, entry.linkname, len(data)
            copy.linkname = _clean(entry.linkname) if entry.islnk() else entry.linkname
            copy.uid, copy.gid = entry.uid, entry.gid
            layer.addfile(copy, io.BytesIO(data))
            written.add(name)
            if name in USERS and USERS[name] not in replaced:
                users = _entry(USERS[name], mode=0o644)
                users.size = len(data)
                layer.addfile(users, io.BytesIO(data))


def _parents(layer: tarfile.TarFile, path: str, written: set[str]) -> None:
    for parent in reversed(PurePosixPath(_clean(path)).parents):
        if str(parent) != ".":
            _folder(layer, str(parent), 0o755, written)


def _folder(layer: tarfile.TarFile, path: str, mode: int, written: set[str]) -> None:
    if _clean(path) in written:
        return
    entry = _entry(path, mode=mode)
    entry.type = tarfile.DIRTYPE
    layer.addfile(entry)
    written.add(entry.name)


def _link(layer: tarfile.TarFile, path: str, destination: str, written: set[str]) -> None:
    entry = _entry(path, mode=0o777)
    if entry.name in written:
        return
    entry.type, entry.linkname = tarfile.SYMTYPE, destination
    layer.addfile(entry)
    written.add(entry.name)


def _entry(path: str, *, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(_clean(path))
    entry.mode, entry.mtime = mode, 0
    return entry


def _clean(path: str) -> str:
    return str(PurePosixPath("/") / path).strip("/")


def _below(name: str, folders: Iterable[str]) -> bool:
    return any(name == folder or name.startswith(folder + "/") for folder in folders)
