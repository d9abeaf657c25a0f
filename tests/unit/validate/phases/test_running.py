"""What runs has the cell's versions: a process of another version is found, whatever its image is called."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.spec.models.leaves import ClusterLeaves
from harness.validate.findings import real
from harness.validate.phases.running import wrong_running
from tests.unit.validate import foreign
from tests.unit.validate.guests import Json
from tests.unit.validate.moments import moment


def says(name: str, text: str) -> Callable[[Json], None]:
    def change(raw: Json) -> None:
        for one in raw["programs"]:
            one.update({"said": text} if one["name"] == name else {})

    return change


def without(name: str) -> Callable[[Json], None]:
    return lambda raw: raw.update(programs=[one for one in raw["programs"] if one["name"] != name])


def and_also(name: str, text: str) -> Callable[[Json], None]:
    return lambda raw: raw["programs"].append({"name": name, "said": text})


def test_a_healthy_guest_raises_no_alarm() -> None:
    assert wrong_running(moment()) == []


@pytest.mark.parametrize(
    ("machine", "change", "words"),
    [
        ("cp-0", says("kube-scheduler", "Kubernetes v1.35.9"), "cp-0: kube-scheduler, running: expected version"),
        ("w-0", says("containerd", "containerd v2.3.0"), "w-0: containerd, running"),
        ("w-0", says("flanneld", "v0.1.0"), "w-0: flanneld, running"),
        ("w-0", without("flanneld"), "w-0: flanneld, running"),
        ("w-0", and_also("kube-proxy", "sleep 9.7"), "w-0: kube-proxy, running"),
        ("w-0", says("coredns", "CoreDNS-1.12.0"), "CoreDNS, running"),
    ],
)
def test_another_version_is_found(machine: str, change: Callable[[Json], None], words: str) -> None:
    (found,) = wrong_running(moment(runs=change, of=machine))
    assert str(found).startswith(words)


@pytest.mark.parametrize("leaves", [foreign.SAID, foreign.UNSAID], ids=["said", "unsaid"])
def test_the_same_guest_as_another_product_lays_it_out_raises_no_alarm(leaves: ClusterLeaves) -> None:
    assert real(wrong_running(foreign.moment(leaves))) == []
