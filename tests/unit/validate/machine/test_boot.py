"""A machine tells what its next start does: by files, links and what systemd says."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.validate.machine import boot

Write = Callable[[str, str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file below a folder of the test's own."""

    def put(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    return put


def test_lines_are_told_without_comments(write: Write) -> None:
    path = write("a.conf", "# x\n\n  one\n; y\ntwo\n")
    assert list(boot.lines_in(path)) == [(path, "one"), (path, "two")]


def test_files_that_a_boot_reads_are_told_when_they_are_newer(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = write("old.conf", ""), write("new.conf", "")
    since = time.time() - 100
    os.utime(old, (since - 50, since - 50))
    monkeypatch.setattr(boot, "BOOT_FILES", (old, new))
    monkeypatch.setattr(boot, "booted", lambda: since)
    assert list(boot.changed_files()) == [new]


def test_the_start_counts_from_the_end_of_cloud_init(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = write("boot-finished", "")
    later = time.time() + 1000
    os.utime(ended, (later, later))
    monkeypatch.setattr(boot, "CLOUD", (ended,))
    assert boot.booted() == pytest.approx(later, abs=1)


SHOWN = """Id=multi-user.target
Names=multi-user.target
LoadState=loaded
ActiveState=active

Id=tidy.service
Names=tidy.service
LoadState=loaded
ActiveState=inactive
InactiveExitTimestampMonotonic=0
ConditionTimestampMonotonic=0

Id=ran.service
Names=ran.service
LoadState=loaded
ActiveState=inactive
InactiveExitTimestampMonotonic=77
ConditionTimestampMonotonic=77"""


def test_a_unit_that_only_the_next_boot_starts_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot, "said", lambda argv: SHOWN)
    wanted, seen = {"tidy.service": "multi-user.target", "ran.service": "multi-user.target"}, boot.shown(["any"])
    assert boot.never_started(wanted, seen) == {"tidy.service": "multi-user.target"}
    assert boot.never_started({"tidy.service": "graphical.target"}, seen) == {}


def test_a_service_that_runs_until_the_next_boot_is_told() -> None:
    seen = {
        "a.service": {"UnitFileState": "disabled"},
        "b.service": {"UnitFileState": "enabled"},
        "c.service": {"UnitFileState": "disabled", "TriggeredBy": "c.socket"},
    }
    assert boot.not_enabled(list(seen), seen) == ["a.service"]


@pytest.mark.parametrize(
    ("line", "forbids"),
    [
        ("chain forward { type filter hook forward priority 0; policy drop; }", True),
        ("chain forward { type filter hook forward priority 0; policy accept; }", False),
        ("ip saddr 10.0.0.0/8 reject", True),
        (":FORWARD DROP [0:0]", True),
        (":FORWARD ACCEPT [0:0]", False),
        ("-A INPUT -p tcp -j REJECT --reject-with tcp-reset", True),
        ("ENABLED=yes", True),
        ("ENABLED=no", False),
        ("flush ruleset", False),
    ],
)
def test_rules_that_forbid_something_are_told(
    line: str, forbids: bool, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("rules", f"{line}\n")
    monkeypatch.setattr(boot, "FIREWALLS", {"nftables.service": (path,)})
    assert bool(boot.firewalls({"nftables.service": "sysinit.target"}, {})) is forbids
    assert boot.firewalls({}, {}) == []


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("blacklist vxlan", "vxlan"),
        ("install br_netfilter /bin/false", "br_netfilter"),
        ("install overlay /usr/bin/true", "overlay"),
        ("install x /sbin/modprobe --ignore-install x", None),
        ("options kvm nested=1", None),
    ],
)
def test_modules_that_are_forbidden_are_told(
    line: str, module: str | None, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("x.conf", f"{line}\n")
    monkeypatch.setattr(boot, "MODPROBE", (path,))
    assert boot.blocked_modules() == ([[module, path]] if module else [])


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "grub",
            'GRUB_CMDLINE_LINUX="cgroup_disable=memory nosmt=force"\nGRUB_TIMEOUT=5\n',
            ["cgroup_disable=memory", "nosmt=force"],
        ),
        ("grub.cfg", "menuentry x {\n  linux /vmlinuz-6.1 root=/dev/vda1 single\n}\n", ["root=/dev/vda1", "single"]),
        ("entry.conf", "title x\noptions root=/dev/vda1 mem=1G\n", ["mem=1G", "root=/dev/vda1"]),
        ("cmdline", "nosmt=force mem=1G\n", ["mem=1G", "nosmt=force"]),
    ],
)
def test_the_kernels_next_command_line_is_told(
    name: str, text: str, words: list[str], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(name, text)
    monkeypatch.setattr(boot, "COMMAND_LINES", (path,))
    assert boot.kernel_words() == {path: words}


def test_what_runs_once_at_boot_is_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("cron", "SHELL=/bin/sh\n@reboot root iptables -F\n5 * * * * root true\n")
    monkeypatch.setattr(boot, "CRONTABS", (path,))
    assert [path, "root iptables -F"] in boot.commands()


def test_settings_are_told_with_their_file(monkeypatch: pytest.MonkeyPatch) -> None:
    first = "# /etc/sysctl.d/90.conf\n# comment\nnet/ipv4/ip_forward = 1\n-vm.max_map_count=7\n"
    text = f"{first}# /etc/sysctl.d/99.conf\nnet.ipv4.ip_forward=0\n"
    monkeypatch.setattr(boot, "said", lambda argv: text)
    assert boot.settings() == {
        "net.ipv4.ip_forward": ["0", "/etc/sysctl.d/99.conf"],
        "vm.max_map_count": ["7", "/etc/sysctl.d/90.conf"],
    }


def test_the_next_start_tells_its_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "default.target").symlink_to("/usr/lib/systemd/system/rescue.target")
    monkeypatch.setattr(boot, "UNIT_FOLDERS", (str(tmp_path), "/nowhere"))
    monkeypatch.setattr(boot, "said", lambda argv: "")
    boot.main([])
    assert '"target": "rescue.target"' in capsys.readouterr().out
