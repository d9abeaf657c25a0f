"""What machines print of their files is read, and what is not as expected is refused."""

from __future__ import annotations

import pytest

from harness.validate.facts.files import OpenSocket, files_of
from tests.unit.validate.kept import recorded


def test_a_recording_is_read() -> None:
    seen = files_of(recorded("files-w-0.json"))
    assert seen.executables["kubelet"].same is True
    assert {one.port for one in seen.listening if not one.local} == {10250, 10256}
    assert seen.written["/var/lib/kubelet/pki"].closed == ""


def test_what_is_malformed_is_refused() -> None:
    with pytest.raises(KeyError):
        files_of({"files": {}})


@pytest.mark.parametrize(("address", "local"), [("127.0.0.1", True), ("::1", True), ("*", False), ("::", False)])
def test_loopback_is_known(address: str, local: bool) -> None:
    assert OpenSocket(address, 1, "kubelet").local is local
