"""What of an archive with an image layout is unpacked to be pushed."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from harness.artifacts.product.images import plain_entries

LINKS = (tarfile.SYMTYPE, tarfile.LNKTYPE)


def test_files_and_folders_of_an_archive_become_their_readers_own_and_nothing_else_is_unpacked(tmp_path: Path) -> None:
    written = tmp_path / "layout.tar"
    with tarfile.open(written, mode="w") as archive:
        for name in ("oci-layout", "blobs/a", "../out", "/abs"):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.uid, entry.gid = 1, 0o6777, 4242, 4242
            archive.addfile(entry, io.BytesIO(b"x"))
        for kind, name in zip((*LINKS, tarfile.FIFOTYPE), ("soft", "hard", "pipe"), strict=True):
            other = tarfile.TarInfo(name)
            other.type, other.linkname = kind, "oci-layout"
            archive.addfile(other)
    target = tmp_path / "target"
    with tarfile.open(written) as archive:
        archive.extraction_filter = lambda entry, _: entry
        archive.extractall(target, members=plain_entries(archive))  # noqa: S202 - what is tested
    found = {str(path.relative_to(target)): path.stat() for path in target.rglob("*") if path.is_file()}
    assert sorted(found) == ["blobs/a", "oci-layout"]
    assert {(one.st_mode & 0o7777, one.st_uid) for one in found.values()} == {(0o644, target.stat().st_uid)}
    assert not (tmp_path / "out").exists()
