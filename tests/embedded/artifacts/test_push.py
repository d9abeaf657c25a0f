"""`vmatrix operator image --push` against a real registry: taken, refused, not trusted, not there; and pulled back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness import proc
from harness.artifacts.own import push as pushing
from harness.artifacts.product.images import crane
from harness.artifacts.store import Store
from harness.cli import app
from harness.errors import EXIT_BAD_INPUT, EXIT_INFRA, VmatrixError
from tests.embedded.artifacts.given_registries import HOST, PASSWORD, USER, registry

COMMAND_SECONDS = 120.0
LOG_IN = ("--user", USER, "--password", PASSWORD)
NONE = {"CI_REGISTRY_USER": "", "CI_REGISTRY_PASSWORD": ""}  # of a job that runs these tests


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("plain"), guarded=False) as address:
        yield address


@pytest.fixture(scope="module")
def guarded_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("guarded")


@pytest.fixture(scope="module")
def guarded(guarded_in: Path) -> Iterator[str]:
    with registry(guarded_in, guarded=True) as address:
        yield address


@pytest.fixture
def trusted(guarded_in: Path, guarded: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of the registry with TLS, whose certificate this host trusts."""
    monkeypatch.setenv("SSL_CERT_FILE", str(guarded_in / "certificate.pem"))
    return guarded


def image(*words: str) -> Result:
    return CliRunner().invoke(app, ["operator", "image", *words], env=NONE)


def pushed(*words: str) -> dict[str, str]:
    """Push, and return what the command says of it."""
    done = image(*words)
    assert done.exit_code == 0, done.exception
    return dict(line.split(maxsplit=1) for line in done.stdout.splitlines())


def refused(*words: str) -> VmatrixError:
    """Push in vain, and return the error."""
    done = image(*words)
    assert isinstance(done.exception, VmatrixError), done.output
    assert done.stdout == ""
    return done.exception


def pulled(name: str, folder: Path, *words: str) -> str:
    """Pull an image whole, and return the digest of what came."""
    proc.run([crane(Store()), "pull", "--format=oci", *words, name, folder], timeout=COMMAND_SECONDS)
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    (entry,) = index["manifests"]
    manifest = json.loads((folder / "blobs" / entry["digest"].replace(":", "/")).read_text(encoding="utf-8"))
    sizes = {
        (folder / "blobs" / one["digest"].replace(":", "/")).stat().st_size - one["size"] for one in manifest["layers"]
    }
    assert sizes == {0}, "layers are missing or cut"
    return str(entry["digest"])


def test_it_is_pushed_under_each_tag_and_comes_back_whole(plain: str, tmp_path: Path) -> None:
    said = pushed("--push", f"{plain}/group/", "--tag", "main", "--insecure")
    assert said["reference"] == pushing.pushed_name(f"{plain}/group", Store())
    assert pulled(f"{plain}/group/vmatrix:main", tmp_path / "image", "--insecure") == said["digest"]
    same = proc.run([crane(Store()), "digest", "--insecure", said["reference"]], timeout=COMMAND_SECONDS)
    assert same.stdout.strip() == said["digest"]


def test_it_is_pushed_with_a_log_in_over_tls(trusted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = pushed("--push", trusted, *LOG_IN)
    pushing.logged_in(trusted, pushing.Login(USER, PASSWORD), tmp_path)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))  # the same image again, as a host that is logged in
    assert pulled(said["reference"], tmp_path / "image") == said["digest"]
    assert pushed("--push", trusted) == said


def test_a_certificate_that_nobody_vouches_for_is_taken_on_request(guarded: str) -> None:
    error = refused("--push", guarded, *LOG_IN)
    assert (error.exit_code, "certificate is not trusted" in error.summary) == (EXIT_BAD_INPUT, True)
    assert "--insecure" in error.hint
    assert pushed("--push", guarded, *LOG_IN, "--insecure")["reference"].startswith(f"{guarded}/vmatrix:")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--user", USER, "--password", "wrong"), f"the registry refused user {USER}"),
        ((), "the registry refused a push without --user"),
    ],
)
def test_a_refused_log_in_is_named(trusted: str, words: tuple[str, ...], said: str) -> None:
    error = refused("--push", f"{trusted}/group", *words)
    assert error.summary == f"{pushing.pushed_name(f'{trusted}/group', Store())} could not be pushed: {said}"
    assert "401" in error.detail
    assert error.exit_code == EXIT_BAD_INPUT
    assert "wrong" not in f"{error.summary}{error.detail}{error.hint}"


def test_a_registry_without_tls_is_named(plain: str) -> None:
    error = refused("--push", plain)
    assert (error.exit_code, error.hint) == (EXIT_BAD_INPUT, "add --insecure")


def test_a_registry_that_does_not_answer_is_the_infrastructures(tmp_path: Path) -> None:
    with registry(tmp_path, guarded=False) as gone:
        pass
    error = refused("--push", gone, "--insecure")
    assert error.exit_code == EXIT_INFRA
    assert "the registry does not answer" in error.summary
    assert re.search(r"connection refused", error.detail)


def test_the_registry_of_an_infra_cluster_points_to_publish(tmp_path: Path) -> None:
    with registry(tmp_path, guarded=False, read_only=True) as address:
        error = refused("--push", address, "--insecure")
    assert error.exit_code == EXIT_BAD_INPUT
    assert "--publish" in error.hint


@pytest.mark.parametrize("name", [f"https://{HOST}/group", f"{HOST}/Group", f"{HOST}:x/group", f"{HOST}//group", "-h"])
def test_what_is_no_registry_is_refused_before_anything_is_made(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushing, "obtain_image", lambda *_: pytest.fail("it was made"))
    error = refused(f"--push={name}")
    assert error.summary == f"{name!r} is not a registry"
