"""What an etcd member's metrics say, read."""

from __future__ import annotations

from harness.validate.performance.etcd_times import histograms_of

LINES = [
    'etcd_disk_wal_fsync_duration_seconds_bucket{le="0.001"} 10',
    'etcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf"} 20',
    "etcd_disk_wal_fsync_duration_seconds_sum 0.05",
    "etcd_disk_wal_fsync_duration_seconds_count 20",
    'etcd_disk_backend_commit_duration_seconds_bucket{le="+Inf"} 4',
    "etcd_disk_backend_commit_duration_seconds_sum 0.08",
]


def test_both_histograms_are_found() -> None:
    found = histograms_of({"lines": LINES, "error": ""})
    assert {name: (one.count, one.mean) for name, one in found.items()} == {"fsync": (20, 0.0025), "commit": (4, 0.02)}


def test_a_machine_without_etcd_has_none() -> None:
    assert histograms_of(None) == {}
    assert histograms_of({"lines": [], "error": "refused"}) == {}
