"""The Debian layer: what packages' scripts would make is there, and what it depends on is in its key."""

from __future__ import annotations

from pathlib import Path

from harness.artifacts import catalogue
from harness.artifacts.catalogue import LayeredImage
from harness.artifacts.own.debian_layer import DebianLayer
from harness.artifacts.recipe import LIMITS, Ref, key


def image() -> LayeredImage:
    found = catalogue.load().image("vmatrix")
    assert isinstance(found, LayeredImage)
    return found


def tree(root: Path) -> Path:
    for path, text in {
        "usr/share/base-passwd/passwd.master": "root:*:0:0:root:/root:/bin/bash\n",
        "usr/share/base-passwd/group.master": "root:*:0:\n",
        "usr/share/ca-certificates/mozilla/b.crt": "B\n",
        "usr/share/ca-certificates/mozilla/a.crt": "A\n",
        "usr/lib/git-core/git": "a copy",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def test_what_scripts_of_packages_make_is_made(tmp_path: Path) -> None:
    root = tree(tmp_path)
    DebianLayer(Ref("layer/vmatrix/debian", "trixie"), image(), LIMITS).finish(root)
    users = (root / "etc" / "passwd").read_text().splitlines()
    assert users == ["root:*:0:0:root:/root:/bin/bash", "vmatrix:x:65532:65532::/tmp:/usr/sbin/nologin"]
    assert (root / "etc" / "group").read_text().splitlines()[-1] == "vmatrix:x:65532:"
    assert (root / "etc" / "ssl" / "certs" / "ca-certificates.crt").read_text() == "A\nB\n"
    assert (root / "usr" / "lib" / "git-core" / "git").readlink() == Path("../../bin/git")
    assert (root / "usr" / "local" / "bin" / "python3").is_symlink()
    assert (root / "tmp").stat().st_mode & 0o7777 == 0o1777


def test_its_key_is_that_of_its_packages_alone() -> None:
    def keyed(**changes: object) -> str:
        return key(DebianLayer(Ref("layer/vmatrix/debian", "trixie"), image().model_copy(update=changes), LIMITS))

    assert keyed() == keyed(entrypoint=["other"])
    assert len({keyed(), keyed(debian=["dash"]), keyed(without=[]), keyed(users={}), keyed(links={})}) == 5
