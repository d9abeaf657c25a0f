"""Every line of CoreDNS's configuration that is not kubeadm's is found."""

from __future__ import annotations

import pytest

from harness.validate.findings import Unjudged
from harness.validate.judge.corefile import LINES, wrong_corefile
from tests.unit.validate import foreign, guests

TEXT = "\n".join(LINES).replace("{domain}", "cluster.local").replace("{cache}", "30")


def test_only_a_well_guest_passes() -> None:
    assert wrong_corefile({"Corefile": TEXT}, guests.expected()) == []
    assert wrong_corefile({"Corefile": TEXT.replace("\n", "\n   ") + "\n"}, guests.expected()) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("forward . /etc/resolv.conf", "forward . 192.0.2.53", "saw `forward . 192.0.2.53 {`"),
        ("errors", "errrors", "saw `errrors`"),
        ("cache 30", "cache 300", "saw `cache 300 {`"),
        ("loop\n", "", "the line `loop`; saw no such line"),
        ("errors\n", "errors\nhosts { }\n", "saw `hosts { }`"),
        ("loop\nreload", "reload\nloop", "kubeadm's order"),
    ],
)
def test_another_line_is_found(old: str, new: str, words: str) -> None:
    assert words in str([str(one) for one in wrong_corefile({"Corefile": TEXT.replace(old, new)}, guests.expected())])


def test_the_cell_decides_how_long_answers_are_kept() -> None:
    variables = {**guests.VARIABLES, "cluster_coredns_cache_seconds": 5}
    assert wrong_corefile({"Corefile": TEXT}, guests.expected(variables=variables))
    assert wrong_corefile({"Corefile": TEXT.replace("cache 30", "cache 5")}, guests.expected(variables=variables)) == []


def test_a_configmap_without_a_corefile_is_found() -> None:
    (found,) = wrong_corefile({"Corefile2": TEXT}, guests.expected())
    assert "expected the key Corefile; saw Corefile2" in str(found)


def test_nothing_is_judged_of_a_product_that_says_nothing() -> None:
    (found,) = wrong_corefile({}, guests.expected(leaves=foreign.UNSAID))
    assert isinstance(found, Unjudged)
