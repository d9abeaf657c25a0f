#!/usr/bin/python
"""Ansible module: have given versions of binaries from an HTTP mirror, linked into the folders that use them.

A release is unpacked into STORE/NAME/VERSION and never changed again; the links are what moves on an upgrade. So a
second run sees the links and is done without asking the mirror, a killed run leaves no half release, and a binary that
runs is never overwritten. Removes no version.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: versioned_binaries
short_description: Have given versions of binaries from an HTTP mirror
description:
  - Downloads what is missing (several releases at once), keeps each version in a folder of its own and links it.
  - Returns `downloaded`, releases as NAME/VERSION, and `linked`, links that were made or moved.
options:
  releases:
    description: What to have.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of the release., type: str, required: true}
      version: {description: Version of the release., type: str, required: true}
      url: {description: A binary or a (compressed) tar file with binaries in it., type: str, required: true}
      folder: {description: Folder of the tar file with the binaries; by default its top level., type: str, default: ""}
      links: {description: Folder in which the binaries are linked., type: path, default: /usr/local/bin}
      sha256: {description: Checksum of what the address serves; without it only the length is checked., type: str}
      sha256_url: {description: Address of a file that has this checksum; used when sha256 is not given., type: str}
  fetch_only: {description: Have the releases in the store and leave every link as it is., type: bool, default: false}
  store: {description: Folder of the releases., type: path, default: /usr/local/lib/releases}
  timeout: {description: Seconds without a byte after which a download fails., type: int, default: 60}
author: [vmatrix]
"""

EXAMPLES = r"""
- name: Have kubelet
  versioned_binaries: {releases: [{name: kubelet, version: 1.36.3, url: http://mirror:8080/bin/kubelet/1.36.3/kubelet}]}
"""

NEEDED, FREE = {"type": "str", "required": True}, {"type": "str"}
RELEASE: dict[str, dict[str, Any]] = dict.fromkeys(("name", "version", "url"), NEEDED)
RELEASE |= {"folder": {"type": "str", "default": ""}, "links": {"type": "path", "default": "/usr/local/bin"}}
RELEASE |= {"sha256": FREE, "sha256_url": FREE}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "releases": {"type": "list", "elements": "dict", "required": True, "options": RELEASE},
    "fetch_only": {"type": "bool", "default": False},
    "store": {"type": "path", "default": "/usr/local/lib/releases"},
    "timeout": {"type": "int", "default": 60},
}
PACKED = (".tar", ".tar.gz", ".tgz")
CHUNK = 1 << 20  # bytes
SHA256 = re.compile(r"[0-9a-f]{64}")
NOT_THERE = (404, 410)  # statuses of HTTP


class DownloadFailed(Exception):
    """The mirror did not serve what was asked for. asked: it answered, and what was asked for is wrong."""

    def __init__(self, message: str, *, asked: bool = False) -> None:
        super().__init__(message)
        self.asked = asked


def fetch(url: str, sink: IO[bytes], *, sha256: str | None, timeout: float) -> None:
    """Copy what an address serves into a file; check its length and, where given, its checksum."""
    if not url.startswith(("http://", "https://")):
        raise DownloadFailed(f"{url}: only http and https", asked=True)
    digest, length = hashlib.sha256(), 0
    try:
        with urllib.request.urlopen(url, timeout=timeout) as response:  # noqa: S310 - the scheme was checked
            expected = response.headers.get("Content-Length")
            while chunk := response.read(CHUNK):
                if sha256:
                    digest.update(chunk)
                length += len(chunk)
                sink.write(chunk)
    except urllib.error.HTTPError as error:
        with error:  # it holds the connection
            raise DownloadFailed(f"{url}: {error}", asked=error.code in NOT_THERE) from error
    except OSError as error:
        raise DownloadFailed(f"{url}: {error}") from error
    if expected is not None and length != int(expected):
        raise DownloadFailed(f"{url}: {length} of {expected} bytes came")
    if sha256 and digest.hexdigest() != sha256:
        raise DownloadFailed(f"{url}: checksum {digest.hexdigest()}, expected {sha256}", asked=True)
    sink.flush()


def published_checksum(url: str, file: str, timeout: float) -> str:
    """Return the SHA-256 of a file out of what its makers publish: it alone, or lines of checksum and name."""
    published = io.BytesIO()
    fetch(url, published, sha256=None, timeout=timeout)
    for line in published.getvalue().decode(errors="replace").splitlines():
        words = line.split()
        if words and SHA256.fullmatch(words[0]) and (len(words) == 1 or words[-1].lstrip("*").endswith(file)):
            return words[0]
    raise DownloadFailed(f"{url}: no checksum of {file} in it", asked=True)


def obtain(release: dict[str, Any], store: Path, timeout: float) -> None:
    """Put a release into the store: in a folder beside its place that is renamed, so that one of its name is whole."""
    place = store / release["name"] / release["version"]
    place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{release['version']}."))
    try:
        content = scratch / "content"
        content.mkdir(mode=0o755)
        file = Path(release["url"]).name
        packed = file.endswith(PACKED)
        # runc.amd64 is a runc: what its makers append to a binary's name is not how it is called
        target = scratch / "download" if packed else content / (release["name"] if "." in file else file)
        sha256 = release["sha256"]
        if not sha256 and release.get("sha256_url"):
            sha256 = published_checksum(release["sha256_url"], file, timeout)
        with target.open("wb") as sink:
            fetch(release["url"], sink, sha256=sha256, timeout=timeout)
        if packed:
            unpack(target, content, release.get("folder", ""))
        for binary in content.iterdir():
            binary.chmod(0o755)
        for path in (*content.iterdir(), content):  # else a loss of power may leave the name without the bytes
            opened = os.open(path, os.O_RDONLY)
            os.fsync(opened)
            os.close(opened)
        os.replace(content, place)
    finally:
        shutil.rmtree(scratch)


def unpack(packed: Path, into: Path, folder: str) -> None:
    """Take the regular files of one folder out of a tar file."""
    with tarfile.open(packed) as archive:
        for member in archive:
            place, _, name = member.name.removeprefix("./").rpartition("/")
            source = archive.extractfile(member) if member.isfile() and place == folder else None
            if source is not None:
                with source, (into / name).open("wb") as sink:
                    shutil.copyfileobj(source, sink, CHUNK)


def fetch_missing(releases: list[dict[str, Any]], store: Path, timeout: float, *, dry: bool) -> list[str]:
    """Have every release in the store, several downloads at once; return what was fetched (or would be, when `dry`)."""
    missing = [r for r in releases if not (store / r["name"] / r["version"]).is_dir()]
    if not dry and missing:
        with ThreadPoolExecutor(max_workers=len(missing)) as pool:
            list(pool.map(lambda release: obtain(release, store, timeout), missing))
    return [f"{r['name']}/{r['version']}" for r in missing]


def link_all(releases: list[dict[str, Any]], store: Path, *, dry: bool) -> list[str]:
    """Point every link at its release; return those that differed. One that is not there yet (`dry`) has none."""
    linked: list[str] = []
    for release in releases:
        for binary in sorted((store / release["name"] / release["version"]).glob("*")):
            path = Path(release["links"]) / binary.name
            if not path.is_symlink() or Path(os.readlink(path)) != binary:
                linked.append(str(path))
                if not dry:  # in one step, also where a link or a file is in its place
                    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                    temporary = path.with_name(f".{path.name}.new")
                    temporary.unlink(missing_ok=True)
                    temporary.symlink_to(binary)
                    temporary.replace(path)
    return linked


def main() -> None:
    """Run as an Ansible module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = module.params
    try:
        releases, store, linked = given["releases"], Path(given["store"]), []
        downloaded = fetch_missing(releases, store, given["timeout"], dry=module.check_mode)
        if not given["fetch_only"]:
            linked = link_all(releases, store, dry=module.check_mode)
    except (DownloadFailed, OSError, tarfile.TarError) as error:
        blame = {"blame": "user"} if getattr(error, "asked", False) else {}
        module.fail_json(msg=f"could not obtain a release: {error}", **blame)
    module.exit_json(changed=bool(downloaded or linked), downloaded=downloaded, linked=linked)


if __name__ == "__main__":
    main()
