"""What iperf3, sockperf and dnsperf print, read; how long Services took to answer."""

from __future__ import annotations

import json

import pytest

from harness.validate.performance.network import (
    DnsTimes,
    FirstAnswers,
    dns_times,
    first_answers,
    median_of,
    round_trip_of,
    taken,
    targets,
    throughput_of,
)

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


PRINTED = """\
DNS Performance Testing Tool
Version 2.14.0

[Status] Command line: dnsperf -s 10.95.0.10 -d /tmp/questions -c 4 -l 6 -Q 200
[Status] Sending queries (to 10.95.0.10:53)
[Status] Testing complete (time limit)

Statistics:

  Queries sent:         1200
  Queries completed:    1199 (99.92%)
  Queries lost:         1 (0.08%)

  Response codes:       NOERROR 1199 (100.00%)
  Average packet size:  request 54, response 106
  Run time (s):         6.000281
  Queries per second:   199.823975

  Average Latency (s):  0.000412 (min 0.000101, max 0.015702)
  Latency StdDev (s):   0.000611
"""


def test_the_numbers_are_found() -> None:
    assert dns_times(PRINTED) == DnsTimes(0.000412, 199.823975, 1200, 1199)


def test_a_number_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="no latency"):
        dns_times(PRINTED.replace("Average Latency", "Latency"))


ADDRESSES = ["10.95.0.1", "10.95.0.2", "10.95.0.3"]


def test_clocks_that_may_agree_do() -> None:
    found = first_answers({"began": 100.2, "ended": 110.0, "first": {"10.95.0.1:80": 105.0}}, 100.0, 110.3)
    assert found == FirstAnswers(100.2, {"10.95.0.1:80": 105.0})


def test_a_clock_that_is_ahead_is_set_back() -> None:
    found = first_answers({"began": 160.2, "ended": 170.0, "first": {"10.95.0.1:80": 165.0}}, 100.0, 110.2)
    assert abs(found.began - 100.2) <= 0.2
    assert abs(found.first["10.95.0.1:80"] - 105.0) <= 0.2


def test_a_service_that_never_answered_is_told_from_one_that_did() -> None:
    found = FirstAnswers(0.0, {"10.95.0.1:80": 2.5, "10.95.0.3:80": 5.0})
    assert taken([2.0, 3.0, 4.0], ADDRESSES, found) == [0.5, None, 1.0]


def test_what_had_an_endpoint_before_the_node_asked_says_nothing() -> None:
    assert taken([2.0, 3.0, 4.0], ADDRESSES, FirstAnswers(3.5, {"10.95.0.3:80": 4.25})) == [0.25]


def test_an_answer_before_its_endpoint_took_no_time() -> None:
    assert taken([2.0], ADDRESSES[:1], FirstAnswers(0.0, {"10.95.0.1:80": 1.99})) == [0.0]


def test_the_median_is_of_those_that_answered() -> None:
    assert median_of([0.5, None, 1.5, 0.7]) == 0.7
