"""Files that others may read, programs that are older than their files, and another operating system are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.validate.findings import Unjudged, real
from harness.validate.topics.files import closed_folders, open_files, outdated_processes, wrong_systems
from tests.unit.validate import foreign, guests
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.on_disk import files, mode

JUDGES: dict[str, Callable[..., Any]] = {
    "files": open_files,
    "age": outdated_processes,
    "system": wrong_systems,
    "room": closed_folders,
}
CA_KEY = "/etc/kubernetes/pki/ca.key"
CONFIG = "/var/lib/kubelet/config.yaml"
RELEASES = "/usr/local/lib/releases/kubelet/1.36.1/kubelet"


def newer(program: str, path: str, seconds: float) -> Change:
    return lambda raw: raw["newer"][program].update({path: seconds})


def runs(**other: object) -> Change:
    return lambda raw: raw["executables"]["kubelet"].update(runs=RELEASES, **other)


def place(path: str, octal: int) -> Change:
    return lambda raw: raw["files"].update({path: ["place", octal, 0, 0, False]})


def room(path: str = "/var/log", **other: object) -> Change:
    """Return a place that programs write to, with something in the way."""
    usual: Json = {
        "closed": "",
        "space": 0.5,
        "files": 0.5,
        "locked": [],
        "runs": False,
        "noexec": False,
        "passing": False,
    }
    return lambda raw: raw["written"].update({path: {**usual, **other}})


def folder(path: str, octal: int, owner: int = 0, kind: str = "folder") -> Change:
    return lambda raw: raw["files"].update({path: [kind, octal, owner, 0, False]})


def system(raw: Json) -> None:
    raw["os_release"].update(VERSION_ID="12", VERSION_CODENAME="bookworm")


@pytest.mark.parametrize("judge", JUDGES.values(), ids=JUDGES)
def test_only_a_well_guest_passes(judge: Callable[..., Any]) -> None:
    assert judge(files(), guests.expected()) == []
    assert real(judge({}, guests.expected()))
    assert real(judge(files(), foreign.expected(foreign.UNSAID))) == []


@pytest.mark.parametrize(
    ("judge", "machine", "change", "words"),
    [
        ("files", "cp-0", mode(CA_KEY, 0o644), f"cp-0 {CA_KEY}: expected permissions 0600; saw 0644"),
        ("files", "cp-0", mode(CA_KEY, 0o600, owner=1000), "expected owner 0 (root); saw 1000"),
        ("files", "cp-0", mode("/etc/kubernetes/admin.conf", 0o640), "admin.conf: expected permissions 0600; saw 0640"),
        ("files", "w-0", mode(CA_KEY, 0o600, secret=True), "expected no such file on a worker"),
        ("files", "w-0", mode("/etc/kubernetes/admin.conf", 0o600), "expected no such file on a worker"),
        ("files", "w-0", place("/opt/cni/bin", 0o777), "/opt/cni/bin: expected permissions 0755; saw 0777"),
        ("files", "w-0", mode("/root/.kube/config", 0o600), "/root/.kube/config: expected no such file on a worker"),
        ("room", "w-0", room(closed="read-only"), "/var/log: expected a place that can be written to; saw read-only"),
        ("room", "w-0", room(locked=["/etc/x"]), "w-0 /etc/x: expected a file that can be changed"),
        ("room", "w-0", room("/opt/x", runs=True, noexec=True), "w-0 /opt/x: expected a place from where programs can"),
        ("room", "cp-0", room("/var/lib/etcd", passing=True), "expected a place that outlasts a boot"),
        ("files", "w-0", folder("/etc/kubernetes", 0o777), "w-0 /etc/kubernetes: expected permissions 0755; saw 0777"),
        ("files", "w-0", folder("/etc/kubernetes", 0o775), "expected permissions 0755; saw 0775"),
        ("files", "w-0", folder("/var/lib/kubelet/pki", 0o755, 1000), "expected owner 0 (root); saw 1000"),
        ("files", "w-0", folder("/var/lib", 0o777, kind="above"), "w-0 /var/lib: expected permissions 0775; saw 0777"),
        ("room", "w-0", room(space=0.01), "/var/log: expected 5% of its space free; saw 1.0%"),
        ("room", "w-0", room(files=0.02), "/var/log: expected 5% of its files that there may be free; saw 2.0%"),
        ("files", "w-0", mode(CONFIG, 0o666), f"{CONFIG}: expected permissions 0644; saw 0666"),
        (
            "files",
            "cp-0",
            folder("/var/lib/etcd", 0o755, kind="data"),
            "/var/lib/etcd: expected permissions 0700; saw 0755",
        ),
        ("files", "w-0", mode("/run/containerd/containerd.sock", 0o666), "expected permissions 0660; saw 0666"),
        ("files", "w-0", lambda raw: raw.update(files={}), "w-0: expected a private key"),
        ("age", "w-0", newer("kubelet", CONFIG, 90.0), f"{CONFIG} had changed; saw the file is 90 s newer"),
        ("age", "w-0", newer("containerd", "/etc/containerd/config.toml", 5.0), "w-0 containerd: expected a start"),
        ("age", "w-0", runs(same=False), f"runs /usr/local/bin/kubelet; saw {RELEASES}"),
        ("age", "w-0", runs(own=False, found=None, same=None), f"runs its file; saw {RELEASES}"),
        ("system", "w-0", system, "w-0: expected debian 13, as of its image; saw debian 12"),
        ("system", "w-0", lambda raw: raw.update(os_release={}), "saw no /etc/os-release"),
    ],
)
def test_a_fault_is_found(judge: str, machine: str, change: Change, words: str) -> None:
    (found,) = JUDGES[judge](files(change, of=machine), guests.expected())
    assert words in str(found)


def test_other_products_may_let_a_group_read_keys_but_nobody_else() -> None:
    wanted = foreign.expected(foreign.UNSAID)
    assert open_files(files(mode(CA_KEY, 0o640, owner=997), of="cp-0"), wanted) == []
    assert [one.seen for one in open_files(files(mode(CA_KEY, 0o644), of="cp-0"), wanted)] == ["0644"]


def test_where_nothing_is_known_nothing_is_judged() -> None:
    seen = {name: replace(one, files={}, newer={}, executables={}) for name, one in files().items()}
    for judge in (open_files, outdated_processes):
        (found,) = judge(seen, foreign.expected(foreign.UNSAID))
        assert isinstance(found, Unjudged)
        assert found.whole


@pytest.mark.parametrize(
    ("wanted", "release"),
    [
        (("ubuntu", "24.04"), {"ID": "ubuntu", "VERSION_ID": "24.04", "VERSION_CODENAME": "noble"}),
        (("ubuntu", "noble"), {"ID": "ubuntu", "VERSION_ID": "24.04", "VERSION_CODENAME": "noble"}),
        (("rocky", "9"), {"ID": "rocky", "VERSION_ID": "9.4"}),
        (("opensuse", "15"), {"ID": "opensuse-leap", "VERSION_ID": "15.6"}),
    ],
)
def test_names_of_systems_are_compared_as_people_write_them(wanted: tuple[str, str], release: Json) -> None:
    seen = files(lambda raw: raw.update(os_release=release))
    systems = {**guests.expected().systems, "w-0": wanted}
    assert wrong_systems(seen, replace(guests.expected(), systems=systems)) == []


def test_an_image_that_nobody_describes_is_not_judged() -> None:
    found = wrong_systems(files(), replace(guests.expected(), systems=dict.fromkeys(("cp-0", "w-0"))))
    assert real(found) == []
    assert len(found) == 2


def test_a_group_may_change_programs_of_others_products() -> None:
    shared = files(place("/opt/cni/bin", 0o775))
    assert real(open_files(shared, foreign.expected(foreign.UNSAID))) == []
    assert len(open_files(shared, guests.expected())) == 1
    assert len(real(open_files(files(place("/opt/cni/bin", 0o777)), foreign.expected(foreign.UNSAID)))) == 1


def test_folders_of_others_products_may_be_a_groups_but_not_everybodys() -> None:
    wanted = foreign.expected(foreign.UNSAID)
    assert real(open_files(files(folder("/etc/kubernetes", 0o775, 997)), wanted)) == []
    assert real(open_files(files(folder("/etc/kubernetes", 0o777)), wanted))


def test_nobody_replaces_what_is_anothers_in_a_folder_for_all() -> None:
    assert open_files(files(folder("/tmp", 0o1777, kind="above")), guests.expected()) == []


def test_sockets_that_nobody_else_connects_to_may_be_read() -> None:
    assert open_files(files(folder("/var/lib/kubelet/x.sock", 0o755, kind="socket")), guests.expected()) == []
