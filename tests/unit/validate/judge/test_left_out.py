"""A cell without kube-proxy must have none, and nothing else is expected of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.validate.expected import LEFT_OUT, ExpectedGuest
from harness.validate.facts.node import HttpAnswer, NodeFacts
from harness.validate.judge.addons import unready_daemon_sets
from harness.validate.judge.node_configuration import wrong_proxy_mode
from harness.validate.judge.node_services import unhealthy_agents
from harness.validate.judge.packets import strayed_rules
from harness.validate.judge.proxy_settings import missing_rules
from harness.validate.judge.system_pods import wrong_image_versions
from harness.validate.variables import SKIPPED, without_kube_proxy
from tests.unit.validate import guests, surrounded, views
from tests.unit.validate.guests import Json


def expected() -> ExpectedGuest:
    return guests.expected(variables={**guests.VARIABLES, SKIPPED: ["addon/kube-proxy"]})


def without(facts: dict[str, NodeFacts]) -> dict[str, NodeFacts]:
    """Return machines on which kube-proxy never ran."""
    found: dict[str, NodeFacts] = {}
    for name, seen in facts.items():
        processes = tuple(one for one in seen.processes if one.name != "kube-proxy")
        silent = HttpAnswer(0, "connection refused")
        answers = {key: silent if "kube-proxy" in key else one for key, one in seen.endpoints.items()}
        tables = tuple(table for table in seen.nft_tables if "kube-proxy" not in table)
        found[name] = replace(seen, processes=processes, endpoints=answers, nft_tables=tables)
    return found


def no_proxy(raw: Json) -> None:
    for kind in ("pods", "daemon_sets"):
        raw[kind][:] = [one for one in raw[kind] if not one["metadata"]["name"].startswith("kube-proxy")]


def test_machines_without_kube_proxy_pass() -> None:
    facts = without(guests.facts())
    assert expected().kube_proxy_mode == LEFT_OUT
    assert wrong_proxy_mode(facts, expected()) == []
    assert unhealthy_agents(facts, expected()) == []
    assert unready_daemon_sets(views.view(no_proxy), expected()) == []
    assert wrong_image_versions(views.view(no_proxy), expected()) == []
    assert strayed_rules(set(), set(), {}, expected()) == []


def test_a_kube_proxy_that_runs_nevertheless_is_found() -> None:
    found = wrong_proxy_mode(guests.facts(), expected())
    assert {one.where for one in found} == {"cp-0", "w-0"}
    assert any("no kube-proxy: the cell leaves it out; saw it runs" in str(one) for one in found)
    (kept,) = unready_daemon_sets(views.view(), expected())
    assert str(kept).startswith("DaemonSet kube-system/kube-proxy: expected not to exist: the cell leaves out")
    rules = missing_rules(set(), surrounded.setups(), expected())
    assert {one.seen for one in rules} == {"it runs"}


def test_only_that_phase_leaves_it_out() -> None:
    assert not without_kube_proxy({SKIPPED: ["show-join-command"]})
    assert not without_kube_proxy({})


def test_a_folder_of_the_cells_own_is_where_certificates_are_expected(tmp_path: Path) -> None:
    folder = str(tmp_path)
    moved = guests.expected(variables={**guests.VARIABLES, "cluster_certificates_folder": folder}).leaves
    assert (moved.certificates, moved.local_api.ca) == (folder, f"{folder}/ca.crt")
    assert guests.OURS.certificates == "/etc/kubernetes/pki"
