"""Which image the node of a kind cluster is made of: the one asked for, a published one, or our own."""

from __future__ import annotations

from harness.infra.kind.cluster import Node
from harness.infra.kind.config import KindConfig
from harness.infra.kind.engine import Engine

PUBLISHED = "kindest/node"


def node_image(config: KindConfig, engine: Engine) -> Node:
    """Return the image of the node, which the engine has then, or can pull."""
    if config.node_image is not None:
        return Node(config.node_image, own=False)
    published = f"{PUBLISHED}:v{config.version}"
    if not config.own_node_made():
        if engine.has_image(published) or not engine.pull(published, config.limits.pull):
            return Node(published, own=False)
        config.say(f"{published} cannot be pulled; a node image is built from our own artifacts")
    own = config.own_node()
    if not engine.has_image(own.image):
        config.say(f"loading the node image into {engine.client} (about 20 s)")
        engine.load(own.archive, config.limits.load)
    return Node(own.image, own=True, repository=own.repository)
