"""Lists of checksums."""

from __future__ import annotations

from harness.artifacts.download import listed


def test_a_list_of_checksums_is_searched_by_file_name() -> None:
    text = f"{'a' * 64}  etcd-v1-linux-arm64.tar.gz\n{'b' * 64} *./etcd-v1-linux-amd64.tar.gz\n"
    assert listed(text, "etcd-v1-linux-amd64.tar.gz") == f"sha256:{'b' * 64}"
