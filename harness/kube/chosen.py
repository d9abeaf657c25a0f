"""What a kubeconfig's context leads to: its cluster and its user, checked as far as that goes without asking anybody.

https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import yaml_text
from harness.errors import BadInput
from harness.kube.failures import Json
from harness.reading import read_text
from harness.urls import WEB, wrong_url

NAMESPACE = "default"  # where a context names none
PROXIES = (*WEB, "socks5", "socks5h")


@dataclass(frozen=True)
class Chosen:
    """A context's cluster and user, and the file that has them."""

    file: Path
    cluster: Json
    user: Json

    @property
    def folder(self) -> Path:
        """Return the folder that paths in the file start from."""
        return self.file.parent.absolute()


def unusable(file: Path, why: str, hint: str = "check the file and the context's name") -> BadInput:
    """Return the error of a kubeconfig that leads nowhere."""
    return BadInput(f"kubeconfig {file} cannot be used: {why}", hint=hint)


def choose(file: Path, context: str | None) -> Chosen:
    """Read a kubeconfig and return what a context (None: its current one) leads to.

    Raises:
        BadInput: the file is missing or malformed, has no such context, or an address in it cannot be one.
    """
    if not os.path.lexists(file):
        raise BadInput(f"kubeconfig {file} does not exist", hint="pass --kubeconfig PATH or bring the infra up first")
    config = _parsed(file)
    found = _context(file, config, context)
    cluster = _named(file, config, "clusters", str(found.get("cluster", "")), "cluster")
    user = _named(file, config, "users", str(found["user"]), "user") if found.get("user") else {}
    _refuse_addresses(file, cluster)
    return Chosen(file, cluster, user)


def namespace_of(file: Path) -> str:
    """Return the namespace of a kubeconfig's current context. Raises BadInput if it has no such context."""
    return str(_context(file, _parsed(file), None).get("namespace") or NAMESPACE)


def _context(file: Path, config: Json, context: str | None) -> Json:
    name = context or config.get("current-context")
    if not name:
        raise unusable(
            file, "it has no current-context", "check the file, or name one of its contexts with the setting `context`"
        )
    return _named(file, config, "contexts", name, "context")


def _parsed(file: Path) -> Json:
    try:
        config = yaml_text.document(read_text(file), file)
    except BadInput as error:
        raise unusable(file, error.summary.removeprefix(f"{file}:"), "check the file") from error
    if not isinstance(config, dict):
        raise unusable(file, "it is no kubeconfig, but " + ("empty" if config is None else type(config).__name__))
    return config


def _named(file: Path, config: Json, kind: str, name: str, content: str) -> Json:
    """Return the entry of a kind by its name."""
    entries: Any = config.get(kind) or []
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise unusable(file, f"{kind} is no list of entries with a name")
    entry = next((one for one in entries if one.get("name") == name), None)
    if entry is None:
        known = ", ".join(str(one.get("name")) for one in entries) or "none"
        raise unusable(file, f"it has no {content} {name!r} (it has {known})")
    inner = entry.get(content)
    if inner is not None and not isinstance(inner, dict):
        raise unusable(file, f"{content} {name!r} is no mapping")
    return inner or {}


def _refuse_addresses(file: Path, cluster: Json) -> None:
    """Refuse a server or a proxy that cannot be connected to."""
    for key, schemes in (("server", WEB), ("proxy-url", PROXIES)):
        given = cluster.get(key)
        wrong = wrong_url(str(given or ""), schemes) if given is not None or key == "server" else ""
        if wrong:
            raise unusable(file, f"{key} {str(given or '')!r}: {wrong}", f"correct `{key}` of the cluster in the file")
