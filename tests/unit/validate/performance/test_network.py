"""What iperf3 and sockperf print, read; which nodes are asked from which."""

from __future__ import annotations

import json

import pytest

from harness.validate.performance.network import round_trip_of, targets, throughput_of

SOCKPERF = """\
sockperf: == version #3.10-no.git ==
sockperf[CLIENT] send on:sockperf: using recvfrom() to block on socket(s)
sockperf: [Total Run] RunTime=2.000 sec; Warm up time=400 msec; SentMessages=41260; ReceivedMessages=41259
sockperf: ====> avg-rtt=48.437 (std-dev=14.212)
sockperf: Summary: Round trip is 48.437 usec
sockperf: Total 32941 observations; each percentile contains 329.41 observations
sockperf: ---> percentile 99.000 =   93.120
sockperf: ---> percentile 50.000 =   46.512
sockperf: ---> <MIN> observation =   33.011
"""


def test_the_median_round_trip_counts() -> None:
    assert round_trip_of(SOCKPERF) == pytest.approx(46.512e-6)


def test_half_of_a_round_trip_is_doubled() -> None:
    assert round_trip_of(SOCKPERF.replace("Round trip is", "Latency is")) == pytest.approx(93.024e-6)


def test_without_percentiles_the_mean_counts() -> None:
    assert round_trip_of("sockperf: Summary: Latency is 10.000 usec\n") == pytest.approx(20e-6)


def test_the_other_sides_rate_counts() -> None:
    said = {"end": {"sum_sent": {"bits_per_second": 9e9}, "sum_received": {"bits_per_second": 8e9}}}
    assert throughput_of("\n" + json.dumps(said)) == pytest.approx(1000.0)


@pytest.mark.parametrize("text", ["", "iperf3: error", "{}", '{"error": "unable to connect", "end": {}}'])
def test_what_programs_did_not_print_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="printed no"):
        throughput_of(text)
    with pytest.raises(ValueError, match="printed no"):
        round_trip_of(text)


def test_each_node_asks_itself_and_the_next() -> None:
    nodes = ("cp-0", "w-0", "w-1")
    assert [targets(nodes, node) for node in nodes] == [("cp-0", "w-0"), ("w-0", "w-1"), ("w-1", "cp-0")]
    assert targets(("cp-0",), "cp-0") == ("cp-0",)
