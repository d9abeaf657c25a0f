"""What names tell of a network plugin, and what the doctor makes of it."""

from __future__ import annotations

import pytest

from harness.infra.cluster.enforcement import Known, check_enforcement, known


@pytest.mark.parametrize(
    ("groups", "images", "name", "enforces"),
    [
        ({"crd.projectcalico.org"}, {"docker.io/flannel/flannel:v0.27.0"}, "Calico", True),
        ({"cilium.io"}, set(), "Cilium", True),
        (set(), {"docker.io/kindest/kindnetd:v20240513-cd2ac642"}, "kindnet", False),
        (set(), {"docker.io/kindest/kindnetd:v20240813-c6f155d6"}, "kindnet", True),
        (set(), {"ghcr.io/flannel-io/flannel:v0.27.0"}, "flannel", False),
        (set(), {"docker.io/cloudnativelabs/kube-router@sha256:00"}, "kube-router", True),
        ({"apps"}, {"docker.io/library/nginx:1"}, "the network plugin", None),
    ],
)
def test_a_plugin_is_known_by_its_groups_and_images(
    groups: set[str], images: set[str], name: str, enforces: bool | None
) -> None:
    assert known(groups, images) == Known(name, enforces)


@pytest.mark.parametrize(
    ("plugin", "tried", "said"),
    [
        (Known(), True, ""),
        (Known("flannel", enforces=False), True, ""),
        (Known("Calico", enforces=True), None, ""),
        (Known("Calico", enforces=True), False, "are not enforced (a dry run with two pods showed it)"),
        (Known("flannel", enforces=False), None, "are not enforced (flannel is known not to)"),
        (Known(), None, "not checked whether NetworkPolicies are enforced (no image)"),
    ],
)
def test_what_was_tried_counts_more_than_a_name(plugin: Known, tried: bool | None, said: str) -> None:
    found = list(check_enforcement(plugin, tried, "no image"))
    assert len(found) == bool(said)
    assert all(said in finding.what and not finding.fatal for finding in found)
