"""Wrong names, name servers, control planes behind the proxy, and amended units are found."""

from __future__ import annotations

import pytest

from harness.validate.judge.finding import Unjudged
from harness.validate.judge.surroundings import amended_units, silent_api, wrong_backends, wrong_names
from tests.unit.validate import foreign, guests
from tests.unit.validate.surrounded import Change, running, setups

EXPECTED = guests.expected()


def hosts(*lines: list[str]) -> Change:
    return lambda raw: raw.update(hosts=[["127.0.0.1", "localhost"], *lines])


def test_only_a_well_guest_passes() -> None:
    assert wrong_names(running(), setups(), EXPECTED) == []
    assert wrong_backends(running(), EXPECTED) == []
    assert amended_units(setups(), EXPECTED) == []
    assert wrong_names({}, {}, EXPECTED)
    assert wrong_backends({}, EXPECTED)
    assert amended_units({}, EXPECTED)
    assert silent_api(setups(), EXPECTED) == []
    assert silent_api({}, EXPECTED)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (hosts(["192.0.2.9", "cp-0"], ["10.222.1.3", "w-0"]), "cp-0 at ['10.222.1.2']; saw ['192.0.2.9']"),
        (hosts(["10.222.1.3", "w-0"]), "cp-0 at ['10.222.1.2']; saw []"),
        (hosts(["10.222.1.2", "cp-0"], ["10.222.1.3", "w-0"], ["192.0.2.8", "w-9"]), "saw w-9"),
    ],
)
def test_a_wrong_name_is_found(change: Change, words: str) -> None:
    (found,) = wrong_names(running(change), setups(), EXPECTED)
    assert words in str(found)


def test_another_name_server_is_found() -> None:
    (found,) = wrong_names(running(), setups(lambda raw: raw.update(resolvers=["192.0.2.53"])), EXPECTED)
    assert "w-0 /etc/resolv.conf" in str(found)
    assert "192.0.2.53" in str(found)


def test_another_domain_to_look_for_names_in_is_found() -> None:
    (found,) = wrong_names(running(), setups(lambda raw: raw.update(search=["search example.com"])), EXPECTED)
    assert "domains and options as on cp-0, ['search example.net']; saw ['search example.com']" in str(found)


def test_a_name_of_another_machine_at_the_machine_itself_is_found() -> None:
    lines = hosts(["127.0.0.1", "cp-0"], ["127.0.1.1", "w-0"], ["10.222.1.2", "cp-0"], ["10.222.1.3", "w-0"])
    (found,) = wrong_names(running(lines), setups(), EXPECTED)
    assert "w-0 /etc/hosts: expected cp-0 at ['10.222.1.2']; saw ['10.222.1.2', '127.0.0.1']" in str(found)


def test_a_name_that_programs_do_not_find_is_found() -> None:
    (found,) = wrong_names(running(), setups(lambda raw: raw["resolved"].update({"cp-0": []})), EXPECTED)
    assert str(found) == "w-0 getent: expected cp-0 at 10.222.1.2; saw no address"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"server": "https://127.0.0.1:6445", "status": 0, "body": "timed out"}, "saw none: timed out"),
        ({"server": "https://127.0.0.1:6445", "status": 503, "body": "busy"}, "saw 503: busy"),
        (None, "a running kubelet"),
    ],
)
def test_an_api_that_does_not_answer_a_node_is_found(answer: object, words: str) -> None:
    (found,) = silent_api(setups(lambda raw: raw.update(kubelets_api=answer)), EXPECTED)
    assert words in str(found)


def test_a_limit_of_kubelet_is_found() -> None:
    path = "/sys/fs/cgroup/system.slice/kubelet.service/cpu.max"
    (found,) = amended_units(setups(lambda raw: raw["limits"].append(["kubelet", path, "90000 100000"])), EXPECTED)
    assert str(found) == f"w-0 kubelet: expected no limit in {path}; saw 90000 100000"


def test_a_wrong_control_plane_behind_the_proxy_is_found() -> None:
    extra = running(lambda raw: raw["proxy"]["servers"].append(["old", "192.0.2.7:6443"]))
    (found,) = wrong_backends(extra, EXPECTED)
    assert "saw 192.0.2.7:6443" in str(found)
    (found,) = wrong_backends(running(lambda raw: raw["proxy"].update(servers=[])), EXPECTED)
    assert "no cp-0 10.222.1.2:6443" in str(found)
    (found,) = wrong_backends(running(lambda raw: raw.update(proxy=None)), EXPECTED)
    assert "expected a proxy that runs" in str(found)


def test_a_file_that_amends_a_unit_is_found() -> None:
    path = "/run/systemd/system/kubelet.service.d/x.conf"
    (found,) = amended_units(setups(lambda raw: raw["drop_ins"].update({"kubelet.service": [path]})), EXPECTED)
    assert path in str(found)


def test_nothing_is_judged_of_a_product_that_says_nothing() -> None:
    unsaid = guests.expected(leaves=foreign.UNSAID)
    found = [*wrong_names(running(), setups(), unsaid), *wrong_backends(running(), unsaid)]
    found += amended_units(setups(), unsaid)
    assert len(found) == 3
    assert all(isinstance(one, Unjudged) for one in found)
