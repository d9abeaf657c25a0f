"""BuildKit without rights: its daemon in a user namespace of its own, one build by it, and what its failure means.

The daemon's root is a user without rights outside: that of the other containers, so that they share a socket, and all
other users are numbers that nobody has. Building this way needs a process that may map users (CAP_SETUID, CAP_SETGID),
and a kernel and a seccomp profile that allow user namespaces.
Sources: user_namespaces(7), https://github.com/moby/buildkit/blob/master/docs/rootless.md,
https://github.com/moby/buildkit/blob/master/docs/build-repro.md
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import proc
from harness.errors import InfraError, VmatrixError
from harness.until import Deadline, NotYet, until

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000  # include/uapi/linux/sched.h
FIRST_OTHER, OTHERS = 100_000, 65_535  # numbers of users outside, besides that of the namespace's root
SOCKET, TROUBLE = "buildkitd.sock", "trouble"  # in the folder that the daemon shares with its client
COMPRESSION = "compression=gzip,compression-level=1"  # a tenth larger than the usual, in a quarter of its time
DAEMON_SECONDS = 60.0  # from its start to its first answer
ENDED = "BuilderEnded"
REFUSED = "the node does not let the builder make a user namespace"
REFUSED_HINT = (
    "allow user namespaces on the node, name a seccomp profile that does (--builder-seccomp-profile),"
    " or set build.privileged in a namespace that allows it"
)


class BuilderRefused(InfraError):
    """The daemon cannot run on this node; `reason` is the word for a condition."""

    reason = "BuilderRefused"


def run_daemon(tools: Path, shared: Path, state: Path, config: Path, *, root: int) -> None:
    """Become BuildKit's daemon, in a user namespace. Does not return.

    Args:
        tools: folder of its programs.  shared: of its socket.  state: of what it keeps.
        root: number outside of the user and the group that are root inside.

    Raises:
        BuilderRefused: the kernel does not allow it; the client finds the reason in `shared`.
    """
    try:
        _enter(root)
    except OSError as error:
        message = f"{REFUSED}: {error.strerror or error}"
        (shared / TROUBLE).write_text(message, encoding="utf-8")
        raise BuilderRefused(message, hint=REFUSED_HINT) from error
    (shared / TROUBLE).unlink(missing_ok=True)
    (shared / SOCKET).unlink(missing_ok=True)  # of a daemon before, in the same pod
    own = state / "root"
    own.mkdir(mode=0o700, exist_ok=True)
    own.chmod(0o700)  # without the set-group-id bit of the volume, which folders of images would inherit
    environment = {
        **os.environ,
        "PATH": f"{tools}:{os.environ.get('PATH', os.defpath)}",
        "XDG_RUNTIME_DIR": str(shared),
        "BUILDKIT_STEP_LOG_MAX_SIZE": str(4 * 1024 * 1024),
    }
    program = tools / "buildkitd"
    words = [
        str(program),
        "--rootless",
        f"--config={config}",
        f"--addr=unix://{shared / SOCKET}",
        f"--otel-socket-path={shared / 'otel-grpc.sock'}",
        f"--root={own}",
        "--containerd-worker=false",
        f"--oci-worker-binary={tools / 'buildkit-runc'}",
        "--oci-worker-no-process-sandbox",  # a pod's /proc is masked, and the kernel allows no whole one inside of it
        "--oci-worker-snapshotter=auto",
    ]
    os.execve(program, words, environment)  # noqa: S606 - becomes the daemon; signals reach it


def _enter(root: int) -> None:
    """Move this process into user and mount namespaces of its own, as their root. Raises OSError."""
    ready, moved = os.pipe()
    done, mapped = os.pipe()
    child = os.fork()
    if child == 0:  # stays outside, where it may map users
        os.close(moved)
        os._exit(0 if os.read(ready, 1) and _map(os.getppid(), root) else 1)
    os.close(done)
    os.close(mapped)
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0
    number = ctypes.get_errno()
    os.write(moved, b"" if failed else b".")
    os.close(moved)
    _, status = os.waitpid(child, 0)
    if failed:
        raise OSError(number, os.strerror(number))
    if status != 0:
        raise OSError(f"users cannot be mapped (CAP_SETUID and CAP_SETGID are needed; is {root} one of them?)")
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def _map(process: int, root: int) -> bool:
    try:
        for kind in ("uid_map", "gid_map"):
            Path(f"/proc/{process}/{kind}").write_text(f"0 {root} 1\n1 {FIRST_OTHER} {OTHERS}\n", encoding="ascii")
    except OSError as error:
        sys.stderr.write(f"{kind} of {process}: {error}\n")
        return False
    return True


@dataclass(frozen=True)
class Reason:
    """A kind of failed build: what buildctl's last words look like, the word for a condition, and what it means."""

    words: re.Pattern[str]
    reason: str
    said: str
    transient: bool = False


def _reason(words: str, reason: str, message: str, *, transient: bool = False) -> Reason:
    return Reason(re.compile(words, re.IGNORECASE), reason, message, transient=transient)


REASONS = (
    _reason("no space left on device|disk quota exceeded", "DiskFull", "the node has no room left", transient=True),
    _reason(r"source .* not allowed by policy|denied by policy", "BaseImageNotAllowed", "an image is not allowed"),
    _reason(
        "dockerfile parse error|unknown instruction|failed to parse", "DockerfileBroken", "BuildKit cannot read it"
    ),
    _reason("target stage .* could not be found", "TargetNotFound", "the Dockerfile has no such stage"),
    _reason("did not complete successfully", "InstructionFailed", "an instruction failed"),
    _reason(
        "failed to calculate checksum of ref|failed to compute cache key|\\.dockerignore",
        "FileNotFound",
        "a file is not in build.context, or .dockerignore leaves it out",
    ),
    _reason(
        "code = Unavailable|dial unix|error reading from server|transport is closing|no active session",
        ENDED,
        "the builder ended",
        transient=True,
    ),
    _reason(
        r"connection refused|connection reset|no such host|i/o timeout|TLS handshake timeout|unexpected EOF|: EOF"
        r"|50[0234] |too ?many ?requests|429 |no route to host|network is unreachable|deadline exceeded",
        "RegistryUnavailable",
        "a registry does not answer",
        transient=True,
    ),
    _reason("failed to push.*(x509|certificate)", "CertificateUntrusted", "its certificate is not trusted"),
    _reason("http response to https client", "RegistryInsecure", "the registry speaks plain HTTP: set build.insecure"),
    _reason(
        r"failed to (push|authorize|fetch (anonymous|oauth) token).*|insufficient_scope|40[135] |unauthorized|denied",
        "PushRefused",
        "the registry refuses the log-in, or the push",
    ),
    _reason("failed to resolve source metadata|not found", "BaseImageNotFound", "a registry has no such image"),
)
OTHER = _reason("", "BuildFailed", "the build failed")
PLACE = re.compile(r"^(?P<file>\S+):(?P<line>[0-9]+)$")
MARKED = re.compile(r"^ *(?P<line>[0-9]+) \| >>> ?(?P<text>.*)$")
PARSED = re.compile(r"parse error on line (?P<line>[0-9]+)")
STEP_OUTPUT = re.compile(r"^[0-9]+\.[0-9]+ (?P<text>.*)$")
BASE = re.compile(r"\bFROM (\S+@sha256:[0-9a-f]{64})")


class BuildFailed(VmatrixError):
    """A build by BuildKit failed; `reason` is the word for a condition, `line` the line with its text."""

    def __init__(self, reason: Reason, summary: str, *, line: str = "", detail: str = "") -> None:
        super().__init__(summary, detail=detail)
        self.reason, self.line, self.transient = reason.reason, line, reason.transient

    @property
    def passing(self) -> bool:
        """Tell whether the same build may succeed a moment later."""
        return self.transient


def failure_of(output: str, dockerfile: str) -> BuildFailed:
    """Return what a failed build's output means.

    Args:
        dockerfile: its path in the repository, which BuildKit is not told.
    """
    lines = output.splitlines()
    last = next((number for number in reversed(range(len(lines))) if lines[number].startswith(("error:", "ERROR:"))), 0)
    words = "\n".join(lines[last:])
    reason = next((candidate for candidate in REASONS if candidate.words.search(words)), OTHER)
    line = _line(lines, words, dockerfile)
    printed = [
        match["text"]
        for line_before in lines[:last]
        if (match := STEP_OUTPUT.match(line_before)) and match["text"].strip()
    ]
    cause = printed[-1] if reason.reason == "InstructionFailed" and printed else proc.reason_in(words)
    return BuildFailed(
        reason, f"{reason.said}: {cause.removeprefix('error: failed to solve: ')}", line=line, detail=words
    )


def _line(lines: Sequence[str], words: str, dockerfile: str) -> str:
    """Return the line of the Dockerfile that BuildKit points at, with its text; "" where it points at none."""
    for number in reversed(range(len(lines))):
        if PLACE.match(lines[number]):
            for following in lines[number + 1 : number + 40]:
                if marked := MARKED.match(following):
                    return f"{dockerfile}:{marked['line']}: {marked['text'].strip()}"
    parsed = PARSED.search(words)
    return f"{dockerfile}:{parsed['line']}" if parsed else ""


@dataclass(frozen=True)
class Build:
    """One build by a daemon.

    Attributes:
        tools, shared: the folders of its programs and of its socket.
        context, dockerfile: the folder of the context; the file, which may be outside of it.
        name: the file's path in the repository, for messages.
        repository: REGISTRY/NAME that the image is pushed to, by its digest.
        options: of the Dockerfile's frontend.
        cache: reference of the cache in a registry; "" for none.
        registries: that images may come from.
        epoch: Unix time that no file of the image is younger than.
    """

    tools: Path
    shared: Path
    context: Path
    dockerfile: Path
    name: str
    repository: str
    options: Mapping[str, str]
    cache: str
    registries: Sequence[str]
    epoch: int

    def words(self, folder: Path) -> list[str | Path]:
        """Return the command; files of its own are in `folder`."""
        options = {"filename": self.dockerfile.name, "build-arg:SOURCE_DATE_EPOCH": str(self.epoch), **self.options}
        output = (
            f"type=image,name={self.repository},push=true,push-by-digest=true,oci-mediatypes=true"
            f",rewrite-timestamp=true,{COMPRESSION}"
        )
        return [
            self.tools / "buildctl",
            f"--addr=unix://{self.shared / SOCKET}",
            "build",
            "--progress=plain",
            "--frontend=dockerfile.v0",
            f"--local=context={self.context}",
            f"--local=dockerfile={self.dockerfile.parent}",
            *(f"--opt={name}={value}" for name, value in options.items()),
            f"--source-policy-file={folder / 'policy.json'}",
            f"--metadata-file={folder / 'metadata.json'}",
            f"--output={output}",
            *self._cached(),
        ]

    def _cached(self) -> Iterator[str]:
        if self.cache:
            yield f"--import-cache=type=registry,ref={self.cache}"
            kept = f"mode=max,image-manifest=true,oci-mediatypes=true,ignore-error=true,{COMPRESSION}"
            yield f"--export-cache=type=registry,ref={self.cache},{kept}"

    def policy(self) -> str:
        """Return which images BuildKit may use, whatever the Dockerfile and base images say."""
        every = {"action": "DENY", "selector": {"identifier": "docker-image://.*", "matchType": "REGEX"}}
        allowed = [
            {
                "action": "ALLOW",
                "selector": {"identifier": f"^docker-image://{re.escape(registry)}/.*", "matchType": "REGEX"},
            }
            for registry in self.registries
        ]
        return json.dumps({"rules": [every, *allowed]})

    def run(self, folder: Path, seconds: float, docker_config: Path) -> tuple[str, tuple[str, ...]]:
        """Build and push; return the image's digest, and its base images by digest. The output is this process's, too.

        Args:
            seconds: that it may take.  docker_config: folder with the log-in at registries.

        Raises:
            BuildFailed: with what BuildKit says.  CommandFailed: its client cannot be started.
        """
        (folder / "policy.json").write_text(self.policy(), encoding="utf-8")
        environment = {"DOCKER_CONFIG": str(docker_config), "BUILDKIT_NO_CLIENT_TOKEN": "1"}
        try:
            done = proc.run(self.words(folder), timeout=seconds, check=False, env=environment, on_line=show)
        except proc.CommandTimedOut as error:
            slow = _reason("", "TimedOut", "the build took longer than build.timeoutSeconds")
            raise BuildFailed(slow, slow.said, detail=error.detail) from error
        if done.returncode != 0:
            raise failure_of(done.stdout, self.name)
        facts = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
        bases = sorted(set(BASE.findall(done.stdout)))
        return str(facts["containerimage.digest"]), tuple(bases)


def show(line: str) -> None:
    """Write a line to this container's log."""
    sys.stdout.write(line if line.endswith("\n") else f"{line}\n")
    sys.stdout.flush()


def wait_for_daemon(shared: Path, seconds: float = DAEMON_SECONDS) -> None:
    """Wait until the daemon listens.

    Raises:
        BuilderRefused: the node does not let it run, or it does not begin.
    """

    def probe() -> bool | NotYet:
        if (shared / TROUBLE).exists():
            raise BuilderRefused((shared / TROUBLE).read_text(encoding="utf-8"), hint=REFUSED_HINT)
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(shared / SOCKET))
            except OSError as error:  # the socket is not there, or nobody listens at what a daemon before has left
                return NotYet(str(error))
        return True

    until(probe, deadline=Deadline.after(seconds), what="the builder to start", interval=0.1)
