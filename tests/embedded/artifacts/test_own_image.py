"""vmatrix's own image: made twice it has one digest, it is small, and everything that it is for runs in it. (root)

Needs Debian's archive and the package index, through their own clients.
"""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
import yaml

from harness import __version__
from harness.artifacts import refs
from harness.artifacts.own import image as layers
from harness.artifacts.own import sources
from harness.artifacts.recipe import ArtifactPhase, Event
from harness.artifacts.store import Artifact, Store
from tests.embedded.artifacts.own_image import Container, unpack
from tests.unit.pages import ROOT

LARGEST = 250 * 2**20  # bytes, not compressed
COLLECT = """\
import json
from importlib.metadata import distributions
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
found = {canonicalize_name(one.name): one for one in distributions()}
wrong = []
for one in found.values():
    for text in one.requires or []:
        wanted = Requirement(text)
        if wanted.marker and not wanted.marker.evaluate({"extra": ""}):
            continue
        there = found.get(canonicalize_name(wanted.name))
        if there is None or there.version not in wanted.specifier:
            wrong.append(f"{one.name}: {text}")
print(json.dumps({"wrong": wrong, "found": sorted(found)}))
"""
BARE = """\
import json, pathlib
sources = [path for root in ("/usr/lib/python3.13", "/usr/local/lib") for path in pathlib.Path(root).rglob("*.py")]
assert len(sources) > 1000
sources = [path for path in sources if not path.is_symlink()] # the site's own, in /etc
print(json.dumps([str(one) for one in sources if not list(one.parent.glob(f"__pycache__/{one.stem}.*.pyc"))]))
"""


@pytest.fixture(scope="module")
def image() -> Artifact:
    store = Store()
    ref = refs.newest(store.catalogue, "image/vmatrix")
    return store.obtain(ref.name, ref.version)


@pytest.fixture(scope="module")
def container(image: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Container:
    root = tmp_path_factory.mktemp("image")
    root.chmod(0o755)
    return Container(root, unpack(image, root))


def test_it_is_small(image: Artifact) -> None:
    assert image.facts["size"] <= LARGEST


def test_made_again_elsewhere_it_is_the_same(image: Artifact, tmp_path: Path) -> None:
    again = Store(tmp_path / "another-cache").obtain(image.ref.name, image.ref.version)
    assert again.directory != image.directory
    if again.facts["digest"] != image.facts["digest"]:  # Debian has other packages than when the cached layer was made
        image = Store(tmp_path / "a-third-cache").obtain(image.ref.name, image.ref.version)
    assert again.facts["digest"] == image.facts["digest"]


def test_other_sources_make_only_the_last_layer_anew(
    image: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new.py").write_text(f"NEW = {uuid4().hex!r}\n")  # not what an earlier call of this test cached
    files = {**sources.ours(), "harness/new.py": tmp_path / "new.py"}
    monkeypatch.setattr(sources, "ours", lambda: files)
    monkeypatch.setattr(sources, "our_digest", lambda: sources.digest(files))
    store, events = Store(), list[Event]()
    ref = refs.newest(store.catalogue, "image/vmatrix")
    made = store.obtain(ref.name, ref.version, events.append)
    assert {str(event.ref) for event in events if event.phase is ArtifactPhase.DONE} == {str(ref)}
    assert made.ref != image.ref
    assert made.facts["digest"] != image.facts["digest"]


def test_pip_and_uv_install_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are in the dependency group `test`."""
    assert importlib.util.find_spec("pip") is not None
    store = Store()
    ref = next(one for one in store.catalogue.layers() if one.endswith("/python"))
    version = store.catalogue.layers()[ref]
    by_uv = store.obtain(ref, version)
    monkeypatch.setattr(layers, "_uv", lambda _python: None)
    by_pip = replace(store, root=tmp_path).obtain(ref, version)
    assert by_pip.facts["digest"] == by_uv.facts["digest"]


def test_its_own_command_runs(container: Container) -> None:
    assert container.run("version").strip() == __version__
    kinds = [one["spec"]["names"]["kind"] for one in yaml.safe_load_all(container.run("operator", "crds"))]
    assert "ClusterDeployment" in kinds


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("ansible-playbook --version", "python version = 3.13"),
        ("ssh -V", "OpenSSH"),
        ("git --version", "git version"),
        ("setpriv --version", "util-linux"),
        ("pytest --version", "pytest"),
        ("id", "uid=65532(vmatrix) gid=65532(vmatrix)"),
        ("ssh-keygen -q -t ed25519 -N  -f /tmp/key", ""),
    ],
)
def test_programs_run_as_its_user(container: Container, words: str, said: str) -> None:
    done = container.call(*words.split(" "))
    assert said in done.stdout + done.stderr


def test_nothing_but_its_temporary_folder_can_be_written(container: Container) -> None:
    assert "Read-only file system" in container.call("touch", "/usr/file", check=False).stderr
    assert container.call("touch", "/tmp/file").returncode == 0
    status = container.call("cat", "/proc/self/status").stdout
    assert "CapBnd:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status


def test_every_requirement_of_every_package_is_there(container: Container) -> None:
    told = json.loads(container.call("python3", "-c", COLLECT).stdout)
    assert told["wrong"] == []
    assert {"vmatrix", "ansible-core", "kubernetes"} <= set(told["found"])


def test_everything_is_compiled(container: Container) -> None:
    assert json.loads(container.call("python3", "-c", BARE).stdout) == []


def test_a_play_of_the_product_runs(container: Container) -> None:
    playbooks = "/usr/local/lib/python3.13/dist-packages/harness/packaged/playbooks"
    done = container.call("ansible-playbook", "-i", "localhost,", "--syntax-check", f"{playbooks}/cluster.yml")
    assert "playbook: " in done.stdout
    done = container.call("ansible", "-i", "localhost,", "-c", "local", "-m", "ansible.builtin.setup", "localhost")
    assert "SUCCESS" in done.stdout


def test_certificates_of_the_internet_are_known(container: Container) -> None:
    count = "import ssl; print(len(ssl.create_default_context().get_ca_certs()))"
    assert int(container.call("python3", "-c", count).stdout) > 100


def test_the_tag_says_which_checkout_it_is_of(image: Artifact, container: Container) -> None:
    assert image.ref.version == refs.newest(Store().catalogue, "image/vmatrix").version
    assert f"VMATRIX_REVISION={image.ref.version}" in str(container.config["Env"])
    packaged = "/usr/local/lib/python3.13/dist-packages/harness/packaged"
    shipped = container.call("cat", f"{packaged}/matrix/axes.yml").stdout
    assert shipped == (ROOT / "matrix" / "axes.yml").read_text(encoding="utf-8")
