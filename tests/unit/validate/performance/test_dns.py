"""What dnsperf prints (Debian's 2.14), read."""

from __future__ import annotations

import pytest

from harness.validate.performance.dns import DnsTimes, dns_times

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
