"""Git: which revision a branch or tag has, and the files of one revision, without trust in what a server sends.

Credentials are in files that git and ssh read by themselves: never in an argument, a URL or a variable. git reads no
configuration but what is said here, runs no hooks, follows no redirections, and speaks HTTP and SSH alone.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar
from urllib.parse import urlsplit

from harness import proc
from harness.errors import Blame, VmatrixError
from harness.operator.api.delivery import GIT_PATTERN, GitSource
from harness.until import Deadline

KEY, KNOWN_HOSTS, USER, PASSWORD, AUTHORITY = "ssh-privatekey", "known_hosts", "username", "password", "ca.crt"
CONNECT_SECONDS = 15  # until a server has to be reached
SILENT_SECONDS = 30  # of a transfer that has stopped
MIB = 1024 * 1024
LARGEST_BYTES = 512 * MIB  # of what is transferred, and of the files that it becomes
MOST_FILES = 200_000
DEEPEST = 5  # submodules in submodules
SCHEMES = "http:https:ssh"
UNADVERTISED, RECENT = "unadvertised object", 100  # how many commits of a branch are looked at then
LINK = "160000"  # the mode of a submodule in git's index


class GitFailed(VmatrixError):
    """git did not do what was asked for; `reason` is the word for a condition."""

    reason: ClassVar[str] = "GitFailed"
    blame = Blame.USER


class RepositoryNotFound(GitFailed):
    """The server has no such repository, or does not show it to us."""

    reason = "RepositoryNotFound"


class RevisionNotFound(GitFailed):
    """The repository has no such branch, tag or revision."""

    reason = "RevisionNotFound"


class HostKeyChanged(GitFailed):
    """The server has another host key than known_hosts says."""

    reason = "HostKeyChanged"


class HostKeyUnknown(HostKeyChanged):
    """known_hosts has no key of the server."""

    reason = "HostKeyUnknown"


class AccessDenied(GitFailed):
    """The server refuses the credentials, or wants some."""

    reason = "AccessDenied"


class CertificateUntrusted(GitFailed):
    """Nobody vouches for the server's certificate."""

    reason = "CertificateUntrusted"


class Redirected(GitFailed):
    """The server sends us elsewhere, where the credentials may not go."""

    reason = "Redirected"


class Unreachable(GitFailed):
    """The server did not answer, or broke off."""

    reason = "Unreachable"
    blame = Blame.INFRA

    @property
    def passing(self) -> bool:
        """Tell that the next attempt may succeed."""
        return True


class TooLarge(GitFailed):
    """The repository, or what it becomes, is larger than the limit."""

    reason = "TooLarge"


class BadSubmodule(GitFailed):
    """Submodules contain each other, or are too deep."""

    reason = "BadSubmodule"


class SubPathNotFound(GitFailed):
    """The revision has no such folder, or it leads out of the repository."""

    reason = "SubPathNotFound"


@dataclass(frozen=True)
class _Cause:
    """A kind of failure: what git's or ssh's words look like, what it is, and what to do."""

    words: re.Pattern[str]
    kind: type[GitFailed]
    said: str
    hint: str


def _cause(words: str, kind: type[GitFailed], message: str, hint: str) -> _Cause:
    return _Cause(re.compile(words, re.IGNORECASE), kind, message, hint)


KEYSCAN = "check the key by another way, then write it to known_hosts of the Secret; `ssh-keyscan` prints it"
CAUSES = (
    _cause(
        "REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for .* has changed",
        HostKeyChanged,
        "the server has another host key than known_hosts says",
        KEYSCAN,
    ),
    _cause(
        "No .* host key is known for|Host key verification failed",
        HostKeyUnknown,
        "known_hosts has no key of the server",
        KEYSCAN,
    ),
    _cause(
        "certificate|CAfile",
        CertificateUntrusted,
        "nobody vouches for the server's certificate",
        "put its authority into ca.crt of the Secret",
    ),
    _cause(
        r"invalid format|error in libcrypto|is not a public key|invalid private key",
        AccessDenied,
        "ssh-privatekey is not a private key",
        "write a key in PEM or OpenSSH's format, with a newline at its end",
    ),
    _cause(
        r"Permission denied|Authentication failed|Access denied|could not read (Username|Password)"
        r"|returned error: 40[13]|terminal prompts disabled|not authorized",
        AccessDenied,
        "the server refuses the credentials, or wants some",
        "check source.secretRef, and that this key or user may read the repository",
    ),
    _cause(
        "unable to update url base from redirection|returned error: 30[1278]",
        Redirected,
        "the server redirects to another address",
        "write the repository's new address",
    ),
    _cause(
        r"repository .*not found|does not appear to be a git repository|Repository not found|returned error: 404"
        r"|no such (file|repository)|does not exist|project you were looking for|not a git repository"
        r"|not valid: is this a git repository",
        RepositoryNotFound,
        "the server has no such repository, or does not show it to us",
        "check source.git; some servers say so of private repositories, too",
    ),
    _cause(
        "not our ref|couldn't find remote ref|unadvertised object|remote error: .*(want|object)",
        RevisionNotFound,
        "the repository has no such revision",
        "check source.revision; a revision that was pushed over may be gone",
    ),
    _cause(
        "File size limit exceeded|fetch-pack: .*signal 25|died of signal 25|exceeds maximum|Disk quota",
        TooLarge,
        "the repository is larger than a build may fetch",
        "deliver from a smaller repository, or keep large files out of it",
    ),
    _cause("No space left", Unreachable, "there is no room left for the repository", "give the node more disk"),
)
NO_CAUSE = _cause("", Unreachable, "the server did not answer", "check source.git, and whether this cluster reaches it")


# What git says after every failure of ssh, which has said why.
GENERAL = re.compile(
    "fatal: Could not read from remote|Please make sure you have the correct|and the repository exists"
)


def explained(git: str, output: str) -> GitFailed:
    """Return the error for what git and ssh wrote about a repository."""
    cause = next((candidate for candidate in CAUSES if candidate.words.search(output)), NO_CAUSE)
    telling = [line for line in output.splitlines() if line.strip() and not GENERAL.match(line)]
    lines = [line for line in telling if cause.words.search(line)]
    words = proc.reason_in(lines[0] if lines and cause is not NO_CAUSE else "\n".join(telling) or output)
    return cause.kind(f"{git}: {cause.said}: {words}", hint=cause.hint, detail=output)


@dataclass(frozen=True)
class Git:
    """How git is run for one repository: its address, its variables, and what of them is secret."""

    url: str
    env: Mapping[str, str]
    secrets: Sequence[str] = ()

    def run(self, *words: str | Path, deadline: Deadline, cwd: Path | None = None, largest: int | None = None) -> str:
        """Run git; return what it printed.

        Args:
            largest: bytes of a file that it may write.

        Raises:
            GitFailed: by its kind.  CommandFailed: git cannot be started.
        """
        limit = ["prlimit", f"--fsize={largest}", "--core=0"] if largest is not None else []
        argv = [*limit, "git", *words]
        try:
            done = proc.run(argv, timeout=max(deadline.remaining(), 1.0), check=False, cwd=cwd, env=self.env)
        except proc.CommandTimedOut as error:
            raise Unreachable(f"{self.url}: {error.summary}", hint=NO_CAUSE.hint) from error
        if done.returncode != 0:
            raise explained(self.url, self._masked(done.stderr or done.stdout) or f"status {done.returncode}")
        return done.stdout

    def _masked(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


@contextmanager
def opened(url: str, credentials: Mapping[str, bytes]) -> Iterator[Git]:
    """Give git for one repository as long as the body runs; the files of the credentials go with it.

    Raises:
        AccessDenied: the credentials lack what belongs together.
    """
    with TemporaryDirectory(prefix="git-") as temporary:
        folder = Path(temporary)
        env = {
            **_isolated(folder),
            **_ssh(url, credentials, folder),
            **_configured(url, credentials, folder),
        }
        secret = credentials.get(PASSWORD, b"").decode(errors="replace").strip()
        yield Git(url, env, [secret] if secret else [])


def _isolated(folder: Path) -> dict[str, str]:
    return {
        "HOME": str(folder),
        "LC_ALL": "C",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": SCHEMES,
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_ASKPASS": "/bin/false",
        "SSH_ASKPASS": "/bin/false",
    }


def _configured(url: str, credentials: Mapping[str, bytes], folder: Path) -> dict[str, str]:
    """Return git's configuration as variables, and who answers when a server asks for a user."""
    config = {
        "core.hooksPath": os.devnull,
        "core.fsmonitor": "false",
        "http.followRedirects": "false",
        "http.lowSpeedLimit": "1",
        "http.lowSpeedTime": str(SILENT_SECONDS),
        "http.userAgent": "git/vmatrix",
        "transfer.fsckObjects": "true",
        "safe.directory": "*",
        "advice.detachedHead": "false",
        "gc.auto": "0",
    }
    own: dict[str, str] = {}
    if AUTHORITY in credentials:
        own["GIT_SSL_CAINFO"] = str(_written(folder / "ca.crt", credentials[AUTHORITY]))
    env = {"GIT_CONFIG_COUNT": str(len(config)), **own}
    for number, (key, value) in enumerate(config.items()):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    if USER in credentials or PASSWORD in credentials:
        env["GIT_ASKPASS"] = str(_askpass(url, credentials, folder))
    return env


def _askpass(url: str, credentials: Mapping[str, bytes], folder: Path) -> Path:
    """Write the program that answers git's questions about the server of the repository, and about no other."""
    answers = {key: _written(folder / key, credentials.get(key, b"").strip()) for key in (USER, PASSWORD)}
    server = urlsplit(url).netloc.rpartition("@")[2]
    text = f"""#!/bin/sh
case $1 in
Username*//{server}"'"*) exec cat {answers[USER]} ;;
Password*//{server}"'"* | Password*@{server}"'"*) exec cat {answers[PASSWORD]} ;;
esac
exit 1
"""
    path = _written(folder / "askpass", text.encode())
    path.chmod(0o700)
    return path


def _ssh(url: str, credentials: Mapping[str, bytes], folder: Path) -> dict[str, str]:
    """Return the command that git reaches servers with over SSH."""
    hosts = _written(folder / KNOWN_HOSTS, credentials.get(KNOWN_HOSTS, b""))
    options = {
        "BatchMode": "yes",
        "ConnectTimeout": str(CONNECT_SECONDS),
        "GlobalKnownHostsFile": os.devnull,
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "PasswordAuthentication": "no",
        "ServerAliveCountMax": "2",
        "ServerAliveInterval": str(SILENT_SECONDS // 2),
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": str(hosts),
    }
    words = ["ssh", "-F", os.devnull, *(f"-o{name}={value}" for name, value in options.items())]
    if KEY in credentials:
        text = credentials[KEY].replace(b"\r\n", b"\n").rstrip(b"\n") + b"\n"
        words += ["-i", str(_written(folder / KEY, text))]
    elif not url.startswith("http"):
        raise AccessDenied(
            f"{url}: there is no key to log in with", hint=f"add {KEY} to the Secret of source.secretRef"
        )
    return {"GIT_SSH_COMMAND": shlex.join(words), "GIT_SSH_VARIANT": "ssh"}


def _written(path: Path, content: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path


def remote_revision(source: GitSource, credentials: Mapping[str, bytes], *, deadline: float) -> str:
    """Return the full SHA that a branch, a tag or the default branch of a repository has now.

    Args:
        credentials: the decoded data of the Secret of `source.secretRef`; empty without one.
        deadline: moment on the monotonic clock at which it has to have ended.

    Raises:
        GitFailed: by its kind, with a reason for a condition.
    """
    if source.revision is not None:
        return source.revision
    refs, what = _names(source)
    with opened(source.git, credentials) as git:
        printed = git.run("ls-remote", "--", source.git, *refs, deadline=Deadline(deadline))
    revisions = {name: sha for sha, _, name in (line.partition("\t") for line in printed.splitlines())}
    for name in refs:
        if name in revisions:
            return revisions[name]
    raise RevisionNotFound(
        f"{source.git}: the repository has no {what}", hint="push it, or correct source.branch or source.tag"
    )


def _names(source: GitSource) -> tuple[list[str], str]:
    """Return the references that tell the revision, the best first, and what they are about."""
    if source.branch is not None:
        return [f"refs/heads/{source.branch}"], f"branch {source.branch}"
    if source.tag is not None:
        return [f"refs/tags/{source.tag}^{{}}", f"refs/tags/{source.tag}"], f"tag {source.tag}"
    return ["HEAD"], "default branch with a commit"


@dataclass(frozen=True)
class Fetched:
    """The files of one revision: the folder that everything else starts at, and when it was committed (Unix time)."""

    revision: str
    folder: Path
    committed: int


@dataclass
class Fetching:
    """One revision on its way into a folder.

    Attributes: seconds (that all of it may take), largest (bytes of a transfer, and of all files).
    """

    source: GitSource
    credentials: Mapping[str, bytes]
    seconds: float
    largest: int = LARGEST_BYTES
    _budget: int = field(init=False, default=0)

    def into(self, folder: Path, revision: str) -> Fetched:
        """Write the files of a revision, without git's own, into `folder`/tree.

        Raises:
            GitFailed: by its kind.
        """
        deadline = Deadline.after(self.seconds)
        tree, self._budget = folder / "tree", self.largest
        for left in (tree, folder / "git"):
            shutil.rmtree(left, ignore_errors=True)  # of an earlier attempt in the same pod
        tree.mkdir(parents=True)
        with opened(self.source.git, self.credentials) as git:
            self._take(git, self.source.git, revision, tree, folder / "git", deadline)
            committed = self._git(git, tree, folder / "git", deadline, "show", "-s", "--format=%ct", "HEAD")
            if self.source.submodules:
                self._submodules(git, tree, folder / "git", (self.source.git,), deadline)
        shutil.rmtree(folder / "git")
        for linked in sorted(tree.rglob(".git")):
            linked.unlink() if linked.is_file() or linked.is_symlink() else shutil.rmtree(linked)
        return Fetched(revision, inside(tree, self.source.sub_path), int(committed))

    def _git(self, git: Git, tree: Path, database: Path, deadline: Deadline, *words: str) -> str:
        return git.run(f"--git-dir={database}", f"--work-tree={tree}", *words, deadline=deadline, cwd=tree).strip()

    def _take(self, git: Git, url: str, revision: str, tree: Path, database: Path, deadline: Deadline) -> None:
        """Transfer one revision, look how large it becomes, and only then write its files."""
        kind = "sha256" if len(revision) == 64 else "sha1"
        git.run("init", "--quiet", f"--object-format={kind}", f"--separate-git-dir={database}", tree, deadline=deadline)
        self._transfer(git, url, revision, tree, database, deadline)
        if self._git(git, tree, database, deadline, "cat-file", "-t", revision) != "commit":
            raise RevisionNotFound(f"{url}: {revision} is not a commit", hint="write the full SHA of a commit")
        self._measure(url, self._git(git, tree, database, deadline, "ls-tree", "-r", "-l", "-z", revision))
        self._git(git, tree, database, deadline, "checkout", "--quiet", "--detach", revision)

    def _transfer(self, git: Git, url: str, revision: str, tree: Path, database: Path, deadline: Deadline) -> None:
        """Transfer one revision; of a server that gives out the ends of branches alone, the last ones of its branch."""
        words = [f"--git-dir={database}", "fetch", "--quiet", "--no-tags", "--no-recurse-submodules"]
        try:
            git.run(*words, "--depth=1", "--", url, revision, deadline=deadline, cwd=tree, largest=self.largest)
        except RevisionNotFound as missing:
            if url != self.source.git or UNADVERTISED not in missing.detail:
                raise
            (name, *_), _ = _names(self.source)
            depth = f"--depth={RECENT}"
            git.run(*words, depth, "--", url, name, deadline=deadline, cwd=tree, largest=self.largest)
            if git.run(f"--git-dir={database}", "rev-list", "FETCH_HEAD", deadline=deadline).find(revision) < 0:
                raise

    def _measure(self, url: str, listing: str) -> None:
        """Take what the files of a revision will need from what is left. Raises TooLarge."""
        sizes = [entry.split(None, 4)[3] for entry in listing.split("\0") if entry]
        self._budget -= sum(int(size) for size in sizes if size.isdigit())
        if self._budget < 0 or len(sizes) > MOST_FILES:
            message = f"its files have more than {self.largest // MIB} MiB, or are more than {MOST_FILES}"
            raise TooLarge(f"{url}: {message}", hint="deliver from a smaller repository, or keep large files out of it")

    def _submodules(self, git: Git, tree: Path, database: Path, chain: tuple[str, ...], deadline: Deadline) -> None:
        """Fetch the submodules of what is in a folder, and theirs. chain: addresses that led here."""
        if not (tree / ".gitmodules").is_file():
            return
        if len(chain) > DEEPEST:
            raise BadSubmodule(f"{chain[0]}: submodules are more than {DEEPEST} deep", hint="flatten them")
        listed = self._git(git, tree, database, deadline, "ls-files", "--stage", "-z").split("\0")
        links = {
            path: head.split()[1] for head, _, path in (entry.partition("\t") for entry in listed) if head[:6] == LINK
        }
        words = ("config", "-z", "-f", ".gitmodules", "--get-regexp", r"^submodule\..*\.(path|url)$")
        entries = dict(
            line.partition("\n")[::2] for line in self._git(git, tree, database, deadline, *words).split("\0")
        )
        for number, name in enumerate(sorted(key.removesuffix(".path") for key in entries if key.endswith(".path"))):
            path, url = entries[f"{name}.path"], _absolute(chain[-1], entries.get(f"{name}.url", ""))
            if path not in links:
                continue
            if url in chain:
                raise BadSubmodule(f"{chain[0]}: {url} contains itself as a submodule", hint="remove the loop")
            place, inner = inside(tree, path), database / "submodules" / str(number)
            inner.parent.mkdir(exist_ok=True)
            self._take(git, url, links[path], place, inner, deadline)
            self._submodules(git, place, inner, (*chain, url), deadline)


def _absolute(parent: str, url: str) -> str:
    """Return the address of a submodule, which may be relative to that of its parent. Raises BadSubmodule."""
    if url.startswith(("./", "../")):
        base = parent.rstrip("/")
        while url.startswith(("./", "../")):
            up, _, url = url.partition("/")
            base = re.sub("[/:][^/:]*$", "", base) if up == ".." else base
        url = f"{base}/{url}"
    if re.search(GIT_PATTERN, url) is None:
        raise BadSubmodule(f"{parent}: a submodule has the address {url!r}", hint="use https:// or ssh:// addresses")
    return url


def inside(tree: Path, path: str) -> Path:
    """Return a folder below another one. Raises SubPathNotFound where it is not there, or links lead out."""
    folder = (tree / (path or ".")).resolve()
    if not folder.is_dir() or not folder.is_relative_to(tree.resolve()):
        raise SubPathNotFound(f"the revision has no folder {path}", hint="correct source.subPath")
    return folder
