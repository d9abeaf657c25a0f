"""Layers of vmatrix's image, what is laid above them, and the Dockerfile that lays a checkout above an image."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from harness import __version__
from harness.artifacts import catalogue
from harness.artifacts.catalogue import HERE, LayeredImage, load
from harness.artifacts.own import image, sources
from harness.artifacts.own.image import COMMANDS, HOME, SITE, DebianLayer
from harness.artifacts.own.push import REPOSITORY
from harness.artifacts.recipe import LIMITS, Ref, key
from harness.errors import BadInput, InfraError
from harness.operator.build.dockerfile import outline
from tests.unit.pages import ROOT

OURS = {"harness/a.py": "a = 1\n", "harness/packaged/b.yml": "b: 1\n"}


def test_a_folder_has_our_files_and_commands_as_the_image_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {name: tmp_path / "from" / name for name in OURS}
    for name, path in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(OURS[name], encoding="utf-8")
    monkeypatch.setattr(sources, "ours", lambda: made)
    image.lay_out(tmp_path / "to", "3.13")
    site = tmp_path / "to" / SITE.format("3.13")
    assert {name: (site / name).read_text(encoding="utf-8") for name in OURS} == OURS
    assert (site / f"vmatrix-{__version__}.dist-info" / "METADATA").is_file()
    assert (tmp_path / "to" / COMMANDS / "vmatrix").stat().st_mode & 0o111


def test_the_dockerfile_of_the_operator_is_about_the_image_that_there_is() -> None:
    text = (ROOT / "deploy" / "operator" / "Dockerfile").read_bytes()
    outline(text, "Dockerfile", registries=["mirror:5000"], args={"BASE": "mirror:5000/vmatrix:1"}, target=None)
    known, lines = load().image(REPOSITORY), text.decode().splitlines()
    assert isinstance(known, LayeredImage)
    assert all(f"/{SITE.format(known.python.version)}/" in line for line in lines if "dist-packages" in line)
    assert lines[-2:] == [f"USER {known.user}", f"WORKDIR {HOME}"], "as in the image that it is laid upon"


def make(folder: Path, mtime: float) -> Path:
    (folder / "usr" / "bin").mkdir(parents=True)
    (folder / "usr" / "bin" / "tool").write_bytes(b"tool")
    (folder / "usr" / "bin" / "tool").chmod(0o4755)
    os.link(folder / "usr" / "bin" / "tool", folder / "usr" / "bin" / "twin")
    (folder / "bin").symlink_to("usr/bin")
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    os.utime(folder / "usr" / "bin" / "tool", (mtime, mtime))
    return folder


def test_a_layer_follows_from_the_tree_alone(tmp_path: Path) -> None:
    for name, mtime in (("a", 1e9), ("b", 1.5e9)):
        image.pack_layer(make(tmp_path / name, mtime), tmp_path / f"{name}.tar")
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()


def test_nobody_becomes_root_by_a_program_of_the_image(tmp_path: Path) -> None:
    image.pack_layer(make(tmp_path / "a", 1e9), tmp_path / "a.tar")
    with tarfile.open(tmp_path / "a.tar") as stream:
        entries = {entry.name: entry for entry in stream}
    assert list(entries) == ["bin", "tmp", "usr", "usr/bin", "usr/bin/tool", "usr/bin/twin"]
    assert entries["usr/bin/tool"].mode == 0o755
    assert entries["tmp"].mode == 0o1777
    assert (entries["usr/bin/twin"].islnk(), entries["usr/bin/twin"].linkname) == (True, "usr/bin/tool")
    assert entries["bin"].linkname == "usr/bin"
    assert {(entry.uid, entry.gid, entry.mtime, entry.uname) for entry in entries.values()} == {(0, 0, 0, "")}


def test_what_is_unpacked_again_is_what_was_packed(tmp_path: Path) -> None:
    image.pack_layer(make(tmp_path / "a", 1e9), tmp_path / "a.tar")
    image.unpack_tree(tmp_path / "a.tar", tmp_path / "b", wanted=lambda name: not name.startswith("tmp"))
    assert sorted(path.relative_to(tmp_path / "b").as_posix() for path in (tmp_path / "b").rglob("*")) == [
        *("bin", "usr", "usr/bin", "usr/bin/tool", "usr/bin/twin"),
    ]
    assert (tmp_path / "b" / "bin" / "twin").read_bytes() == b"tool"


def test_patterns_take_files_links_and_whole_folders(tmp_path: Path) -> None:
    root = make(tmp_path / "a", 1e9)
    image.remove_matching(root, ["usr/bin/t*n", "bin", "tmp"])
    assert sorted(path.relative_to(root).as_posix() for path in root.rglob("*")) == ["usr", "usr/bin", "usr/bin/tool"]
    image.remove_matching(root, ["us?"])
    assert list(root.iterdir()) == []


def test_what_containers_do_not_read_is_known_by_its_path() -> None:
    assert image.is_read("usr/bin/ssh")
    assert not image.is_read("usr/share/doc/ssh/README")
    assert not image.is_read("var")
    assert image.is_read("variables")


def layered_image() -> LayeredImage:
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
    DebianLayer(Ref("layer/vmatrix/debian", "trixie"), layered_image(), LIMITS).finish(root)
    users = (root / "etc" / "passwd").read_text().splitlines()
    assert users == ["root:*:0:0:root:/root:/bin/bash", "vmatrix:x:65532:65532::/tmp:/usr/sbin/nologin"]
    assert (root / "etc" / "group").read_text().splitlines()[-1] == "vmatrix:x:65532:"
    assert (root / "etc" / "ssl" / "certs" / "ca-certificates.crt").read_text() == "A\nB\n"
    assert (root / "usr" / "lib" / "git-core" / "git").readlink() == Path("../../bin/git")
    assert (root / "usr" / "local" / "bin" / "python3").is_symlink()
    assert (root / "tmp").stat().st_mode & 0o7777 == 0o1777


def test_its_key_is_that_of_its_packages_alone() -> None:
    def keyed(**changes: object) -> str:
        return key(
            DebianLayer(Ref("layer/vmatrix/debian", "trixie"), layered_image().model_copy(update=changes), LIMITS)
        )

    assert keyed() == keyed(entrypoint=["other"])
    assert len({keyed(), keyed(debian=["dash"]), keyed(without=[]), keyed(users={}), keyed(links={})}) == 5


LOCK = HERE / "python-3.13.txt"


def locked(lock: Path = LOCK) -> dict[str, tuple[str, int]]:
    """Return the version of every package of a lock, and how many hashes it has."""
    text = "\n".join(line for line in lock.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    pins = re.findall(r"^([\w.-]+)==(\S+)((?: \\\n +--hash=sha256:[0-9a-f]{64})*)$", text, re.MULTILINE)
    assert "".join(f"{name}=={version}{hashes}\n" for name, version, hashes in pins).strip() == text.strip()
    return {name: (version, hashes.count("--hash")) for name, version, hashes in pins}


def asked() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [Requirement(line) for line in project["dependencies"]]


def unfit(pins: dict[str, tuple[str, int]]) -> list[str]:
    """Return what the project asks for that a lock does not have, or in a version that does not do."""
    versions = {canonicalize_name(name): version for name, (version, _) in pins.items()}
    missing = {str(one): versions.get(canonicalize_name(one.name), "") for one in asked()}
    return [one for one, version in missing.items() if not version or version not in Requirement(one).specifier]


def test_the_lock_has_what_the_project_asks_for_each_with_its_hashes() -> None:
    pins = locked()
    assert unfit(pins) == []
    assert [name for name, (_, hashes) in pins.items() if not hashes] == []


def test_a_lock_that_does_not_fit_is_found() -> None:
    pins = locked()
    del pins["tenacity"]
    pins["ansible-core"] = ("2.17.0", 1)
    assert unfit(pins) == ["ansible-core<2.22,>=2.18", "tenacity>=9.0"]


def test_the_image_has_the_python_of_its_lock() -> None:
    own_image = catalogue.load().image("vmatrix")
    assert isinstance(own_image, LayeredImage)
    assert HERE / own_image.python.lock == LOCK
    assert own_image.python.version in own_image.python.lock


def installed(site: Path) -> None:
    info = site / "tool-1.dist-info"
    info.mkdir(parents=True)
    (site / "bin").mkdir()
    (site / "bin" / "tool").write_text("#!/home/me/python\n")
    (site / "tool.py").write_text("")
    (info / "INSTALLER").write_text("uv")
    (info / "entry_points.txt").write_text("[console_scripts]\ntool = tool:Main.run\nTwo=tool:two [extra]\n")
    (info / "RECORD").write_text(
        "tool.py,sha256=x,0\n../../bin/tool,sha256=y,3\nbin/tool,,\ntool-1.dist-info/INSTALLER,,\n"
    )


def test_what_tells_of_the_installer_goes(tmp_path: Path) -> None:
    installed(tmp_path)
    image.clean_site(tmp_path)
    left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["tool-1.dist-info/RECORD", "tool-1.dist-info/entry_points.txt", "tool.py"]
    assert (tmp_path / "tool-1.dist-info" / "RECORD").read_text() == "tool.py,sha256=x,0\n"


def test_commands_are_those_that_packages_declare(tmp_path: Path) -> None:
    installed(tmp_path / "site")
    image.write_scripts(tmp_path / "site", tmp_path / "bin")
    assert sorted(path.name for path in (tmp_path / "bin").iterdir()) == ["Two", "tool"]
    text = (tmp_path / "bin" / "tool").read_text()
    assert text.startswith("#!/usr/local/bin/python3\n")
    assert "from tool import Main\n\nsys.exit(Main.run())" in text
    (tmp_path / "site" / "tool.py").write_text("class Main:\n    @staticmethod\n    def run():\n        return 7\n")
    done = subprocess.run([sys.executable, tmp_path / "bin" / "tool"], env={"PYTHONPATH": str(tmp_path / "site")})
    assert done.returncode == 7


def test_without_an_installer_one_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name, path="": None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(BadInput, match="needs uv or pip"):
        image.install_wheels(LOCK, "3.13", tmp_path / "site", tmp_path / "log", 60)


def test_a_lock_without_hashes_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_text("tenacity==9.2.1\n")
    with pytest.raises(InfraError, match="Python packages could not be downloaded") as raised:
        image.install_wheels(tmp_path / "lock.txt", "3.13", tmp_path / "site", tmp_path / "log", 60)
    assert "hash" in raised.value.detail.lower()
    assert not list((tmp_path / "site").glob("tenacity*"))
