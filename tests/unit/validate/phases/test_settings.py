"""Settings are read from what runs; one that is not in force, was there before, or that nobody can see, is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.model import Cell, Phase
from harness.plan import make_cell
from harness.plan.tiers import tier_cells
from harness.spec import load_spec
from harness.spec.project import matrix_dir
from harness.validate.findings import NotJudged, require, together
from harness.validate.phases import settings
from harness.validate.phases.observation import Observation
from harness.validate.phases.settings import RequestedSetting
from tests.unit.validate.guests import Json
from tests.unit.validate.moments import COREFILE, moment

FLAG = RequestedSetting("cluster_apiserver_extra_args", "max-requests-inflight", "350")
ETCD = RequestedSetting("cluster_etcd_extra_args", "snapshot-count", "9000")
KUBELET = RequestedSetting("cluster_kubelet_config", "maxPods", 120)
PROXY = RequestedSetting("cluster_kube_proxy_config", "conntrack.maxPerCore", 0)
CONTAINERD = RequestedSetting("cluster_containerd_config", "max_concurrent_downloads", 4)
CRIO_STOPS = RequestedSetting("cluster_crio_config", "ctr_stop_timeout", 45)
CRIO_OLD = "{}: running CRI-O's ctr_stop_timeout"
CACHE = RequestedSetting("cluster_coredns_cache_seconds", "", 20)
ALL = (FLAG, ETCD, KUBELET, PROXY, CONTAINERD, CACHE)


def flags(raw: Json) -> None:
    for process in raw["processes"]:
        if process["name"] == "kube-apiserver":
            process["argv"].append("--max-requests-inflight=350")
        if process["name"] == "etcd":
            process["argv"] = [word for word in process["argv"] if "snapshot-count" not in word]
            process["argv"] += ["--snapshot-count", "9000"]


def runs(raw: Json) -> None:
    raw["containerd"]["config"] = raw["containerd"]["config"].replace("= 3", "= 4")
    raw["kube_proxy"]["body"] = '{"kubeproxy.config.k8s.io": {"conntrack": {"maxPerCore": 0}}}'
    raw["dns"]["10.243.1.2"]["seconds"] = 20


def changed(**other: Any) -> Observation:
    """Return the guest with every setting as asked for, on all machines, but for what is given."""
    given: dict[str, Any] = {"facts": flags, "corefile": COREFILE.replace("cache 30", "cache 20"), "max_pods": 120}
    both = {name: moment(runs=runs, of=name).running[name] for name in ("cp-0", "w-0")}
    return replace(moment(**{**given, **other}), running=both)


def where(asked: tuple[RequestedSetting, ...], seen: Observation) -> list[str]:
    return [finding.where for finding in settings.not_in_force(asked, seen)]


def test_settings_that_are_in_force_pass() -> None:
    assert settings.not_in_force(ALL, changed()) == []


def test_settings_that_were_others_before_pass() -> None:
    assert settings.not_changed(ALL, moment()) == []


def test_settings_that_are_not_in_force_are_found_on_every_machine() -> None:
    assert where(ALL, moment()) == [
        "cp-0: running kube-apiserver --max-requests-inflight",
        "cp-0: running etcd --snapshot-count",
        "cp-0: running kubelet's maxPods",
        "w-0: running kubelet's maxPods",
        "cp-0: running kube-proxy's conntrack.maxPerCore",
        "w-0: running kube-proxy's conntrack.maxPerCore",
        "cp-0: running containerd's max_concurrent_downloads",
        "w-0: running containerd's max_concurrent_downloads",
        "CoreDNS: `cache` in its Corefile",
        "CoreDNS at 10.243.1.2: longest TTL of an answer",
    ]


def test_settings_that_were_there_before_are_found() -> None:
    found = [finding.where for finding in settings.not_changed(ALL, changed())]
    assert "cp-0: running kube-apiserver --max-requests-inflight, before the phase" in found
    assert "CoreDNS: `cache` in its Corefile, before the phase" in found
    assert len(found) == len(where(ALL, moment())) - 1, "how long DNS answers live is not the same at every moment"


def test_a_machine_that_was_not_seen_is_found() -> None:
    blind = replace(changed(), facts={}, running={}, kubelets={}, coredns={})
    assert len(where(ALL, blind)) == len(where(ALL, moment()))


def test_a_containerd_that_is_older_than_its_files_has_not_read_them() -> None:
    def late(raw: Json) -> None:
        runs(raw)
        raw["containerd"].update(changed=2000.0)

    well = changed()
    seen = replace(well, running={**well.running, "w-0": moment(runs=late, of="w-0").running["w-0"]})
    assert where((CONTAINERD,), seen) == ["w-0: running containerd's max_concurrent_downloads"]


@pytest.mark.parametrize(("seconds", "found"), [(45, []), (30, [CRIO_OLD.format(name) for name in ("cp-0", "w-0")])])
def test_a_setting_of_crio_is_read_from_what_it_runs_with(seconds: int, found: list[str]) -> None:
    def crio(raw: Json) -> None:
        config = f"[crio.runtime]\nctr_stop_timeout = {seconds}\n"
        raw.update(containerd=None, crio={"config": config, "changed": 900.0, "started": 1000.0})

    both = {name: moment(runs=crio, of=name).running[name] for name in ("cp-0", "w-0")}
    assert where((CRIO_STOPS,), replace(moment(), running=both)) == found


def test_coredns_that_has_not_read_its_configuration_is_found() -> None:
    old = moment(corefile=COREFILE.replace("cache 30", "cache 20"))
    assert where((CACHE,), old) == ["CoreDNS at 10.243.1.2: longest TTL of an answer"]


def test_a_coredns_that_does_not_answer_is_found() -> None:
    def silent(raw: Json) -> None:
        raw["dns"]["10.243.1.2"]["seconds"] = 0

    dumb = moment(corefile=COREFILE.replace("cache 30", "cache 20"), runs=silent)
    nobody = replace(dumb, running={"cp-0": dumb.running["cp-0"]})
    assert where((CACHE,), nobody) == ["CoreDNS at 10.243.1.2: longest TTL of an answer"]


def cell(*phases: Json) -> Cell:
    vars_ = {"cluster_pod_cidr": "10.0.0.0/8", "cluster_kubernetes_version": "2"}
    made = tuple(Phase(f"p{at}", vars={**vars_, **given}) for at, given in enumerate(phases))
    return Cell("c", {}, "odd", made, (), vars_)


def test_what_is_asked_for_is_what_the_scenario_adds() -> None:
    asked = {"cluster_kubelet_config": {"maxPods": 120, "evictionHard": {"memory.available": "5%"}}}
    lived = cell({"cluster_kubernetes_version": "1"}, asked, {**asked, "cluster_coredns_cache_seconds": 20})
    assert settings.requested_in(lived, 0) == ()
    assert [one.name for one in settings.requested_in(lived, 1)] == ["maxPods", "evictionHard.memory.available"]
    assert [one.variable for one in settings.first_requested_in(lived, 2)] == ["cluster_coredns_cache_seconds"]


@pytest.mark.parametrize(
    ("runtime", "asked"),
    [
        ("containerd", ["cluster_containerd_config"]),
        ("crio", ["cluster_crio_config"]),
        (None, ["cluster_containerd_config", "cluster_crio_config"]),
    ],
)
def test_settings_of_another_container_runtime_are_not_asked_for(runtime: str | None, asked: list[str]) -> None:
    lived = cell({"cluster_containerd_config": {"stats_collect_period": 5}, "cluster_crio_config": {"pids_limit": 9}})
    if runtime is not None:
        lived = replace(lived, vars={**lived.vars, "cluster_container_runtime": runtime})
    assert [one.variable for one in settings.requested_in(lived, 0)] == asked
    assert settings.not_looked_at(lived, 0) == []


def test_a_variable_that_nobody_sees_is_not_judged_and_named() -> None:
    (found,) = settings.not_looked_at(cell({"cluster_colour": "blue"}), 0)
    assert str(found) == "cluster_colour: no check knows where a running cluster shows it; scenario odd sets it"
    with pytest.raises(NotJudged, match="cluster_colour"):
        require(together([found]), claim="", look="", do="")


def test_every_variable_of_every_shipped_scenario_is_seen() -> None:
    spec = load_spec(matrix_dir())
    one = tier_cells(spec, "smoke", "embedded")[0]
    cells = {name: make_cell(spec, {**one.values, "scenario": name}) for name in spec.scenarios}
    assert {name for name, lived in cells.items() if _asked(lived)} >= {"reconfigure"}
    assert not [name for lived in cells.values() for name in settings.not_looked_at(lived, len(lived.phases) - 1)]


def _asked(cell: Cell) -> tuple[RequestedSetting, ...]:
    return tuple(one for index in range(len(cell.phases)) for one in settings.requested_in(cell, index))
