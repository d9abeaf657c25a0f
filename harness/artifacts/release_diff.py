"""The lines that add a release to the catalogue and to the axes, as a unified diff that `git apply` takes."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from harness.artifacts.catalogue import CATALOGUE
from harness.artifacts.newer import Newer, minor, numbers
from harness.artifacts.release_parts import ReleaseParts
from harness.errors import BadInput

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


def diff(found: Newer, parts: ReleaseParts, checkout: Path) -> str:
    """Return the diff that adds a Kubernetes release to a checkout's catalogue.yml and matrix/axes.yml.

    Args:
        found: the release, and the version behind which it goes.
    Raises:
        BadInput: the files do not have that version.
    """
    changed = {
        CATALOGUE.relative_to(checkout): in_catalogue(CATALOGUE.read_text(encoding="utf-8"), found, parts),
        Path("matrix/axes.yml"): in_axes((checkout / "matrix" / "axes.yml").read_text(encoding="utf-8"), found, parts),
    }
    lines: list[str] = []
    for name, after in changed.items():
        before = (checkout / name).read_text(encoding="utf-8")
        lines += difflib.unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
        )
    return "".join(lines)


def in_catalogue(text: str, found: Newer, parts: ReleaseParts) -> str:
    """Return the catalogue's text with a release before the one that it follows: the newest stands first."""
    at = re.search(rf'^  "{re.escape(found.listed)}":\n', text, re.MULTILINE)
    if at is None:
        raise BadInput(f"the catalogue has no Kubernetes {found.listed}")
    return f"{text[: at.start()]}{ENTRY.format(**vars(parts))}{text[at.start() :]}"


def in_axes(text: str, found: Newer, parts: ReleaseParts) -> str:
    """Return the axes' text with a release behind the one that it follows: values go from old to new."""
    block = re.search(rf'^      - id: "{re.escape(found.listed)}"\n(?:        .*\n)*', text, re.MULTILINE)
    if block is None:
        raise BadInput(f"matrix/axes.yml has no Kubernetes {found.listed}")
    older = found.listed if not found.patch else _value(r"before: \{.*?minor: \"(\S+?)\"", block.group())
    before = [f'patch: "{found.listed}"'] if found.patch else []
    before += [f'minor: "{older}"'] if older else []
    until = f"{{from: {parts.released}, until: {parts.supported_until}}}"
    value = VALUE.format(
        **vars(parts),
        slug="".join(str(number) for number in numbers(parts.version)),
        minor=minor(parts.version),
        before=f"{{{', '.join(before)}}}",
        support=until,
    )
    return f"{text[: block.end()]}{value}{text[block.end() :]}"


def _value(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found.group(1) if found else ""
