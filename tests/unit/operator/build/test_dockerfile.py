"""A Dockerfile is judged before anything is built, and its line is named."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from harness.operator.build import dockerfile
from harness.operator.build.dockerfile import DockerfileRejected, outline

OURS = "10.213.0.1:5000"
REGISTRIES = (OURS, "registry.example/team")


def images(text: str, args: Mapping[str, str] | None = None) -> list[str]:
    """Return the images that a Dockerfile takes from registries."""
    found = outline(text.encode(), "Dockerfile", registries=REGISTRIES, args=args)
    return [image for _, image in found.images]


ALLOWED: dict[str, tuple[str, list[str]]] = {
    "nothing below": ("FROM scratch\nCOPY a /\n", []),
    "an image of ours": (f"FROM {OURS}/python:1\n", [f"{OURS}/python:1"]),
    "a path of a registry": ("FROM registry.example/team/app\n", ["registry.example/team/app"]),
    "by digest": (f"FROM {OURS}/a@sha256:{'0' * 64}\n", [f"{OURS}/a@sha256:{'0' * 64}"]),
    "a platform": (f"FROM --platform=$BUILDPLATFORM {OURS}/a AS b\nFROM b\n", [f"{OURS}/a"]),
    "a stage by name": (f"FROM {OURS}/a AS Build\nFROM scratch\nCOPY --from=build /a /\n", [f"{OURS}/a"]),
    "a stage by number": (f"FROM {OURS}/a\nFROM scratch\nCOPY --from=0 /a /\n", [f"{OURS}/a"]),
    "an ARG with a default": (f"ARG BASE={OURS}/a\nFROM $BASE\n", [f"{OURS}/a"]),
    "a default in place": (f"FROM ${{BASE:-{OURS}/a}}\n", [f"{OURS}/a"]),
    "ARGs of ARGs": (f"ARG R={OURS}\nARG I=${{R}}/a\nFROM ${{I}}:1\n", [f"{OURS}/a:1"]),
    "an alternative": (f"ARG R={OURS}\nFROM ${{R:+{OURS}/b}}\n", [f"{OURS}/b"]),
    "copied from an image": (f"FROM scratch\nCOPY --chown=1 --from={OURS}/b /x /\n", [f"{OURS}/b"]),
    "mounted from an image": (f"FROM scratch\nRUN --mount=type=bind,from={OURS}/c,target=/c true\n", [f"{OURS}/c"]),
    "when it is built upon": (f"FROM scratch\nONBUILD COPY --from={OURS}/d /x /\n", [f"{OURS}/d"]),
    "continued lines": (f"from \\\n# comment\n\n  {OURS}/a \\\n  as x\n", [f"{OURS}/a"]),
    "another escape": (f"# escape=`\nFROM `\n {OURS}/a\n", [f"{OURS}/a"]),
    "text in lines of its own": (
        f"FROM {OURS}/a\nRUN <<EOF cat <<-'OTHER'\nFROM bad\nEOF\n\tFROM bad\n\tOTHER\n",
        [f"{OURS}/a"],
    ),
    "Windows line ends": (f"FROM {OURS}/a\r\nRUN <<E\r\nFROM bad\r\nE\r\n", [f"{OURS}/a"]),
    "a byte order mark": (f"\ufeffFROM {OURS}/a\n", [f"{OURS}/a"]),
    "BuildKit's own frontend": (f"# syntax=docker/dockerfile:1.7\nFROM {OURS}/a\n", [f"{OURS}/a"]),
    "a frontend of ours": (f"# syntax={OURS}/frontend\nFROM {OURS}/a\n", [f"{OURS}/a"]),
    "a comment that is not a directive": (f"# about\n# syntax=evil/x\nFROM {OURS}/a\n", [f"{OURS}/a"]),
    "no shift operator": (f"FROM {OURS}/a\nRUN echo $((1<<x))\nRUN true\n", [f"{OURS}/a"]),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_images_are_told_before_the_build(case: str) -> None:
    text, expected = ALLOWED[case]
    assert images(text) == expected


def test_the_builders_own_frontend_is_not_asked_for_and_no_line_moves() -> None:
    found = outline(f"# syntax=docker/dockerfile:1\nFROM {OURS}/a\n".encode(), "Dockerfile", registries=REGISTRIES)
    assert found.text == f"#\nFROM {OURS}/a\n"


def test_an_argument_of_the_delivery_takes_the_place_of_a_default() -> None:
    assert images("ARG BASE=evil/a\nFROM ${BASE}\n", {"BASE": f"{OURS}/a"}) == [f"{OURS}/a"]


REFUSED: dict[str, tuple[bytes, str, int, str]] = {
    "Docker Hub": (b"FROM python:3\n", dockerfile.NOT_ALLOWED, 1, "docker.io"),
    "Docker Hub by its name": (b"FROM docker.io/a/b\n", dockerfile.NOT_ALLOWED, 1, "docker.io"),
    "another registry": (b"FROM scratch\nFROM quay.io/a/b\n", dockerfile.NOT_ALLOWED, 2, "quay.io"),
    "another port": (b"FROM 10.213.0.1:5001/a\n", dockerfile.NOT_ALLOWED, 1, "10.213.0.1:5001"),
    "another path": (b"FROM registry.example/teams/a\n", dockerfile.NOT_ALLOWED, 1, "registry.example"),
    "a name that begins alike": (b"FROM 10.213.0.1:5000.evil.test/a\n", dockerfile.NOT_ALLOWED, 1, "evil"),
    "an ARG": (b"ARG A=evil.test/a\n\nFROM $A\n", dockerfile.NOT_ALLOWED, 3, "evil.test"),
    "copied": (b"FROM scratch\nCOPY --from=evil.test/a /a /\n", dockerfile.NOT_ALLOWED, 2, "evil.test"),
    "copied from a later stage's name": (
        b"FROM scratch\nCOPY --from=b /a /\nFROM scratch AS b\n",
        dockerfile.NOT_ALLOWED,
        2,
        "b",
    ),
    "mounted": (b"FROM scratch\nRUN --mount=from=evil/a,target=/a x\n", dockerfile.NOT_ALLOWED, 2, "evil/a"),
    "added": (b"FROM scratch\nONBUILD COPY --from=evil/a /a /\n", dockerfile.NOT_ALLOWED, 2, "evil/a"),
    "a frontend": (b"# syntax=evil.test/frontend\nFROM scratch\n", dockerfile.NOT_ALLOWED, 1, "evil.test"),
    "an ARG without a value": (b"ARG A\nFROM $A\n", dockerfile.UNRESOLVED, 2, "A has no value"),
    "an ARG of a stage": (b"FROM scratch\nARG A=x\nFROM $A\n", dockerfile.UNRESOLVED, 3, "A has no value"),
    "an operator": (b"ARG A=x\nFROM ${A#x}\n", dockerfile.UNRESOLVED, 2, "cannot be told"),
    "a variable to copy from": (b"ARG A=x\nFROM scratch\nCOPY --from=$A / /\n", dockerfile.UNRESOLVED, 3, "--from"),
    "no instruction": (b"FROM scratch\n\nINSTALL x\n", dockerfile.BROKEN, 3, "INSTALL"),
    "no argument": (b"FROM scratch\nRUN\n", dockerfile.BROKEN, 2, "RUN"),
    "no FROM": (b"# nothing\n", dockerfile.BROKEN, 1, "FROM"),
    "empty": (b"", dockerfile.BROKEN, 1, "FROM"),
    "too early": (b"RUN x\nFROM scratch\n", dockerfile.BROKEN, 1, "before the first FROM"),
    "two images": (b"FROM a b\n", dockerfile.BROKEN, 1, "FROM"),
    "a text without its end": (b"FROM scratch\nRUN <<EOF\nx\n", dockerfile.BROKEN, 2, "EOF"),
    "a program": (b"FROM scratch\n\x7fELF\x02\x01\x00\xff\n", dockerfile.BINARY, 2, "not a text"),
    "zeros": (b"FROM scratch\n#\0\n", dockerfile.BINARY, 2, "zero"),
    "an archive": (b"x" * (dockerfile.LARGEST + 1), dockerfile.BINARY, 0, "KiB"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_dockerfile_is_refused_with_its_line(case: str) -> None:
    content, reason, line, words = REFUSED[case]
    with pytest.raises(DockerfileRejected) as refused:
        outline(content, "docker/Dockerfile", registries=REGISTRIES)
    assert (refused.value.reason, refused.value.line) == (reason, line)
    assert words in refused.value.summary
    assert refused.value.hint
    assert not line or reason == dockerfile.BINARY or f"docker/Dockerfile:{line}" in refused.value.summary or line == 1


def test_a_stage_that_is_not_there_is_refused() -> None:
    with pytest.raises(DockerfileRejected) as refused:
        outline(b"FROM scratch AS a\n", "Dockerfile", registries=REGISTRIES, target="b")
    assert refused.value.reason == dockerfile.NO_TARGET
    assert outline(b"FROM scratch AS a\n", "Dockerfile", registries=REGISTRIES, target="A").instructions
    assert outline(b"FROM scratch\n", "Dockerfile", registries=REGISTRIES, target="0").instructions
