"""What the doctor's second pod says, as pods of several network plugins saw it, and what it means for machines."""

from __future__ import annotations

import pytest

from harness.infra.cluster.trial_report import Report, read

PTP = """peer=10.244.0.15
address=2: eth0    inet 10.244.0.14/24 brd 10.244.0.255 scope global eth0
route=default via 10.244.0.1 dev eth0
neighbours=10.244.0.1 lladdr 46:92:1f:33:7e:2f REACHABLE
open=yes
link={link}
gateway=yes
closed={closed}
still_open=yes
"""
# Calico's pods have a /32 and a gateway that is nobody's address; the node answers for it (proxy ARP on its link).
CALICO = PTP.replace("10.244.0.14/24", "10.244.0.14/32").replace("via 10.244.0.1", "via 169.254.1.1")
# The AWS VPC plugin writes the gateway's entry into each pod; the node answers for nobody.
AWS = CALICO.replace("10.244.0.1 lladdr 46:92:1f:33:7e:2f REACHABLE", "169.254.1.1 lladdr 46:92:1f:33:7e:2f PERMANENT")


@pytest.mark.parametrize(
    ("text", "bridged", "enforced"),
    [
        (PTP.format(link="yes", closed="yes"), True, False),
        (PTP.format(link="no", closed="no"), False, True),
        (PTP.format(link="unknown", closed="no"), None, True),
        (CALICO.format(link="no", closed="no"), True, True),
        (AWS.format(link="no", closed="no"), False, True),
        (
            CALICO.replace("10.244.0.1 lladdr", "169.254.1.1 lladdr")
            .replace("gateway=yes", "gateway=unknown")
            .format(link="unknown", closed="no"),
            True,
            True,
        ),
        (CALICO.replace("gateway=yes", "gateway=no").format(link="yes", closed="no"), False, True),
        (PTP.replace("still_open=yes", "still_open=no").format(link="yes", closed="no"), True, None),
    ],
    ids=[
        "proxy ARP",
        "ptp alone",
        "no right to ask",
        "Calico",
        "AWS VPC",
        "Calico, learned",
        "silent gateway",
        "the peer has gone",
    ],
)
def test_the_report_is_read(text: str, bridged: bool | None, enforced: bool | None) -> None:
    report = read(text)
    assert (report.bridged, report.enforced) == (bridged, enforced)
    assert bool(report.why) is (bridged is None)


def test_pods_that_do_not_reach_each_other_tell_nothing() -> None:
    report = read(PTP.replace("open=yes\n", "open=no\n", 1).format(link="no", closed="no"))
    assert (report.bridged, report.enforced) == (None, None)
    assert "do not reach each other" in report.why


@pytest.mark.parametrize("text", ["", "sh: not found"])
def test_a_pod_that_said_nothing_tells_nothing(text: str) -> None:
    assert read(text).bridged is None
    assert read(text).why


def test_an_image_without_ip_still_tells_of_policies() -> None:
    text = PTP.format(link="unknown", closed="yes").replace("inet 10.244.0.14/24", "")
    assert read(text) == Report(None, enforced=False, why="the image has no ip, or the pod no eth0")
