"""When the storage class makes no further disk."""

from __future__ import annotations

from pathlib import Path

from harness.embedded.cdi.provisioner import KEPT_FREE_BYTES, no_room


def test_what_is_left_of_the_host_is_kept_for_the_disks_that_are_there(tmp_path: Path) -> None:
    assert no_room(tmp_path, KEPT_FREE_BYTES) == ""
    refused = no_room(tmp_path, KEPT_FREE_BYTES - 2**20)
    assert refused.startswith(f"no space left: 2047 MiB are free below {tmp_path}, and 2048 MiB are kept")
