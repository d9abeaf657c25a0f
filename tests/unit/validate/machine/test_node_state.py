"""A machine tells whether programs could start once more, and what pods have left."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.validate.machine import node_state

DATA = '{"entries":{}}'


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("cpu_manager_state", '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}', ""),
        ("cpu_manager_state", '{"policyName":"none","defaultCpuSet":"","checksum":1}', "checksum"),
        ("cpu_manager_state", '{"policyName":"static","checksum":1}', ""),
        ("memory_manager_state", '{"policyName":"None","machineState":{},"checksum":4236770233}', ""),
        ("memory_manager_state", '{"policyName":"None"', "not JSON"),
        ("allocated_pods_state", json.dumps({"data": DATA, "checksum": node_state.fnv(f"(string){DATA}")}), ""),
        ("allocated_pods_state", json.dumps({"data": DATA, "checksum": 7}), "checksum"),
        ("dra_manager_state", "[]", "not a JSON object"),
        ("dra_manager_state", "", "not JSON"),
    ],
)
def test_a_checkpoint_that_kubelet_could_not_read_is_told(name: str, text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    found = node_state.unreadable(str(tmp_path / name))
    assert words in found
    assert bool(found) is bool(words)


def test_the_checksum_is_kubelets() -> None:
    assert node_state.fnv("") == 0x811C9DC5
    assert node_state.fnv("a") == 0xE40C292C  # of the FNV's own test vectors


def database(size: int = 4096 * 4, magic: bytes = node_state.BOLT) -> bytes:
    head = b"\0" * 16 + magic + b"\x02\0\0\0" + (4096).to_bytes(4, "little")
    return head + b"\0" * (size - len(head))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (database(), ""),
        (database(magic=b"none"), "not a database"),
        (database(4096 * 4 - 9), "ends within"),
        (b"", "not a"),
    ],
)
def test_a_database_that_cannot_be_opened_is_told(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "db").write_bytes(content)
    found = node_state.broken(str(tmp_path / "db"))
    assert words in found
    assert bool(found) is bool(words)


def etcd(folder: Path) -> list[dict[str, Any]]:
    return [{"name": "etcd", "argv": ["etcd", f"--data-dir={folder}"], "settings": {}, "pid": os.getpid()}]


@pytest.mark.parametrize(
    ("numbers", "words"), [((0,), ""), ((3, 4, 5), ""), ((3, 5), "what follows"), ((), "there is none")]
)
def test_a_log_with_a_gap_is_told(numbers: tuple[int, ...], words: str, tmp_path: Path) -> None:
    (tmp_path / "member/wal").mkdir(parents=True)
    for number in numbers:
        (tmp_path / f"member/wal/{number:016x}-{number:016x}.wal").write_text("x", encoding="utf-8")
    (found,) = node_state.missing_logs(etcd(tmp_path)).values()
    assert words in found
    assert bool(found) is bool(words)


def test_a_file_that_is_open_and_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_state, "STATE", (str(tmp_path),))
    path = tmp_path / "db"
    with path.open("w", encoding="utf-8"):
        path.unlink()
        assert node_state.removed([{"name": "etcd", "pid": os.getpid()}]) == [["etcd", str(path)]]
    assert node_state.removed([{"name": "etcd", "pid": os.getpid()}]) == []


FLAGS = "--bootstrap-kubeconfig=/b --config=/c --kubeconfig=/k"
KUBESPRAYS = """\
# of kubespray
KUBELET_ARGS="--bootstrap-kubeconfig=/b \\
--config=/c \\
--kubeconfig=/k \\
  --extra=1"
PATH=/usr/bin
"""


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("A=b\n", {"A": "b"}),
        ("A=b", {"A": "b"}),
        ("A=\nB=c\n", {"A": "", "B": "c"}),
        ("A=", {"A": ""}),
        ("# A=b\n; B=c\n\nC=d\n", {"C": "d"}),
        ("  A = b c  \n", {"A": "b c"}),
        ('A="b  c"\n', {"A": "b  c"}),
        ("A='b  c'\n", {"A": "b  c"}),
        ("A='b\n\\c'\nB=d\n", {"A": "b\n\\c", "B": "d"}),
        ('A="b\nc"\n', {"A": "b\nc"}),
        ('A="b \\\nc"\nB=d\n', {"A": "b c", "B": "d"}),
        ("A=b \\\nc\nB=d\n", {"A": "b c", "B": "d"}),
        ('A="a\\"b\\\\c\\$d\\`e\\f"\n', {"A": 'a"b\\c$d`e\\f'}),
        ('A=a\\ \\"b\n', {"A": 'a "b'}),
        ('A=x"y"\n', {"A": 'x"y"'}),
        ("A=\"x\" 'y' z\n", {"A": "xyz"}),
        ("A=b # c\n", {"A": "b # c"}),
        ("A=b\r\nB=c\r\n", {"A": "b", "B": "c"}),
        ('A="b\n', {"A": "b\n"}),
        ("A=b\\", {"A": "b"}),
        ("1A=b\nno assignment\nB=c\n", {"B": "c"}),
        ("A=b\nA=c\n", {"A": "c"}),
        (
            KUBESPRAYS,
            {"KUBELET_ARGS": f"{FLAGS}   --extra=1", "PATH": "/usr/bin"},
        ),
    ],
)
def test_files_of_variables_are_read_as_systemd_does(text: str, given: dict[str, str]) -> None:
    assert node_state.environment_file(text) == given


@pytest.mark.parametrize(
    ("words", "given", "line"),
    [
        (["/bin/x", "$ARGS"], {"ARGS": "--a --b=1"}, ["/bin/x", "--a", "--b=1"]),
        (["/bin/x", "$ARGS"], {"ARGS": "--a='b c' \"d\""}, ["/bin/x", "--a=b c", "d"]),
        (["/bin/x", "$ARGS"], {"ARGS": "it's"}, ["/bin/x", "it's"]),
        (["/bin/x", "$ARGS"], {}, ["/bin/x"]),
        (["/bin/x", "--n=${NAME}"], {"NAME": "w-0"}, ["/bin/x", "--n=w-0"]),
        (["/bin/x", "--n=$NAME"], {"NAME": "w-0"}, ["/bin/x", "--n=$NAME"]),
        (["/bin/x", "--cost=$$5"], {}, ["/bin/x", "--cost=$5"]),
    ],
)
def test_variables_are_put_into_a_command_line_as_systemd_does(
    words: list[str], given: dict[str, str], line: list[str]
) -> None:
    assert node_state.expanded(words, given) == line


KUBELET = {"name": "kubelet", "pid": 7, "cgroup": "/system.slice/kubelet.service"}


def shown(tmp_path: Path, start: str, files: str = "", own: str = "") -> str:
    """Return what systemctl shows of a kubelet."""
    (tmp_path / "flags.env").write_text(files, encoding="utf-8")
    return (
        f"MainPID=7\nExecStart={{ path=/bin/k ; argv[]={start} ; ignore_errors=no }}\nEnvironment={own}\n"
        f"EnvironmentFiles={tmp_path}/*.env (ignore_errors=yes)"
    )


def test_a_next_start_with_another_command_line_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(tmp_path, "/bin/k --config=c $ARGS", 'ARGS="--v=9 --node-ip=10.0.0.1"\n# x\n')
    monkeypatch.setattr(node_state, "said", lambda argv: text)
    running = {**KUBELET, "argv": ["/bin/k", "--config=c", "--node-ip=10.0.0.1"]}
    assert node_state.command_lines([running]) == {"kubelet": [["--v=9"], []]}
    assert node_state.command_lines([{**running, "pid": 8}]) == {}


@pytest.mark.parametrize(
    ("start", "files", "own", "argv"),
    [
        ("/bin/k $ARGS", KUBESPRAYS.replace("KUBELET_", ""), "", f"{FLAGS} --extra=1"),
        # kubeadm's drop-in: variables of the unit itself, others in a file that may be missing
        ("/bin/k $FROM $CONFIG $NONE", "", '"FROM=--bootstrap-kubeconfig=/b --kubeconfig=/k" CONFIG=--config=/c',
         "--bootstrap-kubeconfig=/b --kubeconfig=/k --config=/c"),
        ("/bin/k $ARGS", "ARGS=--of=file\n", "ARGS=--of=unit", "--of=file"),
        ("/bin/k ${EMPTY} --v=2", "", "", "--v=2"),
    ],
)  # fmt: skip
def test_a_next_start_with_the_same_command_line_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str, files: str, own: str, argv: str
) -> None:
    text = shown(tmp_path, start, files, own)
    monkeypatch.setattr(node_state, "said", lambda argv: text)
    assert node_state.command_lines([{**KUBELET, "argv": ["/bin/k", *argv.split()]}]) == {"kubelet": [[], []]}


def test_an_argument_with_spaces_is_the_same_however_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_state, "said", lambda argv: shown(tmp_path, "/bin/k --labels=a b --v=2"))
    running = {**KUBELET, "argv": ["/bin/k", "--labels=a b", "--v=2"]}
    assert node_state.command_lines([running]) == {"kubelet": [[], []]}


def test_addresses_are_told_with_their_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flannel").mkdir()
    for name, text in (("10.0.0.2", "abc\r\neth0"), ("lock", ""), ("last_reserved_ip.0", "10.0.0.2")):
        (tmp_path / "flannel" / name).write_bytes(text.encode())
    monkeypatch.setattr(node_state, "NETWORKS", f"{tmp_path}/*")
    assert node_state.reservations() == {"flannel": {"10.0.0.2": "abc"}}


def test_pairs_of_interfaces_of_the_machine_itself_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    links = [{"ifname": "veth1", "link_netnsid": 0}, {"ifname": "left0"}]
    monkeypatch.setattr(node_state, "said", lambda argv: json.dumps(links))
    assert node_state.loose_veths() == ["left0"]


@pytest.mark.parametrize(
    ("group", "uid"),
    [
        ("/kubepods/burstable/poddd4e601f-4364-4c9d-981e-207ed76facfc", "dd4e601f-4364-4c9d-981e-207ed76facfc"),
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poddd4e601f_4364_4c9d_981e_207ed76facfc.slice",
            "dd4e601f_4364_4c9d_981e_207ed76facfc",
        ),
        ("/kubepods/burstable/pod28a25e0afcff365089f9b53d08debfb9", "28a25e0afcff365089f9b53d08debfb9"),
        ("/kubepods/burstable", None),
    ],
)
def test_a_pods_id_is_in_its_control_group(group: str, uid: str | None) -> None:
    match = node_state.POD_UID.search(group)
    assert (match.group(1) if match else None) == uid


def test_a_static_pod_runs_where_its_control_group_has_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, ended, other = "a" * 32, "b" * 32, "dd4e601f-4364-4c9d-981e-207ed76facfc"
    for name, process in ((running, "7\n"), (ended, ""), (other, "8\n")):
        container = tmp_path / f"kubepods/burstable/pod{name}/container"
        container.mkdir(parents=True)
        for folder in (container, container.parent):
            (folder / "cgroup.procs").write_text(process if folder == container else "")
    monkeypatch.setattr(node_state, "GROUPS", (f"{tmp_path}/kubepods*",))
    assert node_state.running_static_pods() == [running]
