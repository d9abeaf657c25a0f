"""A Dockerfile before anything is built: is it one, and do its base images come from registries that are allowed?

What is read here is the outline: instructions with their lines, ARGs that FROM uses, stages and images. Everything else
is BuildKit's to judge. The same registries are BuildKit's policy, which sees what an outline does not.
Source of the format: https://docs.docker.com/reference/dockerfile/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.errors import BadInput

LARGEST = 1024 * 1024  # bytes
_BEGINNING = ("ARG", "FROM")
_CHANGING = ("ADD", "COPY", "ENV", "ONBUILD", "RUN", "SHELL", "USER", "WORKDIR")
_DESCRIBING = ("CMD", "ENTRYPOINT", "EXPOSE", "HEALTHCHECK", "LABEL", "MAINTAINER", "STOPSIGNAL", "VOLUME")
KEYWORDS = frozenset((*_BEGINNING, *_CHANGING, *_DESCRIBING))
MISSING, BINARY, BROKEN = "DockerfileMissing", "DockerfileBinary", "DockerfileBroken"
NOT_ALLOWED, UNRESOLVED, NO_TARGET = "BaseImageNotAllowed", "BaseImageUnresolved", "TargetNotFound"
SCRATCH, DOCKER_HUB = "scratch", "docker.io"
OFFICIAL = re.compile(r"^(docker\.io/)?docker/dockerfile(-upstream)?(:[A-Za-z0-9_.-]+)?(@sha256:[0-9a-f]{64})?$")
DIRECTIVE = re.compile(r"^#\s*([a-zA-Z][a-zA-Z0-9]*)\s*=\s*(.+?)\s*$")
HEREDOC = re.compile(r"(?:^|\s)[0-9]*<<(-?)\s*([\"']?)([A-Za-z_][A-Za-z0-9_]*)\2")
HEREDOCS_IN = frozenset(("RUN", "COPY", "ADD"))
VARIABLE = re.compile(
    r"\$(?:(?P<bare>[A-Za-z_][A-Za-z0-9_]*)"
    r"|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:(?P<op>:?[-+])(?P<word>[^{}]*))?\})"
)
# https://docs.docker.com/reference/dockerfile/#automatic-platform-args-in-the-global-scope
PLATFORM_ARGS = frozenset(
    f"{where}{what}" for where in ("TARGET", "BUILD") for what in ("PLATFORM", "OS", "ARCH", "VARIANT")
)


class DockerfileRejected(BadInput):
    """A Dockerfile that is not built; `reason` is a word for programs, `line` its line, 0 for the whole file."""

    def __init__(self, reason: str, message: str, *, hint: str, line: int = 0, text: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason, self.line, self.text = reason, line, text


@dataclass(frozen=True)
class Instruction:
    """One instruction: its first line, its keyword in capitals, its flags by name, and the rest as one line."""

    line: int
    keyword: str
    flags: Mapping[str, tuple[str, ...]]
    rest: str

    @property
    def text(self) -> str:
        """Return it as people write it."""
        flags = [f"--{name}={value}" for name, values in self.flags.items() for value in values]
        return " ".join([self.keyword, *flags, self.rest]).strip()[:200]


def _rejected(reason: str, name: str, instruction: Instruction, message: str, hint: str) -> DockerfileRejected:
    """Return the refusal of an instruction of the file `name`."""
    whole = f"{name}:{instruction.line}: {message}"
    return DockerfileRejected(reason, whole, hint=hint, line=instruction.line, text=instruction.text)


@dataclass(frozen=True)
class Outline:
    """What a Dockerfile is made of. `text`: what is given to BuildKit, with the same lines."""

    text: str
    instructions: tuple[Instruction, ...]
    images: tuple[tuple[Instruction, str], ...]  # base images and images that files are copied from


def decoded(content: bytes, name: str) -> str:
    """Return a Dockerfile's text. Raises DockerfileRejected where it is not a text."""
    if len(content) > LARGEST:
        hint = "is build.dockerfile the right file?"
        raise DockerfileRejected(BINARY, f"{name} has more than {LARGEST // 1024} KiB", hint=hint)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        message = f"{name} is not a text: line {line} has bytes that are not UTF-8"
        raise DockerfileRejected(BINARY, message, hint="is build.dockerfile the right file?", line=line) from error
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        message = f"{name} is not a text: line {line} has a zero byte"
        raise DockerfileRejected(BINARY, message, hint="is build.dockerfile the right file?", line=line)
    return text


def outline(
    content: bytes,
    name: str,
    *,
    registries: Sequence[str],
    args: Mapping[str, str] | None = None,
    target: str | None = None,
) -> Outline:
    """Read a Dockerfile and check where its images come from.

    Args:
        name: of the file, for messages.
        registries: HOST[:PORT][/PATH] that images may come from.
        args: values of ARGs.
        target: the stage that is to be built.

    Raises:
        DockerfileRejected: with the line.
    """
    lines = [line.rstrip("\r") for line in decoded(content, name).split("\n")]
    escape, syntax = _directives(lines)
    if syntax is not None:
        line, frontend = syntax
        if OFFICIAL.match(frontend) is None:
            _require_allowed(frontend, Instruction(line, "#", {}, f"syntax={frontend}"), name, registries)
        else:
            lines[line - 1] = "#"  # the builder has it built in, and asks nobody for it
    instructions = tuple(_instructions(lines, escape, name))
    images = tuple(_images(instructions, args or {}, name, target))
    for instruction, image in images:
        _require_allowed(image, instruction, name, registries)
    return Outline("\n".join(lines), instructions, images)


def _directives(lines: Sequence[str]) -> tuple[str, tuple[int, str] | None]:
    """Return the character that continues a line, and the line and name of the frontend that is asked for."""
    escape, syntax, known = "\\", None, set[str]()
    for number, line in enumerate(lines, start=1):
        match = DIRECTIVE.match(line.strip())
        if match is None or match[1].lower() in known:
            break
        key = match[1].lower()
        known.add(key)
        if key == "escape":
            escape = match[2]
        elif key == "syntax":
            syntax = (number, match[2])
        elif key != "check":
            break
    return escape, syntax


def _instructions(lines: Sequence[str], escape: str, name: str) -> Iterator[Instruction]:
    """Yield the instructions, each of one or several lines."""
    number = 0
    while number < len(lines):
        first, text = number, lines[number].strip()
        number += 1
        if not text or text.startswith("#"):
            continue
        while text.endswith(escape) and number < len(lines):
            following = lines[number].strip()
            number += 1
            if following.startswith("#") or not following:  # comments and empty lines do not end an instruction
                continue
            text = f"{text[: -len(escape)].rstrip()} {following}"
        instruction = _instruction(text.rstrip(escape), first + 1, name)
        if instruction.keyword in HEREDOCS_IN:
            number = _after_heredocs(lines, number, instruction, name)
        yield instruction


def _instruction(text: str, line: int, name: str) -> Instruction:
    keyword, _, rest = text.partition(" ") if " " in text else text.partition("\t")
    word = keyword.upper()
    if word not in KEYWORDS:
        message = f"{name}:{line}: {keyword[:40]!r} is not an instruction"
        raise DockerfileRejected(
            BROKEN, message, hint="begin each line with an instruction such as RUN", line=line, text=text[:200]
        )
    if not rest.strip():
        message = f"{name}:{line}: {word} needs an argument"
        raise DockerfileRejected(
            BROKEN, message, hint=f"write what {word} is about, or remove it", line=line, text=text[:200]
        )
    flags: dict[str, tuple[str, ...]] = {}
    rest = rest.strip()
    while match := re.match(r"--([a-z][a-z-]*)(?:=(\S*))?\s+", rest):
        flags[match[1]] = (*flags.get(match[1], ()), match[2] or "")
        rest = rest[match.end() :]
    return Instruction(line, word, flags, rest)


def _after_heredocs(lines: Sequence[str], number: int, instruction: Instruction, name: str) -> int:
    """Return the number of the line after the texts that an instruction has in lines of their own."""
    for dash, _, word in HEREDOC.findall(instruction.rest):
        while True:
            if number >= len(lines):
                hint = f"write {word} alone in a line after it"
                raise _rejected(BROKEN, name, instruction, f"the text that ends with {word} does not end", hint)
            line = lines[number].lstrip("\t") if dash else lines[number]
            number += 1
            if line == word:
                break
    return number


def _images(
    instructions: Sequence[Instruction], args: Mapping[str, str], name: str, target: str | None
) -> Iterator[tuple[Instruction, str]]:
    """Yield the images that a Dockerfile begins with or copies from, their ARGs filled in."""
    known: dict[str, str] = {}
    stages: list[str] = []
    for instruction in instructions:
        if instruction.keyword == "FROM":
            image, stage = _from(instruction, known, name)
            if image.lower() != SCRATCH and image.lower() not in stages:
                yield instruction, image
            stages.append(stage.lower() or str(len(stages)))
        elif not stages:
            if instruction.keyword != "ARG":
                message = f"{instruction.keyword} stands before the first FROM"
                raise _rejected(BROKEN, name, instruction, message, "only ARG may: move it below FROM")
            known |= _declared(instruction, args, known)
        else:
            yield from _copied(instruction, stages, name)
    if not stages:
        raise DockerfileRejected(BROKEN, f"{name} has no FROM", hint="begin it with FROM and a base image", line=1)
    if target is not None and target.lower() not in stages and not (target.isdigit() and int(target) < len(stages)):
        message = f"{name} has no stage {target}"
        raise DockerfileRejected(NO_TARGET, message, hint="correct build.target, or name a stage: FROM IMAGE AS NAME")


def _from(instruction: Instruction, known: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return the image and the name of a stage."""
    words = instruction.rest.split()
    if len(words) not in (1, 3) or (len(words) == 3 and words[1].upper() != "AS"):
        hint = "write FROM IMAGE, or FROM IMAGE AS NAME"
        raise _rejected(BROKEN, name, instruction, "FROM has one image, and may have AS and a name", hint)
    return _filled(words[0], known, instruction, name), words[2] if len(words) == 3 else ""


def _declared(instruction: Instruction, args: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the ARGs of an instruction; those without one are not there."""
    made: dict[str, str] = {}
    for word in instruction.rest.split():
        key, equals, value = word.partition("=")
        if key in args:
            made[key] = args[key]
        elif equals:
            made[key] = VARIABLE.sub(lambda match: _value(match, {**known, **made}) or "", value.strip("\"'"))
    return made


def _value(match: re.Match[str], known: Mapping[str, str]) -> str | None:
    """Return what a variable stands for; None where it has no value."""
    key, word = match["bare"] or match["name"], match["word"] or ""
    value = known.get(key)
    if match["op"] in ("-", ":-"):
        return value if value or (value is not None and match["op"] == "-") else word
    if match["op"] in ("+", ":+"):
        return word if value or (value is not None and match["op"] == "+") else ""
    return value


def _filled(image: str, known: Mapping[str, str], instruction: Instruction, name: str) -> str:
    """Return an image with its variables filled in."""

    def value(match: re.Match[str]) -> str:
        text = _value(match, known)
        if text is None:
            key = match["bare"] or match["name"]
            platform = key in PLATFORM_ARGS
            hint = f"write ARG {key}=VALUE before the first FROM, or set build.args"
            hint = "name the image without the platform: it is chosen anyway" if platform else hint
            raise _rejected(UNRESOLVED, name, instruction, f"{key} has no value before the first FROM", hint)
        return text

    filled = VARIABLE.sub(value, image.strip("\"'"))
    if not filled or "$" in filled:
        hint = "use ${NAME}, ${NAME:-DEFAULT} or ${NAME:+WORD}"
        raise _rejected(UNRESOLVED, name, instruction, f"{image} cannot be told before the build", hint)
    return filled


def _copied(instruction: Instruction, stages: Sequence[str], name: str) -> Iterator[tuple[Instruction, str]]:
    """Yield the images that an instruction takes files from."""
    inner = instruction
    if instruction.keyword == "ONBUILD":
        inner = _instruction(instruction.rest, instruction.line, name)
    sources = list(inner.flags.get("from", ()))
    for mount in inner.flags.get("mount", ()):
        sources += [part.removeprefix("from=") for part in mount.split(",") if part.startswith("from=")]
    for source in sources:
        if "$" in source:
            hint = "begin a stage with the image, FROM IMAGE AS NAME, and copy from NAME"
            raise _rejected(UNRESOLVED, name, instruction, "--from takes no variables", hint)
        numbered = source.isdigit() and int(source) < len(stages)
        if source.lower() not in stages and not numbered and source.lower() != SCRATCH:
            yield instruction, source


def registry_of(image: str) -> str:
    """Return an image's registry; Docker Hub's for a name without one."""
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else DOCKER_HUB


def _require_allowed(image: str, instruction: Instruction, name: str, registries: Sequence[str]) -> None:
    whole = image if registry_of(image) != DOCKER_HUB or image.startswith(f"{DOCKER_HUB}/") else f"{DOCKER_HUB}/{image}"
    if any(whole.startswith(f"{allowed.rstrip('/')}/") for allowed in registries):
        return
    message = f"{image} is of the registry {registry_of(image)}, which is not allowed"
    raise _rejected(NOT_ALLOWED, name, instruction, message, f"use images of {' or '.join(registries)}")
