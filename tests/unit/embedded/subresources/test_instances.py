"""What a guest reports without an agent."""

from __future__ import annotations

from pathlib import Path

from harness.embedded.subresources import instances


def test_a_guest_says_what_its_files_say(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text('NAME="Debian GNU/Linux"\nID=debian\nVERSION_ID="13"\n', encoding="utf-8")
    (tmp_path / "etc/hostname").write_text("cp-0\n", encoding="utf-8")
    found = instances.os_info(tmp_path)
    assert (found["hostname"], found["os"]["name"], found["os"]["versionId"]) == ("cp-0", "Debian GNU/Linux", "13")
