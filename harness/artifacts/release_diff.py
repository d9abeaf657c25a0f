"""The lines that add a release to the catalogue and to the axes, as a unified diff that `git apply` takes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.artifacts.catalogue import CATALOGUE
from harness.artifacts.newer import minor, numbers
from harness.artifacts.release_parts import ReleaseParts
from harness.errors import BadInput

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


def diff(releases: Sequence[ReleaseParts], checkout: Path) -> str:
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
    found = _older(
        parts.version, re.findall(r'^  "([\d.]+)":$', kubernetes.group(), re.MULTILINE) if kubernetes else []
    )
    if not found:
        raise BadInput(f"the catalogue has no Kubernetes older than {parts.version}")
    at = text.index(f'  "{found[-1]}":\n')
    return f"{text[:at]}{ENTRY.format(**vars(parts))}{text[at:]}"


def in_axes(text: str, parts: ReleaseParts) -> str:
    """Return the axes' text with a release behind the newest older one: values go from old to new."""
    own = minor(parts.version)
    older = _older(parts.version, re.findall(r'^          cluster_kubernetes_version: "([\d.]+)"$', text, re.MULTILINE))
    block = (
        re.search(rf'^      - id: "{re.escape(older[-1])}"\n(?:        .*\n)*', text, re.MULTILINE) if older else None
    )
    if block is None:
        raise BadInput(f"matrix/axes.yml has no Kubernetes older than {parts.version}")
    same, others = [one for one in older if minor(one) == own], [one for one in older if minor(one) != own]
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


def _older(version: str, known: Iterable[str]) -> list[str]:
    """Return the versions before one, oldest first."""
    return sorted((one for one in known if numbers(one) < numbers(version)), key=numbers)
