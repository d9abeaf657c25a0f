"""The instance's registry for pods of a kind cluster: plain HTTP at an address of this host, by name in an image."""

from __future__ import annotations

from harness.errors import InfraError
from harness.infra.kind.engine import Engine

FOLDER = "/etc/containerd/certs.d"  # containerd reads it at each pull


def know(engine: Engine, node: str, registry: str) -> None:
    """Have a node's containerd pull images of a registry (HOST:PORT) without TLS.

    Raises:
        InfraError: the node did not take it.
    """
    folder = f"{FOLDER}/{registry}"
    text = f'server = "http://{registry}"\n\n[host."http://{registry}"]\n  capabilities = ["pull", "resolve"]\n'
    words = ("sh", "-c", 'mkdir -p "$1" && printf %s "$2" >"$1/hosts.toml"', "sh", folder, text)
    done = engine.inside(node, *words, check=False)
    if done.returncode != 0:
        raise InfraError(
            f"the node {node} cannot be told of the registry {registry}: {(done.stderr or done.stdout).strip()}",
            hint=f"pods would not pull images from it; look at {engine.client} exec {node} ls -l {FOLDER}",
        )
