"""What git says becomes a reason, and git sees no configuration and no secret but in files."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness import proc
from harness.operator.api.delivery import GitSource
from harness.operator.build import remote
from harness.until import Deadline

URL = "https://git.example:8443/team/app.git"
SSH_URL = "ssh://git@git.example:2222/team/app.git"
SHA = "0123456789abcdef0123456789abcdef01234567"
SECRETS = {"username": b"builder\n", "password": b"a-secret\n", "ca.crt": b"an authority"}

# What git 2.39 to 2.47, OpenSSH 9, GnuTLS and OpenSSL write.
OUTPUTS: dict[str, tuple[str, type[remote.GitFailed], bool]] = {
    "host key changed": (
        "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed.\n"
        "fatal: Could not read from remote repository.",
        remote.HostKeyChanged,
        False,
    ),
    "host key unknown": (
        "No ED25519 host key is known for [h]:22.\nHost key verification failed.",
        remote.HostKeyUnknown,
        False,
    ),
    "key refused": (
        "git@h: Permission denied (publickey).\nfatal: Could not read from remote repository.",
        remote.AccessDenied,
        False,
    ),
    "no key": ('Load key "k": error in libcrypto\ngit@h: Permission denied', remote.AccessDenied, False),
    "password refused": ("fatal: Authentication failed for 'https://h/x.git/'", remote.AccessDenied, False),
    "no password": (
        "fatal: could not read Username for 'https://h': terminal prompts disabled",
        remote.AccessDenied,
        False,
    ),
    "forbidden": ("fatal: unable to access 'x': The requested URL returned error: 403", remote.AccessDenied, False),
    "not found": ("fatal: repository 'https://h/x.git/' not found", remote.RepositoryNotFound, False),
    "not found by SSH": (
        "fatal: '/x.git' does not appear to be a git repository\nfatal: Could not read from remote repository.",
        remote.RepositoryNotFound,
        False,
    ),
    "GitHub's": ("ERROR: Repository not found.\nfatal: Could not read", remote.RepositoryNotFound, False),
    "GitLab's": (
        "remote: ERROR: The project you were looking for could not be found",
        remote.RepositoryNotFound,
        False,
    ),
    "no git server": (
        "fatal: https://h/info/refs not valid: is this a git repository?",
        remote.RepositoryNotFound,
        False,
    ),
    "revision": (f"fatal: remote error: upload-pack: not our ref {SHA}", remote.RevisionNotFound, False),
    "branch": ("fatal: couldn't find remote ref refs/heads/x", remote.RevisionNotFound, False),
    "hidden revision": (
        f"error: Server does not allow request for unadvertised object {SHA}",
        remote.RevisionNotFound,
        False,
    ),
    "authority, OpenSSL": (
        "fatal: unable to access 'x': SSL certificate problem: unable to get local issuer certificate",
        remote.CertificateUntrusted,
        False,
    ),
    "authority, GnuTLS": (
        "fatal: unable to access 'x': server certificate verification failed. CAfile: none CRLfile: none",
        remote.CertificateUntrusted,
        False,
    ),
    "redirected": ("fatal: unable to access 'x': The requested URL returned error: 301", remote.Redirected, False),
    "too large": ("fatal: write error: File size limit exceeded", remote.TooLarge, False),
    "too large, killed": ("error: index-pack died of signal 25", remote.TooLarge, False),
    "disk": ("fatal: write error: No space left on device", remote.Unreachable, True),
    "name": ("fatal: unable to access 'x': Could not resolve host: h", remote.Unreachable, True),
    "port": (
        "fatal: unable to access 'x': Failed to connect to h port 1: Connection refused",
        remote.Unreachable,
        True,
    ),
    "broken off": ("fatal: the remote end hung up unexpectedly", remote.Unreachable, True),
    "TLS ended": ("fatal: unable to access 'x': GnuTLS recv error (-110)", remote.Unreachable, True),
    "server error": ("fatal: unable to access 'x': The requested URL returned error: 502", remote.Unreachable, True),
    "anything": ("what", remote.Unreachable, True),
}


@pytest.mark.parametrize("case", OUTPUTS)
def test_what_git_writes_is_a_reason(case: str) -> None:
    output, kind, passing = OUTPUTS[case]
    error = remote.explained(URL, output)
    assert (type(error), error.passing) == (kind, passing)
    assert error.reason == kind.__name__
    assert error.hint
    assert URL in error.summary


class Played:
    """git, as far as it is asked: what it prints by its verb, and how it was called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, printed: str, *, status: int = 0, said: str = "") -> None:
        self.calls: list[tuple[list[str], dict[str, str]]] = []
        self.printed, self.status, self.said = printed, status, said
        monkeypatch.setattr(proc, "run", self.run)

    def run(self, argv: Sequence[Any], *, env: dict[str, str], **_: Any) -> proc.Completed:
        words = [str(word) for word in argv]
        self.calls.append((words, dict(env)))
        return proc.Completed(tuple(words), self.status, self.printed, self.said, 0.0)


REFS = f"{SHA}\tHEAD\n{'1' * 40}\trefs/heads/main\n{'2' * 40}\trefs/tags/v1\n{'3' * 40}\trefs/tags/v1^{{}}\n"
SOURCES = {
    "the default branch": ({}, SHA),
    "a branch": ({"branch": "main"}, "1" * 40),
    "a tag that is an object": ({"tag": "v1"}, "3" * 40),
    "a revision": ({"revision": "4" * 40}, "4" * 40),
}


@pytest.mark.parametrize("case", SOURCES)
def test_a_name_is_looked_up(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    fields, expected = SOURCES[case]
    Played(monkeypatch, REFS)
    source = GitSource.model_validate({"git": URL, **fields})
    assert remote.remote_revision(source, {}, deadline=Deadline.after(5).at) == expected


@pytest.mark.parametrize("fields", [{}, {"branch": "other"}, {"tag": "v2"}])
def test_a_name_that_is_not_there_is_not_taken_for_another(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, str]
) -> None:
    Played(monkeypatch, f"{SHA}\trefs/heads/main/other\n")
    with pytest.raises(remote.RevisionNotFound):
        remote.remote_revision(GitSource.model_validate({"git": URL, **fields}), {}, deadline=Deadline.after(5).at)


def test_no_secret_is_an_argument_or_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, REFS)
    remote.remote_revision(GitSource(git=URL), SECRETS, deadline=Deadline.after(5).at)
    key = {"ssh-privatekey": b"a-private-key", "known_hosts": b"h ssh-ed25519 AAAA"}
    remote.remote_revision(GitSource(git=SSH_URL), key, deadline=Deadline.after(5).at)
    for words, env in played.calls:
        for text in (*words, *env.values()):
            assert "a-secret" not in text
            assert "a-private-key" not in text


def test_a_secret_that_a_server_sends_back_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    Played(monkeypatch, "", status=128, said="remote: bad password a-secret\nfatal: Authentication failed")
    with pytest.raises(remote.AccessDenied) as failed:
        remote.remote_revision(GitSource(git=URL), SECRETS, deadline=Deadline.after(5).at)
    assert "a-secret" not in failed.value.summary + failed.value.detail


def test_git_reads_no_configuration_and_runs_no_hook() -> None:
    with remote.opened(URL, SECRETS) as git:
        assert git.env["GIT_CONFIG_GLOBAL"] == "/dev/null"
        assert git.env["GIT_CONFIG_NOSYSTEM"] == "1"
        assert git.env["GIT_ALLOW_PROTOCOL"] == "http:https:ssh"
        number = int(git.env["GIT_CONFIG_COUNT"])
        config = {git.env[f"GIT_CONFIG_KEY_{n}"]: git.env[f"GIT_CONFIG_VALUE_{n}"] for n in range(number)}
        assert config["core.hooksPath"] == "/dev/null"
        assert config["http.followRedirects"] == "false"
        assert Path(git.env["GIT_SSL_CAINFO"]).read_bytes() == b"an authority"
    assert not Path(git.env["HOME"]).exists()


QUESTIONS = {
    "Username for 'https://git.example:8443': ": "builder",
    "Password for 'https://builder@git.example:8443': ": "a-secret",
    "Password for 'https://git.example:8443': ": "a-secret",
    "Username for 'https://evil.example': ": None,
    "Password for 'https://builder@evil.example': ": None,
    "Password for 'https://git.example:8443.evil.example': ": None,
    "Password for 'https://evil.example/git.example:8443': ": None,
    "Enter passphrase for key": None,
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_password_is_for_the_server_of_the_repository_alone(question: str) -> None:
    with remote.opened(URL, SECRETS) as git:
        argv = [git.env["GIT_ASKPASS"], question]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10)
    assert (done.stdout if done.returncode == 0 else None) == QUESTIONS[question]


def test_a_host_key_has_to_be_known() -> None:
    with remote.opened(SSH_URL, {"ssh-privatekey": b"k", "known_hosts": b"h"}) as git:
        command = git.env["GIT_SSH_COMMAND"]
        assert "-oStrictHostKeyChecking=yes" in command
        assert "-oGlobalKnownHostsFile=/dev/null" in command
        assert "-oBatchMode=yes" in command
    with pytest.raises(remote.AccessDenied, match="no key"), remote.opened(SSH_URL, {}):
        pass


ADDRESSES = {
    "../lib.git": ("https://h/team/app.git", "https://h/team/lib.git"),
    "../../other/lib": ("https://h/team/app", "https://h/other/lib"),
    "./lib": ("ssh://git@h/team/app", "ssh://git@h/team/app/lib"),
    "../lib": ("git@h:team/app", "git@h:team/lib"),
    "https://h/lib.git": ("https://h/app", "https://h/lib.git"),
}


@pytest.mark.parametrize("url", ADDRESSES)
def test_the_address_of_a_submodule_may_be_relative(url: str) -> None:
    parent, expected = ADDRESSES[url]
    assert remote._absolute(parent, url) == expected


@pytest.mark.parametrize("url", ["/etc", "file:///etc", "ext::sh -c id", "", "-oProxyCommand=id", "../../../.."])
def test_a_submodule_leads_to_servers_alone(url: str) -> None:
    with pytest.raises(remote.BadSubmodule):
        remote._absolute("https://h/team/app", url)


def test_a_folder_is_inside_of_the_revision(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "out").symlink_to(tmp_path)
    (tree / "in").symlink_to("a")
    (tree / "file").touch()
    assert remote.inside(tree, "") == remote.inside(tree, ".") == tree
    assert remote.inside(tree, "a/b") == tree / "a" / "b"
    assert remote.inside(tree, "in") == tree / "a"
    for path in ("out", "c", "file", "../tree/../.."):
        with pytest.raises(remote.SubPathNotFound):
            remote.inside(tree, path)
