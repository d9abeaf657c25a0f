"""`vmatrix artifacts serve --tier`: what a project's product asks for, from a mirror and a registry that run.

Needs the artifacts of the smoke tier; builds them if they are not there.
"""

from __future__ import annotations

import hashlib
import re
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import paths, proc
from harness.artifacts.listening import free_port
from harness.artifacts.registry import digest_in
from harness.until import Deadline, NotYet, until
from tests.image_archives import docker_files, write_tar

BUILD_SECONDS = 3600.0  # when nothing is cached
PRODUCT = """\
extends: default
product:
  artifacts:
    folder: own
    serve: [runc, {artifact: containerd, as: "x/containerd-{version}.tgz", inside: bin}]
    images: [{artifact: pause, as: upstream/pause}, {archive: agent.tar}]
"""


@dataclass(frozen=True)
class Served:
    """A mirror's tree of files, and a registry."""

    files: str
    registry: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve what a small project asks for, with a cache of its own over the artifacts of this host's."""
    folder = tmp_path_factory.mktemp("project")
    cache = tmp_path_factory.mktemp("cache")
    (cache / "vmatrix").mkdir()
    paths.cache_dir().joinpath("artifacts").mkdir(parents=True, exist_ok=True)
    (cache / "vmatrix" / "artifacts").symlink_to(paths.cache_dir() / "artifacts")
    for name in ("matrix", "own"):
        (folder / name).mkdir()
    (folder / "vmatrix.yml").touch()
    (folder / "matrix" / "product.yml").write_text(PRODUCT)
    (folder / "own" / "chart.tgz").write_bytes(b"chart")
    write_tar(folder / "agent.tar", docker_files("registry.example/our/agent:1.2"))
    mirror, registry = (f"127.0.0.1:{free_port()}" for _ in range(2))
    words = ["artifacts", "serve", "--tier", "smoke", "--listen", mirror, "--registry", registry]
    log = folder / "log"
    argv = [*proc.ending_with_us(), str(Path(sys.executable).parent / "vmatrix"), *words]
    service = proc.spawn(argv, log=log, cwd=folder, env={"XDG_CACHE_HOME": str(cache), "VMATRIX_PROJECT": str(folder)})

    def found() -> Served | NotYet:
        text = log.read_text()
        assert service.alive(), text
        match = re.search(r"3 files at (http://\S+)/", text)
        return Served(match[1], registry) if match and "press Ctrl-C" in text else NotYet(text[-500:])

    try:
        yield until(found, deadline=Deadline.after(BUILD_SECONDS), what="the mirror to serve", interval=0.2)
    finally:
        service.stop(grace=10)


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - the test's own server
        content: bytes = answer.read()
        return content


def test_files_have_the_checksums_that_the_mirror_lists(served: Served) -> None:
    lines = get(f"{served.files}/SHA256SUMS").decode().splitlines()
    listed = {path: digest for digest, path in (line.split("  ") for line in lines)}
    assert {path.partition("/")[0] for path in listed} == {"github.com", "x", "chart.tgz"}
    for path, digest in listed.items():
        assert hashlib.sha256(get(f"{served.files}/{path}")).hexdigest() == digest


def test_a_machine_verifies_an_archive_by_the_published_checksum(served: Served, tmp_path: Path) -> None:
    """As with ansible.builtin.get_url, whose `checksum` may be the address of a list of them."""
    ansible = Path(sys.executable).parent / "ansible"
    listed = get(f"{served.files}/SHA256SUMS").decode()
    path = next(word for word in listed.split() if word.startswith("x/"))
    given = f"url={served.files}/{path} checksum=sha256:{served.files}/{path}.sha256 dest={tmp_path}/c.tgz"
    here = ["-i", "localhost,", "-c", "local", "-e", f"ansible_python_interpreter={sys.executable}", "all"]
    proc.run([ansible, *here, "-m", "get_url", "-a", given], timeout=60)
    proc.run(["tar", "-xzf", tmp_path / "c.tgz", "--strip-components=1", "-C", tmp_path], timeout=60)
    assert "containerd" in proc.run([tmp_path / "containerd", "--version"], timeout=30).stdout


def test_images_have_the_names_that_the_product_gives_them(served: Served) -> None:
    assert digest_in(served.registry, "upstream/pause", "3.10.2") == digest_in(served.registry, "pause", "3.10.2") != ""
    assert digest_in(served.registry, "our/agent", "1.2")
    assert not digest_in(served.registry, "kube-apiserver", "v1.36.3")
