"""The firewall of a network namespace of its own, in which a newer nft has written what this host's may not read."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import paths, proc
from harness.artifacts.recipe import Ref
from harness.artifacts.store import Store

NAMESPACE = "vmatrix-leftovers-test"
SECONDS = 60.0
ROLE_SECONDS = 300.0  # that the role may take, on a host with other work
FLANNEL = Ref("image/flannel", "v0.28.4")  # has the nft of a later Debian
SWEEP = [
    {
        "hosts": "all",
        "gather_facts": False,
        "vars": {"reset_network_plugins": []},
        "tasks": [{"ansible.builtin.include_role": {"name": "reset", "tasks_from": "network"}}],
    }
]
SETS = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("firewall_leftovers", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
for name in sys.argv[2:]:  # as `ipset create NAME hash:ip` does, which this host need not have
    words = ((module.SET_NAME, name.encode() + b"\\0"), (3, b"hash:ip\\0"), (4, b"\\0"))
    made = module.VERSION + b"".join(module.written(*word) for word in (*words, (5, b"\\x02"), (0x8007, b"")))
    list(module.ask(module.message(module.SETS | 2, module.ACKNOWLEDGE, 2, attributes=made)))
print(json.dumps([module.sweep_sets(("KUBE-",), dry=dry) for dry in (True, False, False)]
                 + [module.sweep_sets(("",), dry=True)]))
"""
SEEN = """
import json, sys
from harness.validate.machine.state import ipsets
print(json.dumps(sorted(ipsets())))
"""
RULES = """
table {family} kube-proxy {{
  comment "rules for kube-proxy"
  set cluster-ips {{ type {kind}; comment "Active ClusterIPs"; }}
  map service-ips {{ type {kind} . inet_proto . inet_service : verdict; }}
  chain services {{ {family} daddr . meta l4proto . th dport vmap @service-ips; }}
  chain prerouting {{ type nat hook prerouting priority dstnat; jump services; }}
}}
"""
THEIRS = """
table inet cni_hostport { }
table ip theirs {
  chain input { type filter hook input priority filter; tcp dport 22 accept; }
}
table ip filter {
  chain KUBE-FIREWALL { drop; }
  chain INPUT { type filter hook input priority filter; jump KUBE-FIREWALL; ip saddr 192.0.2.1 accept; }
}
"""


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the tree of an image with a newer nft in it."""
    tree = tmp_path_factory.mktemp("tree")
    layout = Store().obtain(FLANNEL.name, FLANNEL.version).file("index.json").parent
    entry = json.loads((layout / "index.json").read_text(encoding="utf-8"))["manifests"][0]
    manifest = json.loads(blob(layout, entry["digest"]).read_text(encoding="utf-8"))
    for layer in manifest["layers"]:
        proc.run(["tar", "-xf", blob(layout, layer["digest"]), "-C", tree], timeout=SECONDS)
    return tree


@pytest.fixture
def namespace() -> Iterator[None]:
    """Give an empty network namespace."""
    proc.run(["ip", "netns", "add", NAMESPACE], timeout=SECONDS)
    try:
        yield
    finally:
        proc.run(["ip", "netns", "delete", NAMESPACE], timeout=SECONDS)


def blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / Path(*digest.split(":"))


def within(*argv: str | Path, stdin: str = "", seconds: float = SECONDS) -> str:
    """Run a command in the namespace."""
    return proc.run(["ip", "netns", "exec", NAMESPACE, *argv], timeout=seconds, stdin=stdin).stdout


def sweep(place: Path, *options: str) -> str:
    """Have the role reset take away what is in the namespace; return what Ansible said."""
    playbooks = paths.project_dir() / "playbooks"
    (place / "sweep.yml").write_text(json.dumps(SWEEP), encoding="utf-8")
    given = {"ANSIBLE_HOME": place / "ansible", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_LOCALHOST_WARNING": "0"}
    given |= {"ANSIBLE_ROLES_PATH": playbooks / "roles", "ANSIBLE_LIBRARY": playbooks / "library"}
    given |= {"ANSIBLE_FILTER_PLUGINS": playbooks / "filter_plugins"}
    ansible = [str(Path(sys.executable).parent / "ansible-playbook"), "-c", "local", "-i", "here,", *options]
    python = f"ansible_python_interpreter={sys.executable}"
    words = [f"{name}={value}" for name, value in given.items()]
    return within("env", *words, *ansible, "-vv", "-e", python, place / "sweep.yml", seconds=ROLE_SECONDS)


@pytest.mark.usefixtures("namespace")
def test_tables_go_whatever_nft_wrote_them_and_others_rules_stay(newer: Path, tmp_path: Path) -> None:
    ours = RULES.format(family="ip", kind="ipv4_addr") + RULES.format(family="ip6", kind="ipv6_addr")
    within("chroot", newer, "nft", "-f", "-", stdin=THEIRS + ours)
    gone = ["table inet cni_hostport", "table ip kube-proxy", "table ip6 kube-proxy"]
    expected = sweep(tmp_path, "--check")
    assert "changed=2 " in expected
    assert [name for name in (*gone, "KUBE-FIREWALL") if name not in expected] == []
    assert "KUBE-" in within("nft", "list", "chains")
    done = sweep(tmp_path)
    assert "changed=2 " in done
    assert [name for name in gone if name not in done] == []
    left = within("nft", "list", "ruleset")
    assert "tcp dport 22 accept" in left
    assert "192.0.2.1" in left
    assert "KUBE-" not in left
    assert "kube-proxy" not in left
    assert "changed=0 " in sweep(tmp_path)


@pytest.mark.usefixtures("namespace")
def test_ipsets_go_by_the_beginning_of_their_names_and_others_stay() -> None:
    module = paths.project_dir() / "playbooks" / "library" / "firewall_leftovers.py"
    gone = ["set KUBE-DST-1", "set KUBE-SRC-1"]
    said = json.loads(within(sys.executable, "-c", SETS, module, "KUBE-SRC-1", "theirs", "KUBE-DST-1"))
    assert said == [gone, gone, [], ["set theirs"]]
    assert json.loads(within(sys.executable, "-c", SEEN)) == ["theirs"]
    assert json.loads(within(sys.executable, "-c", SETS, module))[3] == ["set theirs"]
