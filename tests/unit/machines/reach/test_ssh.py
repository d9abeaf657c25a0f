"""How ssh is called: directly, or with a command that leads through the API; and whose fault a cut on that way is."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import Blame, InfraRetriable, ProductError
from harness.machines.inventory import inventory
from harness.machines.reach.portforward import Tunnels, note
from harness.machines.reach.ssh import OWNER, Owner, control_directory, held, ssh_command, ssh_options, sweep, through
from harness.machines.runner.playbook import blamed
from harness.machines.runner.playbook_output import failure_of
from harness.model import Cell, Environment, Machine, PlannedMachine
from harness.proc import Completed
from harness.providers.kubeconfig import within

KEY = Path("/runs/a b/id_ed25519")
FAILED = 'TASK [control_plane : Initialise] ***\nfatal: [cp-0]: FAILED! => {"msg": "non-zero return code"}\n'


def machine(name: str, address: str, tunnels: Path | None) -> Machine:
    return Machine(PlannedMachine(name, ("control_plane",), 1, 512, 10, "i"), address, 22, "debian", tunnels)


def environment(folder: Path, tunnels: Path | None) -> Environment:
    machines = (machine("cp-0", "10.9.9.2", tunnels), machine("w-0", "10.9.9.3", tunnels))
    cell = Cell("c", {}, "fresh", (), (), {})
    return Environment("run111", cell, 1, "ns", machines, folder, KEY)


def test_a_machine_is_reached_at_its_address() -> None:
    command = ssh_command(machine("cp-0", "10.9.9.2", None), KEY)
    assert command[-1] == "debian@10.9.9.2"
    assert "ProxyCommand" not in " ".join(command)


def way(folder: Path, open_seconds: float = 20.0) -> Path:
    """Write how machines are reached through the API; return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tunnels.json"
    Tunnels(folder / "kubeconfig", None, "ns", {}, folder / "log", open_seconds).save(path)
    return path


def test_a_machine_is_reached_through_the_api_under_the_same_name(tmp_path: Path) -> None:
    path = way(tmp_path / "100%" / "a b")
    command = ssh_command(machine("cp-0", "10.9.9.2", path), KEY)
    proxy = next(word for word in command if word.startswith("ProxyCommand="))
    words = shlex.split(proxy.removeprefix("ProxyCommand="))
    assert command[-1] == "debian@10.9.9.2"
    assert words[1:] == [
        "-P",
        "-m",
        "harness.machines.reach.portforward",
        f"{tmp_path}/100%%/a b/tunnels.json",
        "%h",
        "%p",
    ]


def test_ssh_is_as_patient_as_the_way_through_the_api(tmp_path: Path) -> None:
    assert "ConnectTimeout=5" in ssh_options(KEY)
    assert "ConnectTimeout=15" in ssh_options(KEY, connect_seconds=15.0)
    slow = replace(machine("cp-0", "10.9.9.2", None), connect_seconds=50.0)
    assert "ConnectTimeout=50" in ssh_command(slow, KEY)
    assert "ConnectTimeout=30" in ssh_options(KEY, through=way(tmp_path))
    assert "ConnectTimeout=210" in ssh_options(KEY, through=way(tmp_path, 200.0))
    assert Tunnels.load(way(tmp_path, 200.0)).open_seconds == 200


def test_a_way_that_was_written_by_an_earlier_version_is_read(tmp_path: Path) -> None:
    path = way(tmp_path, 200.0)
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["open_seconds"]
    path.write_text(json.dumps(content), encoding="utf-8")
    assert Tunnels.load(path).open_seconds == 20


def test_ansible_goes_the_same_way(tmp_path: Path) -> None:
    hosts = inventory(environment(tmp_path, way(tmp_path)))["all"]["hosts"]
    options = shlex.split(hosts["w-0"]["ansible_ssh_common_args"])
    assert options == ssh_options(KEY, through=tmp_path / "tunnels.json")[2:]
    assert hosts["w-0"]["ansible_host"] == "10.9.9.3"


def failed(folder: Path, cut: str, *, at_port: int = 22) -> ProductError | InfraRetriable:
    """Return the error of a playbook that failed on cp-0 while the way to a machine was cut."""
    path, log = folder / "tunnels.json", folder / "tunnels.log"
    Tunnels(folder / "kubeconfig", None, "ns", {"10.9.9.2": "cp-0", "10.9.9.3": "w-0"}, log).save(path)
    if cut:
        note(log, cut, at_port, "the connection was lost")
    done = Completed(("ansible-playbook",), 2, FAILED, "", 1.0)
    cell = environment(folder, path)
    failure = failure_of(done, Path("cluster.yml"), Path("deploy.log"))
    error = blamed(failure, {"cp-0"}, cell.names, cell.tunnels, 0.0)
    assert isinstance(error, ProductError | InfraRetriable)
    return error


def test_a_task_that_failed_after_its_way_was_cut_is_the_infras_fault(tmp_path: Path) -> None:
    error = failed(tmp_path, "10.9.9.2")
    assert (error.blame, error.exit_code) == (Blame.INFRA, 75)
    assert "the connection to cp-0 was lost 1 times during the phase: the connection was lost" in error.summary
    assert "task [control_plane : Initialise] failed on cp-0" in error.detail
    assert error.paths == (Path("deploy.log"),)


@pytest.mark.parametrize(("cut", "port"), [("", 22), ("10.9.9.3", 22), ("10.9.9.2", 6443)])
def test_a_task_that_failed_with_its_way_whole_is_the_products_fault(tmp_path: Path, cut: str, port: int) -> None:
    assert failed(tmp_path, cut, at_port=port).blame == Blame.PRODUCT


def test_a_cut_before_the_playbook_is_forgotten(tmp_path: Path) -> None:
    path, log = tmp_path / "tunnels.json", tmp_path / "tunnels.log"
    Tunnels(tmp_path / "kubeconfig", None, "ns", {"10.9.9.2": "cp-0"}, log).save(path)
    note(log, "10.9.9.2", 22, "lost")
    (lost,) = Tunnels.load(path).lost_since(0.0)
    assert Tunnels.load(path).lost_since(lost.at + 0.001) == []


def test_a_guests_kubeconfig_keeps_its_server_behind_a_proxy(tmp_path: Path) -> None:
    own = tmp_path / "kubeconfig"
    own.write_text("clusters: [{name: g, cluster: {server: 'https://10.9.9.2:6443'}}]\n", encoding="utf-8")
    made = through(own, "http://127.0.0.1:4711", tmp_path / "kubeconfig.proxied")
    text = made.read_text(encoding="utf-8")
    assert "https://10.9.9.2:6443" in text
    assert "proxy-url: http://127.0.0.1:4711" in text
    assert made.stat().st_mode & 0o077 == 0
    assert "proxy-url" not in own.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("server", "host", "inside"),
    [
        ("https://10.96.0.1:443", "10.96.0.1", True),
        ("https://kubernetes.default.svc", "10.96.0.1", True),
        ("https://[fd00::1]:443", "fd00::1", True),
        ("https://other.example:6443", "10.96.0.1", False),
        ("https://10.96.0.1:443", "", False),
    ],
)
def test_a_pod_knows_its_own_cluster(server: str, host: str, inside: bool) -> None:
    assert within(server, {"KUBERNETES_SERVICE_HOST": host} if host else {}) is inside


HERE, ELSEWHERE = Path("/state/here/kubeconfig"), Path("/state/elsewhere/kubeconfig")
HOUR = 3600.0
HOLDER = """
import sys, time
from pathlib import Path
from harness.machines.reach.ssh import Owner, held
with held(Path(sys.argv[1]), Owner(sys.argv[2], float(sys.argv[3]))):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Return another process that holds the folder of a cell of the infra cluster HERE."""
    with holding(control_directory("run111", "cell"), time.time() + HOUR) as process:
        yield process
        process.kill()


def holding(folder: Path, expires_at: float) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", HOLDER, str(folder), str(HERE), str(expires_at)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_the_folder_of_a_living_run_stays_whatever_became_of_its_infra_cluster(
    holder: subprocess.Popen[str],
) -> None:
    assert sweep(HERE) == []
    assert control_directory("run111", "cell").is_dir()
    assert holder.poll() is None


def test_the_folder_of_a_killed_run_goes_with_its_infra_cluster_alone(holder: subprocess.Popen[str]) -> None:
    folder = control_directory("run111", "cell")
    (folder / "ansible").mkdir()
    holder.kill()
    holder.wait()
    assert sweep(ELSEWHERE) == []
    assert sweep() == []
    assert folder.is_dir()
    assert sweep(HERE) == [folder]
    assert not folder.exists()


def test_the_folder_of_an_expired_cell_goes_once_nobody_holds_it() -> None:
    folder = control_directory("run111", "cell")
    with holding(folder, time.time() - 1) as process:
        assert sweep() == []
        process.kill()
    assert sweep() == [folder]


def test_a_folder_is_taken_over_from_a_dead_process_and_held_again() -> None:
    folder = control_directory("run111", "cell")
    with holding(folder, time.time() - 1) as process:
        process.kill()
    with held(folder, Owner(str(HERE), time.time() + HOUR)):
        assert sweep(HERE) == []
    assert sweep(HERE) == [folder]


def test_folders_of_others_are_not_judged() -> None:
    unowned, unread = control_directory("run111", "a"), control_directory("run111", "b")
    unowned.mkdir()
    (unowned / "socket").touch()
    unread.mkdir()
    (unread / OWNER).write_text('{"later": true}')
    assert sweep(HERE) == []
    assert unowned.is_dir()
    assert unread.is_dir()


def test_what_a_process_leaves_that_is_killed_before_it_writes_anything_goes() -> None:
    empty, silent = (control_directory("run111", cell) for cell in "ab")
    empty.mkdir()
    silent.mkdir()
    (silent / OWNER).touch()
    assert sweep() == sorted([empty, silent])
    assert not empty.exists()
    assert not silent.exists()


def test_a_folder_that_is_taken_away_while_it_is_made_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = control_directory("run111", "cell")
    real = Path.mkdir
    taken: list[Path] = []

    def mkdir(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        real(path, mode, parents, exist_ok)
        if not taken:
            taken.extend(sweep())

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with held(folder, Owner(str(HERE), time.time() + HOUR)):
        assert (folder / OWNER).read_text()
    assert taken == [folder]


def test_a_folder_that_a_playbook_has_made_anew_goes_when_it_is_done(tmp_path: Path) -> None:
    folder = control_directory("run111", "cell")
    (folder / "ansible").mkdir(parents=True)
    socket = folder / "ansible" / "socket"
    socket.touch()
    assert sweep() == []
    assert socket.exists()
    socket.unlink()
    assert sweep() == [folder]
    assert not folder.exists()
