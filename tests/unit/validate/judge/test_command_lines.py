"""A flag that nobody asked for, one that is missing and one with another value are found, and no other."""

from __future__ import annotations

import pytest

from harness.validate.judge.command_lines import strange_flags
from harness.validate.judge.finding import Unjudged
from tests.unit.validate import foreign, guests
from tests.unit.validate.changes import Change, replace_flag


def with_flag(program: str, flag: str) -> Change:
    def change(raw: guests.Json) -> None:
        for process in raw["processes"]:
            if process["name"] == program:
                process["argv"].append(flag)

    return change


def test_only_a_well_guest_passes() -> None:
    assert [str(one) for one in strange_flags(guests.facts(), guests.expected())] == []
    assert strange_flags({}, guests.expected())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            with_flag("kube-apiserver", "--tls-min-version=VersionTLS10"),
            "cp-0 kube-apiserver: expected no flag --tls-m",
        ),
        (with_flag("kubelet", "--max-open-files=5"), "cp-0 kubelet: expected no flag --max-open-files"),
        (replace_flag("kube-scheduler", "--leader-elect=true", "--leader-elect=false"), "saw --leader-elect=false"),
        (
            replace_flag("etcd", "--client-cert-auth=true", "--name=cp-0"),
            "expected --client-cert-auth=true; saw no such",
        ),
        (replace_flag("etcd", "--snapshot-count=10000", "--snapshot-count=9"), "saw --snapshot-count=9"),
    ],
)
def test_a_strange_flag_is_found(change: Change, words: str) -> None:
    (found,) = strange_flags(guests.facts(change), guests.expected())
    assert words in str(found)


def test_kubeadm_of_1_34_names_the_sandbox_image() -> None:
    change = with_flag("kubelet", "--pod-infra-container-image=mirror/pause:3.10.1")
    older = guests.expected(variables={**guests.VARIABLES, "cluster_kubernetes_version": "1.34.4"})
    assert not [one for one in strange_flags(guests.facts(change), older) if "cp-0 kubelet" in str(one)]
    assert "no flag --pod-infra-container-image" in str(strange_flags(guests.facts(change), guests.expected()))


def test_flags_of_the_cell_are_wanted() -> None:
    variables = {**guests.VARIABLES, "cluster_scheduler_extra_args": {"profiling": False}}
    change = with_flag("kube-scheduler", "--profiling=false")
    assert strange_flags(guests.facts(change), guests.expected(variables=variables)) == []
    (found,) = strange_flags(guests.facts(), guests.expected(variables=variables))
    assert "--profiling=false" in str(found)


def test_nothing_is_judged_of_a_product_that_says_nothing() -> None:
    (found,) = strange_flags(guests.facts(), guests.expected(leaves=foreign.UNSAID))
    assert isinstance(found, Unjudged)


@pytest.mark.parametrize("version", ["1.33.4", "1.31.5+k3s1", "1.38.0-alpha.1"])
def test_flags_of_a_minor_that_nobody_knows_are_not_judged(version: str) -> None:
    other = guests.expected(variables={**guests.VARIABLES, "cluster_kubernetes_version": version})
    (found,) = strange_flags(guests.facts(), other)
    assert isinstance(found, Unjudged)
    assert "kubeadm's flags are known for Kubernetes 1.34 to 1.37" in str(found)
