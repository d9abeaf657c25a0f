"""Upstream releases that the catalogue lacks: find them, and render the diff that adds one.

The Go module proxy lists them (GOPROXY names it). Only modules that the catalogue builds from are asked for.
Releases before the first final one (-rc.1) do not count. What belongs to a Kubernetes release is read from its own
sources: kubeadm's constants name etcd, CoreDNS and pause; the e2e tests' list names the images that conformance
runs. The diff is unified, as `git apply` takes it. A project gets patch versions in its matrix/artifacts.yml, whose
comments and order stay.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import yaml

from harness import proc
from harness.artifacts import go_toolchain, gomod
from harness.artifacts.catalogue import ADDED, CATALOGUE, KUBERNETES, Catalogue, minor_of, numbers
from harness.artifacts.recipe import LIMITS, ArtifactLimits
from harness.artifacts.refs import SAME_VERSION
from harness.errors import BadInput, InfraError, InfraRetriable
from harness.spec.base import PATCH
from harness.spec.shape import unknown

FINAL = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
MODULE = "k8s.io/kubernetes"
CONSTANTS = Path("cmd/kubeadm/app/constants/constants.go")
IMAGES = Path("test/utils/image/manifest.go")
LISTS = 15  # lists of versions, each some kB, in the time for a module and its requirements
SUPPORTED_MONTHS = 14  # https://kubernetes.io/releases/patch-releases/: a year, and two months of maintenance
LAST_DAY = 28  # support ends on the 28th of a month, same page
AXES = Path("matrix/axes.yml")
ENTRY = """\
  "{version}":
    etcd: "{etcd}"
    images:
      etcd: {etcd_image}
      coredns: v{coredns}
      pause: {pause}
      e2e-test-images/agnhost: {agnhost}
      e2e-test-images/busybox: {busybox}
"""
VALUE = """\
      - id: "{version}"
        slug: k{slug}
        label: Kubernetes {version}
        class: "{minor}"
        before: {before}
        vars:
          cluster_kubernetes_version: "{version}"
          cluster_etcd_version: "{etcd}"
          cluster_coredns_version: "{coredns}"
          cluster_pause_version: "{pause}"
        paths: [playbooks/roles/control_plane/**, playbooks/roles/node/**, playbooks/roles/etcd/**, \
matrix/conformance/{minor}.yml]
        support: {support}
"""


@dataclass(frozen=True)
class Newer:
    """A release that the catalogue lacks, and what it has of the same or the next older minor: `listed`."""

    module: str
    version: str
    listed: str


@dataclass(frozen=True)
class Search:
    """What is newer, and of which modules nobody knows: name to what was said instead."""

    found: tuple[Newer, ...]
    unlisted: Mapping[str, str]


def find_newer(catalogue: Catalogue, limits: ArtifactLimits = LIMITS) -> Search:
    """Return the newest patch of every minor that the catalogue has, and of every later one, where it lacks that.

    Raises:
        InfraError: the module proxy lists no module at all.
    """
    listed = {module: of for module in catalogue.modules if (of := listed_versions(catalogue, module))}
    paths = {module: catalogue.modules[module].requires[0] for module in listed}
    offered, unlisted = _offered(sorted({*paths.values()}), limits)
    if not offered:
        detail = "\n".join(unlisted.values())
        raise InfraError("the Go module proxy lists no module", hint="GOPROXY names the proxy", detail=detail)
    known = {module: of for module, of in listed.items() if paths[module] in offered}
    releases = [release for module, of in known.items() for release in _newer(module, of, offered[paths[module]])]
    return Search(tuple(releases), {name: unlisted[path] for name, path in paths.items() if path not in offered})


def listed_versions(catalogue: Catalogue, module: str) -> tuple[str, ...]:
    """Return the versions of a module that the catalogue builds, oldest first."""
    if module == KUBERNETES:
        return tuple(sorted(catalogue.kubernetes, key=numbers))
    versions = set()
    for program in catalogue.programs.values():
        for version in program.versions if program.versions != KUBERNETES else ():
            if program.recipes(version).gomod.module == module:
                versions.add(version)
    return tuple(sorted(versions, key=numbers))


def _newer(module: str, listed: Sequence[str], offered: Sequence[str]) -> Iterator[Newer]:
    """Yield what is missing of one module, oldest first; versions of a minor older than the oldest listed are not."""
    newest: dict[str, str] = {}
    for version in sorted(offered, key=numbers):
        newest[minor_of(version)] = version
    for name, version in newest.items():
        of_minor = [release for release in listed if minor_of(release) == name]
        before = [release for release in listed if numbers(release) < numbers(version)]
        relevant = bool(of_minor) or numbers(name) > numbers(minor_of(listed[-1])) or _between(module, name, listed)
        if relevant and version not in listed and before:
            yield Newer(module, version, (of_minor or before)[-1])


def _between(module: str, name: str, listed: Sequence[str]) -> bool:
    """Tell whether every minor counts, also one between those that are listed: clusters are upgraded minor by minor."""
    return module == KUBERNETES and numbers(minor_of(listed[0])) < numbers(name)


def _offered(paths: Sequence[str], limits: ArtifactLimits) -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, str]]:
    """Return the versions of each module by its path, and what was said of those that have none."""
    go = go_toolchain.find_go("1.21", limits)
    env = {**go.env(), "GOFLAGS": "-mod=mod"}
    words: list[str | Path] = [go.path, "list", "-m", "-e", "-versions", "-json"]
    seconds = limits.modules / LISTS
    try:  # one list first: a proxy that is silent would be waited for once for each module
        proc.run([*words, *paths[:1]], cwd=Path("/"), env=env, timeout=seconds, check=False)
        done = proc.run([*words, *paths], cwd=Path("/"), env=env, timeout=limits.modules, check=False)
    except proc.CommandFailed as error:
        raise InfraError(
            f"the Go module proxy ({go.proxy()}) does not answer: no list of versions within {seconds:.0f} s",
            hint="GOPROXY names the proxy; `go list -m -versions k8s.io/kubernetes` asks it by hand",
            detail=error.detail,
        ) from error
    answers = {str(answer["Path"]): answer for answer in _objects(done.stdout)}
    offered, unlisted = {}, {}
    for path in paths:
        answer = answers.get(path, {})
        versions = tuple(version[1:] for version in answer.get("Versions", ()) if FINAL.fullmatch(version))
        if versions:
            offered[path] = versions
        else:
            unlisted[path] = str(answer.get("Error", {}).get("Err", done.stderr.strip() or f"{path} has no version"))
    return offered, unlisted


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield JSON objects that are written one behind the other."""
    decoder, at = json.JSONDecoder(), 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        entry, at = decoder.raw_decode(text, at)
        yield entry


@dataclass(frozen=True)
class ReleaseParts:
    """Versions without `v`, but for the images' tags; when its minor was released, and until when it is supported."""

    version: str
    etcd: str
    etcd_image: str
    coredns: str
    pause: str
    agnhost: str
    busybox: str
    released: date
    supported_until: date

    @property
    def images(self) -> dict[str, str]:
        """Return the tag of each image besides Kubernetes' own four."""
        return {
            "etcd": self.etcd_image,
            "coredns": f"v{self.coredns}",
            "pause": self.pause,
            "e2e-test-images/agnhost": self.agnhost,
            "e2e-test-images/busybox": self.busybox,
        }


def read_parts(version: str, limits: ArtifactLimits = LIMITS) -> ReleaseParts:
    """Download a release's sources, and return what belongs to it.

    Raises:
        BadInput: the module proxy does not have it, or its sources do not say it where they used to.
    """
    go = go_toolchain.find_go("1.21", limits)
    try:
        sources = Path(go.download(f"{MODULE}@v{version}")["Dir"])
        first = go.download(f"{MODULE}@v{minor_of(version)}.0")["Info"]
    except proc.CommandFailed as error:
        raise BadInput(
            f"the Go module proxy has no {MODULE} v{version}", hint="GOPROXY names the proxy", detail=error.detail
        ) from error
    released = datetime.fromisoformat(json.loads(Path(first).read_text(encoding="utf-8"))["Time"]).date()
    constants, images = sources / CONSTANTS, sources / IMAGES
    etcd = _found(constants, r'DefaultEtcdVersion = "(\S+)"')
    return ReleaseParts(
        version=version,
        etcd=etcd.partition("-")[0],
        etcd_image=etcd,
        coredns=_found(constants, r'CoreDNSVersion = "v(\S+)"'),
        pause=_found(constants, r'PauseVersion = "(\S+)"'),
        agnhost=_found(images, r'configs\[Agnhost\] = Config\{.*, "agnhost", "(\S+)"\}'),
        busybox=_found(images, r'configs\[BusyBox\] = Config\{.*, "busybox", "(\S+)"\}'),
        released=released,
        supported_until=support_end(released),
    )


def support_end(released: date) -> date:
    """Return the day on which the support of a minor ends that was released on a day."""
    months = released.year * 12 + released.month - 1 + SUPPORTED_MONTHS
    return date(months // 12, months % 12 + 1, LAST_DAY)


def _found(file: Path, pattern: str) -> str:
    match = re.search(pattern, file.read_text(encoding="utf-8")) if file.exists() else None
    if match is None:
        raise BadInput(f"{file} does not say {pattern}", hint="look where this release says it, and write it by hand")
    return match.group(1)


def render_diff(releases: Sequence[ReleaseParts], checkout: Path) -> str:
    """Return one diff that adds Kubernetes releases to a checkout's catalogue.yml and matrix/axes.yml.

    Raises:
        BadInput: the files have no version that a release could follow.
    """
    ordered = sorted(releases, key=lambda parts: numbers(parts.version))
    lines: list[str] = []
    for name, adding in ((CATALOGUE.relative_to(checkout), in_catalogue), (AXES, in_axes)):
        before = after = (checkout / name).read_text(encoding="utf-8")
        for parts in ordered:
            after = adding(after, parts)
        lines += difflib.unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
        )
    return "".join(lines)


def in_catalogue(text: str, parts: ReleaseParts) -> str:
    """Return the catalogue's text with a release before the newest older one: the newest stands first."""
    kubernetes = re.search(r"^kubernetes:\n(?:  .*\n)*", text, re.MULTILINE)
    older = _older(
        parts.version, re.findall(r'^  "([\d.]+)":$', kubernetes.group(), re.MULTILINE) if kubernetes else []
    )
    if not older:
        raise BadInput(f"the catalogue has no Kubernetes older than {parts.version}")
    at = text.index(f'  "{older[-1]}":\n')
    return f"{text[:at]}{ENTRY.format(**vars(parts))}{text[at:]}"


def in_axes(text: str, parts: ReleaseParts) -> str:
    """Return the axes' text with a release behind the newest older one: values go from old to new."""
    own = minor_of(parts.version)
    older = _older(parts.version, re.findall(r'^          cluster_kubernetes_version: "([\d.]+)"$', text, re.MULTILINE))
    block = (
        re.search(rf'^      - id: "{re.escape(older[-1])}"\n(?:        .*\n)*', text, re.MULTILINE) if older else None
    )
    if block is None:
        raise BadInput(f"matrix/axes.yml has no Kubernetes older than {parts.version}")
    same, others = (
        [version for version in older if minor_of(version) == own],
        [version for version in older if minor_of(version) != own],
    )
    before = [f'patch: "{same[-1]}"'] if same else []
    before += [f'minor: "{others[-1]}"'] if others else []
    value = VALUE.format(
        **vars(parts),
        slug=parts.version.replace(".", ""),
        minor=own,
        before=f"{{{', '.join(before)}}}",
        support=f"{{from: {parts.released}, until: {parts.supported_until}}}",
    )
    return f"{text[: block.end()]}{value}{text[block.end() :]}"


@dataclass(frozen=True)
class Addition:
    """A version for a project's file: the program or `kubernetes`, and the keys of its entry."""

    name: str
    version: str
    entry: Mapping[str, Any]


@dataclass(frozen=True)
class Additions:
    """Versions for a project's file, and what is left out: name to the reason."""

    made: tuple[Addition, ...]
    left_out: Mapping[str, str]


def additions(catalogue: Catalogue, newer: Sequence[Newer], words: Sequence[str], limits: ArtifactLimits) -> Additions:
    """Return patch versions for a project's file, with checksums; what they require is looked for, too.

    Args:
        newer: what sources offer.
        words: NAME, for what is newer of it, or NAME@VERSION; without any, all that is newer.

    Raises:
        BadInput: a word names nothing that can be added, or the sources do not have it.
    """
    named = _named(catalogue, words) if words else {}
    names = {word for word in words if "@" not in word}
    left_out: dict[str, str] = {}
    for release in newer:
        for name in _programs_of(catalogue, release):
            if words and not names & {name, SAME_VERSION.get(name, name)}:
                continue
            if catalogue.of_minor(name, release.version) is None:
                left_out[name] = (
                    f"{release.version} is of a minor that vmatrix does not have; a newer vmatrix may have it"
                )
            else:
                named[name, release.version] = False
    made: dict[tuple[str, str], Addition] = {}
    for (name, version), asked in named.items():
        try:
            made |= {(each.name, each.version): each for each in _addition(catalogue, name, version, limits)}
        except InfraRetriable:
            raise
        except (BadInput, InfraError) as error:
            if asked:
                raise
            left_out[f"{name} {version}"] = error.summary
    return Additions(tuple(made.values()), left_out)


def _named(catalogue: Catalogue, words: Sequence[str]) -> dict[tuple[str, str], bool]:
    """Return the versions that words name, each with what always has the same version. Raises BadInput."""
    names = (KUBERNETES, *(name for name in catalogue.programs if catalogue.shape_of(name) is not None))
    chosen: dict[tuple[str, str], bool] = {}
    for word in words:
        name, at, version = word.partition("@")
        if name not in names:
            raise BadInput(unknown("program", name, names), hint="vmatrix artifacts list")
        if name != KUBERNETES and catalogue.programs[name].versions == KUBERNETES:
            raise BadInput(f"{name} is built with all of Kubernetes", hint=f"name that: {KUBERNETES}{at}{version}")
        if not at:
            continue
        if re.fullmatch(PATCH, version) is None or catalogue.of_minor(name, version) is None:
            known = ", ".join(dict.fromkeys(map(minor_of, catalogue.versions_of(name))))
            raise BadInput(
                f"{word} is not a patch version of a minor that vmatrix has of {name}: {known}",
                hint="name a patch version of one of these; another minor needs another vmatrix",
            )
        if version in catalogue.versions_of(name):
            raise BadInput(f"{name} {version} is known already", hint="vmatrix artifacts list")
        others = [other for other, same in SAME_VERSION.items() if same == name]
        chosen |= {(each, version): True for each in (name, *others)}
    return chosen


def _programs_of(catalogue: Catalogue, release: Newer) -> tuple[str, ...]:
    """Return what is built from the module of a newer release: programs, or Kubernetes as such."""
    if release.module == KUBERNETES:
        return (KUBERNETES,)
    programs = {name: program for name, program in catalogue.programs.items() if program.versions != KUBERNETES}
    return tuple(
        name for name, program in programs.items() if program.recipes(release.listed).gomod.module == release.module
    )


def _addition(catalogue: Catalogue, name: str, version: str, limits: ArtifactLimits) -> Iterator[Addition]:
    """Yield a version, after what it needs and the catalogue does not have."""
    entry: dict[str, Any] = {"sums": gomod.sums_of(catalogue, name, version, limits)}
    if name == KUBERNETES:
        base, parts = catalogue.kubernetes[str(catalogue.of_minor(name, version))], read_parts(version, limits)
        if parts.etcd != base.etcd:
            entry["etcd"] = parts.etcd
        images = {image: tag for image, tag in parts.images.items() if base.images.get(image) != tag}
        entry |= {"images": images} if images else {}
        for needed, other in (("etcd", parts.etcd), ("etcdutl", parts.etcd), ("coredns", parts.coredns)):
            if other not in catalogue.versions(needed):
                yield from _addition(catalogue, needed, other, limits)
    module = KUBERNETES if name == KUBERNETES else catalogue.near(name, version).gomod.module
    gomod.GeneratedModule(catalogue, module, version, entry["sums"], f"{name} {version}").obtain(limits)
    yield Addition(name, version, entry)


NEW_FILE = """\
# yaml-language-server: $schema=../docs/schemas/artifacts.json
# Patch versions of programs besides those of vmatrix's catalogue (docs/artifacts.md).
"""
STEP = 2  # columns of a level


def with_versions(text: str, added: Sequence[Addition]) -> str:
    """Return a project's file with more versions, each behind those of its program; all else stays as it is.

    Raises:
        BadInput: the file is written in a way that cannot be added to.
    """
    for addition in added:
        text = _with_version(text or NEW_FILE, addition)
    return text


def _with_version(text: str, addition: Addition) -> str:
    text = text if text.endswith("\n") else f"{text}\n"
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    top = _block(root, "artifacts") if root is not None else None
    if top is None:
        return f"{text}artifacts:\n{_lines({addition.name: {addition.version: addition.entry}}, STEP)}"
    programs = top[1]
    if not programs.value:  # nothing, or {}
        comment, _, rest = text[programs.end_mark.index :].partition("\n")
        entry = _lines({addition.name: {addition.version: addition.entry}}, STEP)
        return f"{text[: top[0].end_mark.index]}:{comment.rstrip()}\n{entry}{rest}"
    known = _block(programs, addition.name)
    node, new = (
        (programs, {addition.name: {addition.version: addition.entry}})
        if known is None
        else (known[1], {addition.version: addition.entry})
    )
    if not isinstance(node, yaml.MappingNode) or node.flow_style or not node.value:
        raise BadInput(
            f"{ADDED}:{node.start_mark.line + 1}: the versions stand in one line, where none can be added",
            hint="write each key in a line of its own",
        )
    at = _last_line(node) + 1
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:at], _lines(new, node.value[0][0].start_mark.column), *lines[at:]])


def _block(mapping: Any, key: str) -> tuple[Any, Any] | None:
    """Return the nodes of a key and its value."""
    pairs = mapping.value if isinstance(mapping, yaml.MappingNode) else ()
    return next(((name, value) for name, value in pairs if name.value == key), None)


def _last_line(node: Any) -> int:
    """Return the number of the last line of a node, from 0; comments behind it are not part of it."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        return int(node.end_mark.line)
    last = node.value[-1]
    return _last_line(last[1] if isinstance(last, tuple) else last)


def _lines(data: Mapping[str, Any], column: int) -> str:
    """Render data as YAML in blocks, with versions in quotes."""
    made = []
    for key, value in data.items():
        name = f'"{key}"' if re.fullmatch(r"[\d.]+", key) else key
        if isinstance(value, Mapping):
            made.append(f"{' ' * column}{name}:\n{_lines(value, column + STEP)}")
        else:
            made.append(f"{' ' * column}{name}: {json.dumps(value)}\n")
    return "".join(made)


def _older(version: str, known: Iterable[str]) -> list[str]:
    """Return the versions before one, oldest first."""
    return sorted((candidate for candidate in known if numbers(candidate) < numbers(version)), key=numbers)
