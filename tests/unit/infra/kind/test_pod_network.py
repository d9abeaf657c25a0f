"""Which pod networks need the node's answers, and what a node is told: against an engine that records."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from harness.artifacts.node.rootfs import network
from harness.errors import InfraError
from harness.infra.kind.engine import Engine
from harness.infra.kind.pod_network import FILE, answer_for_pods, plugin_types
from harness.proc import Completed

KINDNET = json.dumps({"cniVersion": "0.3.1", "name": "kindnet", "plugins": [{"type": "ptp"}, {"type": "portmap"}]})
FLANNEL = json.dumps({"name": "cbr0", "plugins": [{"type": "flannel"}, {"type": "portmap"}]})


@dataclass
class Node:
    """A node's answers: its CNI configuration, and how a change ends."""

    configuration: str
    code: int = 0
    scripts: list[str] = field(default_factory=list)
    client: str = "docker"

    def inside(self, container: str, *words: str, check: bool = True) -> Completed:
        self.scripts.append(words[-1])
        if "cat" in words[-1]:
            return Completed(words, 0, self.configuration, "", 0.0)
        return Completed(words, self.code, "", "read-only file system", 0.0)


def engine(node: Node) -> Engine:
    return cast(Engine, node)


@pytest.mark.parametrize("configuration", [KINDNET, json.dumps(network()), ""], ids=["kindnet", "own", "not yet there"])
def test_a_network_of_links_is_answered_for_now_and_after_a_restart(configuration: str) -> None:
    node = Node(configuration)

    assert answer_for_pods(engine(node), "n")

    assert node.scripts[-1] == f"echo 'net.ipv4.conf.all.proxy_arp = 1' >{FILE} && sysctl --quiet --load={FILE}"


def test_another_network_is_left_as_it_is() -> None:
    node = Node(FLANNEL)

    assert not answer_for_pods(engine(node), "n")

    assert len(node.scripts) == 1


def test_a_node_that_refuses_is_an_infra_failure_with_the_command() -> None:
    with pytest.raises(InfraError) as caught:
        answer_for_pods(engine(Node(KINDNET, code=1)), "n")

    assert "read-only file system" in caught.value.summary
    assert "docker exec n sysctl -w net.ipv4.conf.all.proxy_arp=1" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "types"),
    [(KINDNET, ["ptp", "portmap"]), (json.dumps({"type": "bridge"}), ["bridge"]), ("", []), ("{", []), ("[]", [])],
)
def test_the_plugins_of_a_configuration(text: str, types: list[Any]) -> None:
    assert plugin_types(text) == types
