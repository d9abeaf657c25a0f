"""A machine tells how it looks up names, what limits its agents, and whether the API answers its kubelet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.validate.machine import setup


def test_name_servers_domains_and_options_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "# written by somebody\nnameserver 192.0.2.53\nsearch example.com\noptions ndots:2\n"
    monkeypatch.setattr(setup, "read", lambda _: text)
    assert setup.resolv_conf("nameserver") == [["nameserver", "192.0.2.53"]]
    assert setup.resolv_conf("search", "options") == [["search", "example.com"], ["options", "ndots:2"]]


def test_names_are_looked_up_as_programs_do(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"cp-0": "192.0.2.1      STREAM cp-0\n192.0.2.1      DGRAM\n"}
    monkeypatch.setattr(setup, "said", lambda argv: texts.get(argv[-1], ""))
    assert setup.resolved(["cp-0", "w-0"]) == {"cp-0": ["192.0.2.1"], "w-0": []}
    monkeypatch.undo()
    assert setup.resolved(["localhost"]) == {"localhost": ["127.0.0.1"]}


V2 = {
    "/proc/7/cgroup": "0::/system.slice/kubelet.service\n",
    "/sys/fs/cgroup/system.slice/kubelet.service/cpu.max": "max 100000\n",
    "/sys/fs/cgroup/system.slice/kubelet.service/memory.max": "max\n",
    "/sys/fs/cgroup/system.slice/cpu.max": "90000 100000\n",
    "/sys/fs/cgroup/cpu.max": "200000 100000\n",
}
V1 = {
    "/proc/7/cgroup": "9:name=systemd:/system.slice\n4:memory:/fault\n1:cpu:/\n0::/\n",
    "/sys/fs/cgroup/memory/fault/memory.limit_in_bytes": "5000000\n",
    "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n",
}


@pytest.mark.parametrize(
    ("files", "path", "value"),
    [
        (V2, "/sys/fs/cgroup/system.slice/cpu.max", "90000 100000"),
        (V1, "/sys/fs/cgroup/memory/fault/memory.limit_in_bytes", "5000000"),
    ],
    ids=["v2", "v1"],
)
def test_limits_are_those_of_the_group_and_of_all_above_but_the_machine(
    monkeypatch: pytest.MonkeyPatch, files: dict[str, str], path: str, value: str
) -> None:
    monkeypatch.setattr(setup, "processes", lambda *_: [{"pid": 7, "name": "kubelet"}])
    monkeypatch.setattr(setup, "read", files.get)
    assert setup.limits() == [["kubelet", path, value]]
    monkeypatch.setattr(setup, "read", {**files, path: "9223372036854771712" if files is V1 else "max"}.get)
    assert setup.limits() == []


def test_servers_of_registries_are_told_by_file(tmp_path: Path) -> None:
    (tmp_path / "mirror:5000").mkdir()
    file = tmp_path / "mirror:5000" / "hosts.toml"
    file.write_text("server = 'http://mirror:5000'\n[host.'http://192.0.2.1:5000']\n", encoding="utf-8")
    assert setup.servers(str(tmp_path)) == {str(file): ["http://192.0.2.1:5000", "http://mirror:5000"]}
    assert setup.servers("") == {}


def test_an_api_that_does_not_answer_kubelet_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubeconfig = tmp_path / "kubelet.conf"
    kubeconfig.write_text("    server: https://127.0.0.1:9\n    certificate-authority: /nowhere\n", encoding="utf-8")
    process = {"argv": ["kubelet", f"--kubeconfig={kubeconfig}"]}
    monkeypatch.setattr(setup, "processes", lambda *_: [process])
    found = setup.api_of_kubelet()
    assert found is not None
    assert (found["server"], found["status"]) == ("https://127.0.0.1:9", 0)
    assert "/nowhere" in found["body"]
    monkeypatch.setattr(setup, "processes", lambda *_: [])
    assert setup.api_of_kubelet() is None


def test_images_and_registries_of_crio_are_read_from_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, registries = tmp_path / "images.json", tmp_path / "10-cluster.conf"
    digest = "sha256:" + "a" * 64
    names = ["registry:5000/pause:3.10.1", f"registry:5000/pause@{digest}"]
    kept.write_text(json.dumps([{"id": "1", "digest": digest, "names": names}, {"id": "2", "digest": digest}]))
    registries.write_text("[[registry]]\nlocation = 'registry:5000'\n", encoding="utf-8")
    monkeypatch.setattr(setup, "CRIO_IMAGES", str(kept))
    monkeypatch.setattr(setup, "REGISTRIES", (f"{tmp_path}/*.conf",))
    monkeypatch.setattr(setup, "processes", lambda *names: [{"argv": ["crio"]}] if "crio" in names else [])
    assert setup.images() == {"registry:5000/pause:3.10.1": digest}
    assert setup.registries_conf() == {str(registries): "[[registry]]\nlocation = 'registry:5000'\n"}


def test_a_machine_without_crio_has_no_registries_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "processes", lambda *_: [])
    assert setup.registries_conf() == {}


@pytest.mark.parametrize(
    ("line", "setting"),
    [
        ("StateDirectorySymlink=etcd:", {}),  # as systemd 257 shows every StateDirectory
        ("StateDirectorySymlink=etcd: more:", {}),
        ("StateDirectorySymlink=etcd:elsewhere", {"StateDirectorySymlink": "etcd:elsewhere"}),
        ("StateDirectorySymlink=", {}),
    ],
)
def test_a_folder_of_a_unit_without_a_link_is_no_other_setting(
    line: str, setting: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = (
        f"Id=etcd.service\nLoadState=loaded\nStateDirectory=etcd\n{line}\n\nId={setup.NO_UNIT}\nLoadState=not-found\n"
    )
    monkeypatch.setattr(setup, "said", lambda argv: shown if setup.NO_UNIT in argv else "")
    assert setup.unit_settings(["etcd.service"])["etcd.service"]["settings"] == {"StateDirectory": "etcd", **setting}
