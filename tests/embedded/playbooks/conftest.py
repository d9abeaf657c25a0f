"""Fresh machines with a mirror, on an instance index of the session's own, and the playbooks run on them by hand."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path

import pytest
import yaml

from harness import paths, proc
from harness.artifacts import disk, refs
from harness.artifacts.recipe import silent
from harness.artifacts.serving import Supply
from harness.artifacts.store import Store
from harness.embedded.machines import Machines, MachineSpec, Names
from harness.infra import guest_facts
from harness.infra.host import preflight
from harness.kube.client import Cluster
from harness.kube.resources import NODE
from harness.machines.runner.playbook_output import Recap, recap
from harness.model import Cell, Mirror, PlannedMachine
from harness.plan import make_cell
from harness.plan.tiers import tier_cells
from harness.spec import load_spec
from harness.until import Deadline, NotYet, until
from harness.validate.inspection import STATE
from tests.embedded.bridges import instance_address

INDEXES, NETWORK = (13, 12, 11), 1  # indices that no embedded infra gets: those count from 0
USER = "debian"
PKI = "/etc/kubernetes/pki/etcd"
ETCDCTL = f"etcdctl --cacert {PKI}/ca.crt --cert {PKI}/healthcheck-client.crt --key {PKI}/healthcheck-client.key"
KUBECTL = "sudo kubectl --kubeconfig /etc/kubernetes/admin.conf"
SSH = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]


@dataclass(frozen=True)
class Bench:
    """Where machines are made: their runtime, a golden disk, a key, and what the playbooks are told."""

    machines: Machines
    directory: Path
    golden: Path
    key: Path
    mirror: Mirror

    @property
    def kubeconfig(self) -> Path:
        """Return the file that the playbooks make."""
        return self.directory / "kubeconfig"

    def boot(self, cell: Cell) -> None:
        """Boot the cell's machines, wait for their cloud-init, write inventory and variables."""
        self.machines.sweep()
        self.kubeconfig.unlink(missing_ok=True)
        addresses = {planned.name: str(self._address(n)) for n, planned in enumerate(cell.machines)}
        self.machines.ensure_network(NETWORK)
        for number, planned in enumerate(cell.machines):
            self._start(f"a{number}", planned, addresses[planned.name])
        for address in addresses.values():
            until(partial(self._ready, address), deadline=Deadline.after(120), what=f"{address} takes logins")
        access = {"ansible_user": USER, "ansible_ssh_private_key_file": str(self.key)}
        inventory = {
            "all": {
                "vars": {**access, "ansible_ssh_common_args": " ".join(SSH)},
                "hosts": {name: {"ansible_host": address} for name, address in addresses.items()},
                "children": {
                    group: {"hosts": {planned.name: {} for planned in cell.machines if group in planned.groups}}
                    for group in ("control_plane", "etcd", "node")
                },
            }
        }
        given = {
            **cell.vars,
            **guest_facts.guest_vars(),
            "cluster_mirror_url": self.mirror.http,
            "cluster_image_registry": self.mirror.registry,
            "cluster_hosts": [{"name": name, "address": address} for name, address in addresses.items()],
            "cluster_kubeconfig_path": str(self.kubeconfig),
        }
        for file in ("booted.yml", "hosts.yml"):
            (self.directory / file).write_text(yaml.safe_dump(inventory), encoding="utf-8")
        (self.directory / "extra-vars.yml").write_text(yaml.safe_dump(given), encoding="utf-8")

    def list_only(self, *names: str) -> None:
        """Have only these machines in the inventory and among the cluster's hosts, of all that were booted."""
        inventory = yaml.safe_load((self.directory / "booted.yml").read_text(encoding="utf-8"))
        every = inventory["all"]
        for group in (every, *every["children"].values()):
            group["hosts"] = {name: given for name, given in group["hosts"].items() if name in names}
        (self.directory / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
        extra = self.directory / "extra-vars.yml"
        given = yaml.safe_load(extra.read_text(encoding="utf-8"))
        given["cluster_hosts"] = [
            {"name": name, "address": host["ansible_host"]} for name, host in every["hosts"].items()
        ]
        extra.write_text(yaml.safe_dump(given), encoding="utf-8")

    def play(self, *options: str, entry: str = "cluster", timeout: float = 900) -> tuple[Recap, ...]:
        """Run an entry; fail with its output when a task fails."""
        return recap(self.attempt(*options, entry=entry, timeout=timeout, check=True).stdout)

    def attempt(self, *options: str, entry: str, timeout: float = 900, check: bool = False) -> proc.Completed:
        """Run an entry and return how it ended; with `check`, fail with its output when a task failed."""
        playbooks = paths.project_dir() / "playbooks"
        argv: list[str | Path] = [Path(sys.executable).parent / "ansible-playbook", "-i", self.directory / "hosts.yml"]
        argv += ["-e", f"@{self.directory / 'extra-vars.yml'}", playbooks / f"{entry}.yml", *options]
        settings = {"ANSIBLE_CONFIG": str(playbooks / "ansible.cfg"), "ANSIBLE_HOME": str(self.directory / "ansible")}
        done = proc.run(argv, timeout=timeout, env=settings, check=False)
        if check and done.returncode != 0:
            pytest.fail("\n".join(done.stdout.splitlines()[-60:]))
        sys.stdout.write(done.stdout)  # which tasks changed something: pytest shows it when what comes after fails
        return done

    def state(self, machine: int) -> dict[str, dict[str, str]]:
        """Return the whole state of a machine (see machine/state.py), by its place in the inventory."""
        where = f"{USER}@{self._address(machine)}"
        script = STATE.read_text(encoding="utf-8")
        done = proc.run(["ssh", "-i", self.key, *SSH, where, "sudo python3 -"], timeout=120, stdin=script)
        found: dict[str, dict[str, str]] = json.loads(done.stdout)
        return found

    def end(self, machine: int) -> None:
        """Have a machine gone, as by a power failure."""
        self.machines.kill(f"a{machine}")

    def boot_anew(self, cell: Cell, machine: int) -> None:
        """Boot a machine, as it was ordered, from a fresh disk: its name and address, and nothing of what it was."""
        self.end(machine)
        address = str(self._address(machine))
        self._start(f"a{machine}", cell.machines[machine], address)
        until(partial(self._ready, address), deadline=Deadline.after(120), what=f"{address} takes logins")

    def on(self, machine: int, command: str) -> proc.Completed:
        """Run a command on a machine, by its place in the inventory; its status is not checked."""
        where = f"{USER}@{self._address(machine)}"
        return proc.run(["ssh", "-i", self.key, *SSH, where, command], timeout=120, check=False)

    def _address(self, number: int) -> IPv4Address:
        return self.machines.names.network(NETWORK)[2 + number]

    def _start(self, machine_id: str, planned: PlannedMachine, address: str) -> None:
        clone = self.directory / f"{planned.name}.raw"
        proc.run(["cp", "--reflink=auto", "--sparse=always", self.golden, clone], timeout=60)
        public = self.key.with_suffix(".pub").read_text(encoding="utf-8").strip()
        user = {"name": USER, "sudo": "ALL=(ALL) NOPASSWD:ALL", "shell": "/bin/bash", "ssh_authorized_keys": [public]}
        self.machines.start(
            MachineSpec(
                id=machine_id,
                namespace_index=NETWORK,
                hostname=planned.name,
                address=address,
                disk=clone,
                cpus=planned.cpus,
                memory_mib=planned.memory_mib,
                user_data="#cloud-config\n" + yaml.safe_dump({"users": [user], "manage_etc_hosts": "localhost"}),
                network_data="",
                instance_id=f"i-{secrets.token_hex(4)}",
            )
        )

    def _ready(self, address: str) -> bool | NotYet:
        where = ["-o", "ConnectTimeout=2", f"{USER}@{address}"]
        done = proc.run(["ssh", "-i", self.key, *SSH, *where, "cloud-init status --wait"], timeout=60, check=False)
        return True if "status: done" in done.stdout else NotYet(done.stderr.strip() or done.stdout.strip())


def answers(url: str) -> bool | NotYet:
    """Tell whether something answers at an address, be it with an error."""
    try:
        urllib.request.urlopen(url, timeout=2).close()  # noqa: S310 - an address of this test
    except urllib.error.HTTPError:
        return True
    except OSError as error:
        return NotYet(str(error))
    return True


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the Debian 13 disk as a raw file; fail with what is missing rather than skip."""
    if os.geteuid() != 0:
        pytest.fail("these tests boot real machines and need root")
    missing = preflight.unmet([*preflight.PROGRAMS, *preflight.BUILDERS, *preflight.KERNEL])
    if missing:
        pytest.fail("\n".join(f"{item.what} is missing ({item.why}): {item.remedy}" for item in missing))
    cache = disk.ImageCache()
    built = cache.ensure(disk.load(paths.project_dir() / "matrix" / "images.yml").find("debian-13"))
    raw = tmp_path_factory.mktemp("golden") / "debian-13.raw"
    proc.run(["qemu-img", "convert", "-O", "raw", cache.path(built), raw], timeout=120)
    yield raw
    raw.unlink()


@pytest.fixture(scope="session")
def index() -> Iterator[int]:
    """Take an instance index; two sessions with the same one would take each other's machines away."""
    for number in INDEXES:
        with Path(f"/run/lock/vmatrix-playbook-tests-{number}").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield number
            return
    pytest.fail(f"{len(INDEXES)} sessions of these tests run already; wait for one of them to end")


@pytest.fixture(scope="session")
def mirror(index: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    """Serve every binary and image of the smoke cell to the machines of this instance."""
    store, logs = Store(), tmp_path_factory.mktemp("mirror")
    smoke = tier_cells(load_spec(paths.project_dir() / "matrix"), "smoke", "embedded")[0]
    version = str(smoke.vars["cluster_kubernetes_version"])
    supply = Supply(version, refs.images(store.catalogue, version, smoke.vars), store)
    store.ensure(refs.for_cell(store.catalogue, smoke.vars), silent)
    names = Names(index)
    served = Mirror(f"http://{names.instance_address}:8080", f"{names.instance_address}:5000")
    services = []
    with instance_address(names):
        try:
            for name, port, command in (("mirror", 8080, supply.mirror), ("registry", 5000, supply.registry)):
                started = command(f"{names.instance_address}:{port}")
                services.append(proc.spawn(started.argv, log=logs / f"{name}.log", env=started.env))
            for url in (served.http, f"http://{served.registry}/v2/"):
                until(partial(answers, url), deadline=Deadline.after(30), what=f"{url} answers", interval=0.1)
            supply.publish(served.registry)
            yield served
        finally:
            for service in services:
                service.stop(grace=5)


@pytest.fixture(scope="module")
def bench(index: int, golden: Path, mirror: Mirror, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Give a place for machines; nothing of them stays."""
    directory = tmp_path_factory.mktemp("bench")
    machines = Machines(directory / "state", index)
    proc.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / "id"], timeout=20)
    yield Bench(machines, directory, golden, directory / "id", mirror)
    machines.sweep()
    for clone in directory.glob("*.raw"):  # gigabytes each
        clone.unlink()


def nodes(bench: Bench) -> set[str]:
    """Return the names of the Nodes, by the kubeconfig that the playbooks left on the controller."""
    return {node["metadata"]["name"] for node in Cluster.from_kubeconfig(bench.kubeconfig).list(NODE).items}


def leaving(*names: str) -> tuple[str, str]:
    """Return the option that says which machines leave the cluster."""
    return "-e", json.dumps({"cluster_remove_nodes": names})


def stacked_members(bench: Bench, machine: int, name: str) -> set[str]:
    """Return the names of etcd's members, by the member that is a static pod on a machine."""
    done = bench.on(machine, f"{KUBECTL} -n kube-system exec etcd-{name} -- {ETCDCTL} member list")
    return member_names(done)


def external_members(bench: Bench, machine: int) -> set[str]:
    """Return the names of etcd's members, by one that has a machine of its own."""
    return member_names(bench.on(machine, f"sudo {ETCDCTL} member list"))


def member_names(listed: proc.Completed) -> set[str]:
    """Return the names in a list of members."""
    assert listed.returncode == 0, listed.stderr
    return {line.split(", ")[2] for line in listed.stdout.splitlines()}


BEFORE, AFTER = "before-the-snapshot", "after-the-snapshot"  # namespaces
MANY, MANY_AFTER = 2000, 500  # objects in them
AT_ONCE = 500  # what kubectl creates in one call


def write_objects(bench: Bench, namespace: str, number: int, machine: int = 0) -> None:
    """Write so many ConfigMaps into a namespace of the cluster, which is made."""
    assert bench.on(machine, f"{KUBECTL} create namespace {namespace}").returncode == 0
    for first in range(1, number + 1, AT_ONCE):
        last = min(first + AT_ONCE - 1, number)
        one = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a&"}, "data": {"number": "&"}}'
        made = f"seq {first} {last} | sed 's/.*/{one}/' | {KUBECTL} create --namespace {namespace} -f - -o name | wc -l"
        done = bench.on(machine, made)
        assert done.stdout.strip() == str(last - first + 1), done.stderr


def snapshot(path: Path) -> tuple[str, str]:
    """Return the option that says where the snapshot lies on the controller."""
    return "-e", f"cluster_etcd_snapshot_path={path}"


def written_objects(bench: Bench, machine: int = 0) -> dict[str, int]:
    """Return how many of these ConfigMaps each of both namespaces has; a namespace without any is left out."""
    done = bench.on(machine, f"{KUBECTL} get configmaps --all-namespaces --no-headers")
    assert done.returncode == 0, done.stderr
    words = [line.split() for line in done.stdout.splitlines()]
    return dict(Counter(space for space, name, *_ in words if space in (BEFORE, AFTER) and name != "kube-root-ca.crt"))


def cell_of(topology: str) -> Cell:
    """Return the smoke cell with another topology."""
    spec = load_spec(paths.project_dir() / "matrix")
    smoke = tier_cells(spec, "smoke", "embedded")[0]
    return make_cell(spec, {**smoke.values, "topology": topology})
