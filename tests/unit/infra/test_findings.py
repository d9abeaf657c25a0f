"""Findings are said all at once, with commands that can be pasted."""

from __future__ import annotations

import pytest

from harness.errors import EXIT_BAD_INPUT, BadInput
from harness.infra.findings import Finding, fatal, raise_if_any, remedies

NO_ROOT = Finding("this is user 1000, not root", "mounts are root's", "sudo -E vmatrix ...")
NO_NSPAWN = Finding("no systemd-nspawn", "it boots machines", "apt-get install --yes systemd-container")
NO_QEMU = Finding("no qemu-img", "disks are converted with it", "apt-get install --yes qemu-utils")
FEW_INOTIFY = Finding("few inotify instances", "machines share them", "sysctl -w x=1", fatal=False)


def test_advice_alone_does_not_stop_anything() -> None:
    raise_if_any([FEW_INOTIFY])
    assert fatal([FEW_INOTIFY, NO_ROOT]) == [NO_ROOT]


def test_a_single_finding_is_the_summary_and_its_remedy_the_hint() -> None:
    with pytest.raises(BadInput) as caught:
        raise_if_any([NO_ROOT, FEW_INOTIFY])
    assert caught.value.exit_code == EXIT_BAD_INPUT
    assert caught.value.summary == "this is user 1000, not root: mounts are root's"
    assert caught.value.hint == "sudo -E vmatrix ..."


def test_several_findings_come_in_one_error_with_every_remedy() -> None:
    with pytest.raises(BadInput) as caught:
        raise_if_any([NO_ROOT, NO_NSPAWN, NO_QEMU])
    assert caught.value.summary.startswith("3 things are missing: ")
    for finding in (NO_ROOT, NO_NSPAWN, NO_QEMU):
        assert finding.what in caught.value.summary
        assert finding.why in caught.value.detail
    assert "apt-get install --yes qemu-utils systemd-container" in caught.value.hint
    assert "sudo -E vmatrix ..." in caught.value.hint


def test_packages_are_installed_by_one_command_each_named_once() -> None:
    assert remedies([NO_QEMU, NO_ROOT, NO_NSPAWN, NO_QEMU]) == [
        "apt-get install --yes qemu-utils systemd-container",
        "sudo -E vmatrix ...",
    ]
