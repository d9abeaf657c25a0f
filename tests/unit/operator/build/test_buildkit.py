"""BuildKit's command, its policy, and what its failures mean."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest

from harness import proc
from harness.operator.build import buildkit

STEP = """\
#5 [2/2] RUN make
#5 0.038 make: *** No rule to make target 'all'.  Stop.
#5 ERROR: process "/bin/sh -c make" did not complete successfully: exit code: 2
------
 > [2/2] RUN make:
0.038 make: *** No rule to make target 'all'.  Stop.
------
Dockerfile:3
--------------------
   1 |     FROM scratch
   2 |     COPY a /
   3 | >>> RUN make
   4 |     ENTRYPOINT ["/a"]
--------------------
error: failed to solve: process "/bin/sh -c make" did not complete successfully: exit code: 2
"""
SOLVE = "error: failed to solve: "
PUSH = f"{SOLVE}failed to push r.test/app: "
# The last words of buildctl 0.34: what is wrong, the line, whether it passes.
FAILURES: dict[str, tuple[str, str, str, bool]] = {
    "an instruction": (STEP, "InstructionFailed", "docker/Dockerfile:3: RUN make", False),
    "a keyword": (
        f"{SOLVE}dockerfile parse error on line 2: unknown instruction: RUNN (did you mean RUN?)",
        "DockerfileBroken",
        "docker/Dockerfile:2",
        False,
    ),
    "a stage": (f'{SOLVE}target stage "x" could not be found', "TargetNotFound", "", False),
    "a file": (
        f'{SOLVE}failed to compute cache key: failed to calculate checksum of ref abc::x: "/a": not found',
        "FileNotFound",
        "",
        False,
    ),
    "an image": (
        f"{SOLVE}r.test/b: failed to resolve source metadata for r.test/b: r.test/b: not found",
        "BaseImageNotFound",
        "",
        False,
    ),
    "a policy": (
        f'{SOLVE}failed to load: source "docker-image://docker.io/library/a" not allowed by policy: action DENY',
        "BaseImageNotAllowed",
        "",
        False,
    ),
    "a refusal": (f"{PUSH}unexpected status from HEAD request to http://r: 401 Unauthorized", "PushRefused", "", False),
    "a read-only registry": (f"{PUSH}unexpected status from POST: 405 Method Not Allowed", "PushRefused", "", False),
    "a token": (f"{PUSH}failed to authorize: failed to fetch oauth token: denied", "PushRefused", "", False),
    "plain HTTP": (f"{PUSH}http: server gave HTTP response to HTTPS client", "RegistryInsecure", "", False),
    "no authority": (f"{PUSH}tls: failed to verify certificate: x509: unknown", "CertificateUntrusted", "", False),
    "nobody there": (f"{PUSH}dial tcp 10.0.0.1:5001: connect: connection refused", "RegistryUnavailable", "", True),
    "no name": (f"{PUSH}dial tcp: lookup r.test: no such host", "RegistryUnavailable", "", True),
    "its own trouble": (f"{PUSH}unexpected status from PUT: 503 Service Unavailable", "RegistryUnavailable", "", True),
    "the disk": (f"{SOLVE}write /var/lib: no space left on device", "DiskFull", "", True),
    "the daemon": (
        "error: failed to receive status: rpc error: code = Unavailable desc = error reading from server: EOF",
        "BuilderEnded",
        "",
        True,
    ),
    "anything": (f"{SOLVE}what", "BuildFailed", "", False),
}


@pytest.mark.parametrize("case", FAILURES)
def test_what_buildkit_says_is_a_reason(case: str) -> None:
    output, reason, line, passing = FAILURES[case]
    failure = buildkit.failure_of(output, "docker/Dockerfile")
    assert (failure.reason, failure.line, failure.passing) == (reason, line, passing)
    assert failure.summary


def test_words_of_an_instruction_are_not_taken_for_those_of_a_registry() -> None:
    output = STEP.replace("make: *** No rule", "curl: connection refused, 503 no such host")
    failure = buildkit.failure_of(output, "Dockerfile")
    assert failure.reason == "InstructionFailed"
    assert "connection refused" in failure.summary  # its last words are what a person looks for


def build(**more: object) -> buildkit.Build:
    values: dict[str, object] = {
        "tools": Path("/tools"),
        "shared": Path("/run/buildkit"),
        "context": Path("/workspace/tree"),
        "dockerfile": Path("/tmp/x/Dockerfile.dev"),
        "name": "docker/Dockerfile.dev",
        "repository": "r.test/app",
        "options": {"build-arg:A": "1", "target": "t"},
        "cache": "r.test/app:buildcache",
        "registries": ("r.test", "m.test:5000/base"),
        "epoch": 7,
    }
    return buildkit.Build(**{**values, **more})  # type: ignore[arg-type]


def test_an_image_is_pushed_by_its_digest_and_made_again_the_same() -> None:
    words = [str(word) for word in build().words(Path("/f"))]
    (output,) = [word for word in words if word.startswith("--output=")]
    assert "push-by-digest=true" in output
    assert "rewrite-timestamp=true" in output
    assert {"--opt=build-arg:SOURCE_DATE_EPOCH=7", "--opt=filename=Dockerfile.dev", "--opt=target=t"} <= set(words)
    assert "--source-policy-file=/f/policy.json" in words


def test_a_cache_that_cannot_be_written_fails_no_build() -> None:
    words = [str(word) for word in build().words(Path("/f"))]
    assert any(word.startswith("--export-cache=") and "ignore-error=true" in word for word in words)
    assert not any("cache" in str(word) for word in build(cache="").words(Path("/f")))


def client(folder: Path, text: str) -> buildkit.Build:
    """Return a build by a program in the place of BuildKit's client."""
    (folder / "buildctl").write_text(text, encoding="utf-8")
    (folder / "buildctl").chmod(0o755)
    return build(tools=folder)


def test_a_failed_build_names_the_line_by_the_files_path_in_the_repository(tmp_path: Path) -> None:
    (tmp_path / "output").write_text(STEP, encoding="utf-8")
    with pytest.raises(buildkit.BuildFailed) as failed:
        client(tmp_path, f"#!/bin/sh\ncat {tmp_path}/output\nexit 1\n").run(tmp_path, 10.0, tmp_path)
    assert (failed.value.reason, failed.value.line) == ("InstructionFailed", "docker/Dockerfile.dev:3: RUN make")


def test_only_a_build_that_takes_too_long_is_said_to(tmp_path: Path) -> None:
    with pytest.raises(buildkit.BuildFailed) as slow:
        client(tmp_path, "#!/bin/sh\nsleep 60\n").run(tmp_path, 0.1, tmp_path)
    assert slow.value.reason == "TimedOut"
    with pytest.raises(proc.CommandFailed, match="could not be started"):
        client(tmp_path, "#!/nonexistent/interpreter\n").run(tmp_path, 10.0, tmp_path)


IMAGES = {
    "r.test/app:1": True,
    "m.test:5000/base/python:3": True,
    "docker.io/library/python:3": False,
    "rxtest/app:1": False,
    "m.test:5000/baser/a": False,
    "evil.test/r.test/app": False,
}


@pytest.mark.parametrize("image", IMAGES)
def test_the_policy_allows_the_registries_alone(image: str) -> None:
    decision = True
    for rule in json.loads(build().policy())["rules"]:
        assert rule["selector"]["matchType"] == "REGEX"
        if re.search(rule["selector"]["identifier"], f"docker-image://{image}"):
            decision = rule["action"] == "ALLOW"
    assert decision is IMAGES[image]


def test_a_daemon_that_a_node_refuses_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / buildkit.TROUBLE).write_text("the node does not let it: Operation not permitted", encoding="utf-8")
    with pytest.raises(buildkit.BuilderRefused, match="not permitted") as refused:
        buildkit.wait_for_daemon(tmp_path, 1.0)
    assert refused.value.reason == "BuilderRefused"
    (tmp_path / buildkit.TROUBLE).unlink()
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(tmp_path / buildkit.SOCKET))
        daemon.listen()
        buildkit.wait_for_daemon(tmp_path, 1.0)
