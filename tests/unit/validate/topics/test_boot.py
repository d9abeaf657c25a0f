"""What the next start of a machine brings or forbids is found, whatever brings it."""

from __future__ import annotations

import pytest

from harness.validate.findings import Unjudged, real
from harness.validate.topics.boot import MODULES, NextBoot, next_boot_of, strange_boot, wrong_boot
from tests.unit.validate import foreign, guests
from tests.unit.validate.changes import put
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.kept import recorded

WANTED, UNSAID = guests.expected(), guests.expected(leaves=foreign.UNSAID)
PORTS = "net.ipv4.ip_local_port_range"


def boots(change: Change = lambda _: None) -> dict[str, NextBoot]:
    """Return what all machines' next starts do, those of w-0 changed."""
    raw = {name: recorded(f"boot-{name}.json") for name in ("cp-0", "w-0")}
    change(raw["w-0"])
    return {name: next_boot_of(one) for name, one in raw.items()}


def test_only_the_next_boot_of_a_well_guest_passes() -> None:
    for judge in (wrong_boot, strange_boot):
        assert judge(boots(), WANTED) == []
        assert judge({}, WANTED)
        assert real(judge(boots(), UNSAID)) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("settings/net.ipv4.ip_forward", ["", ""]), "w-0 sysctl.d: expected net.ipv4.ip_forward '1'; saw ''"),
        (put("settings/net.ipv4.ip_forward", ["0", "/etc/x"]), "saw '0'"),
        (
            put("settings/vm.max_map_count", ["1000", "/etc/sysctl.d/z.conf"]),
            "w-0 /etc/sysctl.d/z.conf: expected vm.max",
        ),
        (put(f"settings/{PORTS}", ["1024 65535", "/etc/x"]), "a range without the NodePorts 30000 to 32767"),
        (put("settings/net.ipv4.conf.all.rp_filter", ["1", "/etc/x"]), "net.ipv4.conf.all.rp_filter one of 0 or 2"),
        (put("modules", ["overlay"]), "w-0 modules-load.d: expected names br_netfilter True"),
        (put("target", "rescue.target"), "w-0 systemd: expected a default target with services"),
        (put("hostname", "other"), "w-0 /etc/hostname: expected the machine's name 'w-0'; saw 'other'"),
        (put("swaps", ["/swap.img"]), "w-0 /etc/fstab: expected swap (); saw ('/swap.img',)"),
    ],
)
def test_what_the_next_start_would_set_otherwise_is_found(change: Change, words: str) -> None:
    (found,) = wrong_boot(boots(change), WANTED)
    assert words in str(found)


def test_what_kubelet_sets_itself_may_be_anything() -> None:
    assert wrong_boot(boots(put("settings/vm.overcommit_memory", ["0", "/etc/x"])), WANTED) == []


def test_swap_is_judged_whatever_the_product_says() -> None:
    assert real(wrong_boot(boots(put("modules", [])), UNSAID)) == []
    assert real(wrong_boot(boots(put("swaps", ["/swap.img"])), UNSAID))


DROPS = "chain forward { type filter hook forward priority 0; policy drop; }"
# What may come with a boot, what is said of it, and whether it is found in a cluster of any product.
BROUGHT: tuple[tuple[Change, str, bool], ...] = (
    (put("never_started", {"tidy.service": "multi-user.target"}), "w-0 tidy.service: expected to be started", False),
    (put("not_enabled", ["chrony.service"]), "w-0 chrony.service: expected to be started at the next boot", False),
    (put("changed", {"/etc/netplan/50.yaml": 60.0}), "w-0 /etc/netplan/50.yaml: expected as it was", False),
    (put("firewalls", [["nftables.service", "/etc/nftables.conf", DROPS, False]]), "w-0 nftables.service", True),
    (put("firewalls", [["firewalld.service", "", "", False]]), "saw it is enabled", True),
    (
        put("firewalls", [["ufw.service", "/etc/ufw/ufw.conf", "ENABLED=yes", True]]),
        "saw /etc/ufw/ufw.conf: ENA",
        False,
    ),
    (put("blocked_modules", [["br-netfilter", "/etc/modprobe.d/x.conf"]]), "module br-netfilter to be loaded", True),
    (put("kernel_words", {"/etc/default/grub": ["cgroup_disable=memory"]}), "saw the next one has cgroup_dis", True),
    (put("kernel_words", {"/etc/kernel/cmdline": ["systemd.unit=rescue.target"]}), "systemd.unit=rescue", True),
    (put("variables", {"/etc/environment": ["HTTPS_PROXY"]}), "no variable HTTPS_PROXY for every program", False),
    (put("variables", {"systemd's environment": ["GODEBUG"]}), "no variable GODEBUG", False),
    (put("variables", {"/etc/ld.so.preload": ["LD_PRELOAD"]}), "no variable LD_PRELOAD", True),
    (put("commands", [["/etc/cron.d/x", "root iptables -F"]]), "w-0 /etc/cron.d/x: expected no command", True),
    (put("commands", [["/etc/rc.local", "/usr/bin/motd"]]), "saw /usr/bin/motd", False),
    (put("mounts", [["/var/lib/etcd", ["defaults"], False]]), "nothing to be mounted at /var/lib/etcd", True),
    (put("mounts", [["/var", ["defaults"], False]]), "nothing to be mounted at /var, as now", True),
    (put("mounts", [["/", ["ro"], True]]), "/ to be mounted for writing; saw ro", True),
    (put("removals", [["/etc/tmpfiles.d/x.conf", "/etc/cni/net.d/*"]]), "w-0 /etc/tmpfiles.d/x.conf", True),
    (put("selinux", ["enforcing", "permissive"]), "expected SELINUX=permissive, as now; saw SELINUX=enforcing", True),
)


@pytest.mark.parametrize(("change", "words", "anywhere"), BROUGHT)
def test_what_the_next_boot_brings_is_found(change: Change, words: str, anywhere: bool) -> None:
    (found,) = strange_boot(boots(change), WANTED)
    assert words in str(found)
    assert bool(real(strange_boot(boots(change), UNSAID))) is anywhere


HARMLESS: tuple[Change, ...] = (
    put("changed", {"/etc/systemd/system/kubelet.service": 90.0}),
    put("blocked_modules", [["pcspkr", "/etc/modprobe.d/x.conf"]]),
    put("kernel_words", {"/etc/default/grub": ["quiet", "console=ttyS0"]}),
    put("variables", {"/etc/environment": ["PATH", "LANG"]}),
    put("mounts", [["/boot/efi", ["defaults"], False], ["/var/lib/etcd", ["noauto"], False]]),
    put("removals", [["/usr/lib/tmpfiles.d/tmp.conf", "/tmp"]]),
    put("selinux", ["enforcing", "enforcing"]),
)


@pytest.mark.parametrize("change", HARMLESS)
def test_what_no_cluster_suffers_from_is_no_finding(change: Change) -> None:
    assert strange_boot(boots(change), WANTED) == []


@pytest.mark.parametrize("module", sorted(MODULES))
def test_each_module_that_a_node_needs_may_not_be_forbidden(module: str) -> None:
    def forbid(raw: Json) -> None:
        raw["blocked_modules"] = [[module, "/etc/modprobe.d/x.conf"]]

    assert strange_boot(boots(forbid), WANTED)


def test_products_that_do_not_say_what_they_write_are_told_so() -> None:
    assert any(isinstance(one, Unjudged) for one in strange_boot(boots(), UNSAID))
