"""Real git servers, over HTTPS and SSH: what they have is fetched, and what is wrong is said by its name."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.artifacts.listening import free_port
from harness.operator.api.delivery import GitSource
from harness.operator.build import remote
from tests.embedded.deliveries.git_servers import GitServers, Repository, run

SECONDS = 30.0
KINDS = ("https", "ssh")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServers]:
    """Return git servers of this host."""
    made = GitServers(tmp_path_factory.mktemp("git"), https_port=free_port(), ssh_port=free_port())
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def repository(servers: GitServers) -> Repository:
    """Return a repository with a branch, a tag and a folder."""
    made = Repository.create(servers, "app")
    made.commit({"a.txt": b"1", "inner/b.txt": b"2"})
    made.git("tag", "-a", "-m", "first", "v1")
    made.git("push", "-q", "origin", "v1")
    return made


def source(servers: GitServers, kind: str, name: str = "app", **more: Any) -> GitSource:
    """Return a source of a kind of server."""
    url = servers.https(name) if kind == "https" else servers.ssh(name)
    return GitSource.model_validate({"git": url, **more})


def secret(servers: GitServers, kind: str) -> dict[str, bytes]:
    """Return what opens a kind of server."""
    return servers.https_secret() if kind == "https" else servers.ssh_secret()


def look(wanted: GitSource, credentials: dict[str, bytes]) -> str:
    """Look a revision up."""
    return remote.remote_revision(wanted, credentials, deadline=time.monotonic() + SECONDS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fields", [{}, {"branch": "main"}, {"tag": "v1"}])
def test_a_name_is_a_revision(servers: GitServers, repository: Repository, kind: str, fields: dict[str, str]) -> None:
    revision = look(source(servers, kind, **fields), secret(servers, kind))
    assert revision == repository.git("rev-parse", fields.get("tag", "main") + "^{commit}").strip()


@pytest.mark.parametrize("kind", KINDS)
def test_a_revision_is_fetched_without_gits_own_files(
    servers: GitServers, repository: Repository, kind: str, tmp_path: Path
) -> None:
    first = repository.head()
    repository.commit({"a.txt": b"later"})  # the first is the end of no branch any more
    fetching = remote.Fetching(source(servers, kind, subPath="inner"), secret(servers, kind), SECONDS)
    fetched = fetching.into(tmp_path, first)
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert files == ["tree/a.txt", "tree/inner/b.txt"]
    assert fetched.folder == tmp_path / "tree" / "inner"
    assert fetched.committed == int(repository.git("show", "-s", "--format=%ct", first))
    assert fetching.into(tmp_path, first) == fetched  # a second attempt in the same pod


def changed(credentials: dict[str, bytes], keys: dict[str, bytes | None]) -> dict[str, bytes]:
    """Return credentials with other keys; None: without."""
    whole = {**credentials, **keys}
    return {key: value for key, value in whole.items() if value is not None}


REFUSED: dict[str, tuple[str, str, dict[str, Any], dict[str, bytes | None], type[remote.GitFailed]]] = {
    "no repository": ("https", "none", {}, {}, remote.RepositoryNotFound),
    "no repository by SSH": ("ssh", "none", {}, {}, remote.RepositoryNotFound),
    "no branch": ("https", "app", {"branch": "none"}, {}, remote.RevisionNotFound),
    "no tag": ("ssh", "app", {"tag": "none"}, {}, remote.RevisionNotFound),
    "a wrong password": ("https", "app", {}, {"password": b"wrong"}, remote.AccessDenied),
    "no authority": ("https", "app", {}, {"ca.crt": None}, remote.CertificateUntrusted),
    "no known host": ("ssh", "app", {}, {"known_hosts": b""}, remote.HostKeyUnknown),
    "no key": ("ssh", "app", {}, {"ssh-privatekey": None}, remote.AccessDenied),
    "no key but a text": ("ssh", "app", {}, {"ssh-privatekey": b"text"}, remote.AccessDenied),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_said_by_its_name(servers: GitServers, repository: Repository, case: str) -> None:
    kind, name, fields, keys, expected = REFUSED[case]
    with pytest.raises(remote.GitFailed) as failed:
        look(source(servers, kind, name, **fields), changed(secret(servers, kind), keys))
    assert type(failed.value) is expected, failed.value.detail
    assert "an-open-secret" not in failed.value.summary + failed.value.detail
    assert repository.head()


def test_a_server_with_another_host_key_is_refused(servers: GitServers, repository: Repository) -> None:
    with pytest.raises(remote.HostKeyChanged) as failed:
        look(source(servers, "ssh"), servers.ssh_secret(host="other_key"))
    assert failed.value.reason == "HostKeyChanged"


def test_a_key_that_the_server_does_not_know_is_refused(servers: GitServers, repository: Repository) -> None:
    with pytest.raises(remote.AccessDenied):
        look(source(servers, "ssh"), servers.ssh_secret(key="other_key"))


def test_a_server_that_is_not_there_may_come(servers: GitServers) -> None:
    with pytest.raises(remote.Unreachable) as failed:
        look(GitSource(git=f"https://127.0.0.1:{free_port()}/app.git"), servers.https_secret())
    assert failed.value.passing


def test_no_secret_is_in_the_arguments_of_a_process(
    servers: GitServers, repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tracer = tmp_path / "git"
    real = run("which", "git").strip()
    tracer.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >>{tmp_path}/words\nenv >>{tmp_path}/words\nexec {real} "$@"\n')
    tracer.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    look(source(servers, "https"), servers.https_secret())
    words = (tmp_path / "words").read_text(encoding="utf-8")
    assert "ls-remote" in words
    assert "an-open-secret" not in words


def test_a_large_repository_is_refused_by_what_is_sent_and_by_what_it_becomes(
    servers: GitServers, repository: Repository, tmp_path: Path
) -> None:
    large = Repository.create(servers, "large")
    contents = {"sent": os.urandom(4 << 20), "becomes": bytes(64 << 20)}
    for name, content in contents.items():
        revision = large.commit({"file": content}, name)
        fetching = remote.Fetching(source(servers, "https", "large"), servers.https_secret(), SECONDS, largest=2 << 20)
        with pytest.raises(remote.TooLarge):
            fetching.into(tmp_path, revision)
        assert not (tmp_path / "tree" / "file").exists()


def test_submodules_are_fetched_when_they_are_asked_for(
    servers: GitServers, repository: Repository, tmp_path: Path
) -> None:
    library, whole = Repository.create(servers, "library"), Repository.create(servers, "whole")
    library.commit({"lib.txt": b"x"})
    revision = with_submodule(whole, library, "../library.git")
    for asked, files in ((True, {".gitmodules", "lib/lib.txt"}), (False, {".gitmodules"})):
        wanted = source(servers, "https", "whole", submodules=asked)
        fetched = remote.Fetching(wanted, servers.https_secret(), SECONDS).into(tmp_path, revision)
        tree = fetched.folder
        assert {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()} == files


def with_submodule(whole: Repository, part: Repository, url: str) -> str:
    """Add a submodule, at an address that other hosts have, too; return the revision."""
    whole.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", "--force", str(part.bare), "lib")
    whole.git("config", "-f", ".gitmodules", "submodule.lib.url", url)
    return whole.commit({})


BAD_SUBMODULES = {"itself": "", "this host": "/etc", "a program": "ext::sh -c id"}


@pytest.mark.parametrize("case", BAD_SUBMODULES)
def test_a_submodule_that_leads_back_or_away_is_refused(servers: GitServers, case: str, tmp_path: Path) -> None:
    loop = Repository.create(servers, f"loop-{case.replace(' ', '-')}")
    part = Repository.create(servers, f"part-{case.replace(' ', '-')}")
    part.commit({"x": b"1"})
    url = f"../{loop.bare.name}" if case == "itself" else BAD_SUBMODULES[case]
    revision = with_submodule(loop, part, url)
    name = loop.bare.name.removesuffix(".git")
    fetching = remote.Fetching(source(servers, "https", name, submodules=True), servers.https_secret(), SECONDS)
    with pytest.raises(remote.GitFailed) as failed:
        fetching.into(tmp_path, revision)
    assert isinstance(failed.value, remote.BadSubmodule), failed.value.detail


def test_nothing_is_left_of_credentials(servers: GitServers, repository: Repository) -> None:
    before = set(Path("/tmp").glob("git-*"))
    look(source(servers, "ssh"), servers.ssh_secret())
    assert set(Path("/tmp").glob("git-*")) <= before
