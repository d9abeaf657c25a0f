"""An etcd that is not in the inventory, an inventory of etcd alone, and users of etcd: what is refused."""

from __future__ import annotations

import datetime
import json
import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from tests.unit.playbooks.playbook_files import PLAYBOOKS, check_refusal, load, refusal_of, run_here
from tests.unit.playbooks.test_preflight import mistakes
from tests.unit.playbooks.test_templates import answered

URL = "https://192.0.2.21:2379"
ALONE = {"etcd": "cp"}
ELSEWHERE = {"control_plane": "cp", "node": "w"}
BESIDE = {"control_plane": "cp", "etcd": "etcd-0 etcd-1 etcd-2", "node": "w"}
STACKED = {"control_plane": "cp", "etcd": "cp", "node": "w"}
FILES = ("ca.crt", "client.crt", "client.key")
USERS, GONE = "cluster_etcd_users", "cluster_etcd_deleted_prefixes"


def user(name: str, prefix: str) -> dict[str, str]:
    return {"name": name, "prefix": prefix}


# The groups, what is given, and what is said: nothing where it is a request.
REQUESTS: tuple[tuple[dict[str, str], dict[str, Any], str], ...] = (
    (ALONE, {}, ""),
    (ALONE, {"cluster_pod_cidr": "10.0.0.0/16"}, ""),
    (ALONE, {"cluster_runc_version": "", "cluster_coredns_version": "", "cluster_image_registry": ""}, ""),
    (ALONE, {"cluster_etcd_version": "3.5.1"}, "cluster_etcd_version 3.5.1 is unknown"),
    (ALONE, {"cluster_kubernetes_version": "1.33.1"}, "cluster_kubernetes_version 1.33.1 is unknown"),
    ({"etcd": "cp cp-1"}, {}, "two etcd members (cp, cp-1) stop when either fails"),
    (
        {"etcd": "cp", "node": "w"},
        {"cluster_first_control_plane": "cp"},
        "or leave the group node empty for etcd alone",
    ),
    (ALONE, {"cluster_authority_path": "/nowhere"}, "and lacks etcd/ca.crt, etcd/ca.key: name"),
    (ELSEWHERE, {"cluster_etcd_endpoints": [URL]}, ""),
    (ELSEWHERE, {"cluster_etcd_endpoints": ["https://[fd00::21]:2379", URL], "cluster_etcd_prefix": "/registry/a"}, ""),
    (
        ELSEWHERE,
        {"cluster_etcd_endpoints": []},
        "the group etcd is empty: add at least one machine, or set cluster_etcd_en",
    ),
    (
        STACKED,
        {"cluster_etcd_endpoints": [URL]},
        "cluster_etcd_endpoints is set, and the group etcd has cp: use one of both",
    ),
    (
        ALONE,
        {"cluster_etcd_endpoints": [URL]},
        "cluster_etcd_endpoints is set, and the group etcd has cp: use one of both",
    ),
    (ELSEWHERE, {"cluster_etcd_endpoints": "https://a:1"}, "cluster_etcd_endpoints is a text: give a list"),
    (ELSEWHERE, {"cluster_etcd_endpoints": ["http://a:2379"]}, "http://a:2379: give https URLs with a port, such as"),
    (ELSEWHERE, {"cluster_etcd_endpoints": ["https://a"]}, "https://a: give https URLs with a port"),
    (ELSEWHERE, {"cluster_etcd_endpoints": ["https://a:1/b"]}, "https://a:1/b: give https URLs with a port"),
    (ELSEWHERE, {"cluster_etcd_endpoints": [URL, URL]}, "name every member once"),
    (
        ELSEWHERE,
        {"cluster_etcd_endpoints": [URL], "cluster_etcd_client_path": "/nowhere"},
        "lacks ca.crt, client.crt, cl",
    ),
    (
        ELSEWHERE,
        {"cluster_etcd_endpoints": [URL], "cluster_etcd_client_path": ""},
        "is '' and lacks ca.crt, client.crt",
    ),
    *(
        (
            ELSEWHERE,
            {"cluster_etcd_endpoints": [URL], "cluster_etcd_prefix": prefix},
            f"is '{prefix}': begin it with '/'",
        )
        for prefix in ("registry", "", "/", "/a/", "//a", "/a/../b", "/a b")
    ),
    (
        STACKED,
        {"cluster_etcd_prefix": "/a"},
        "it is for an etcd elsewhere: set cluster_etcd_endpoints as well, or leave it",
    ),
    (
        ELSEWHERE,
        {"cluster_etcd_endpoints": [URL], "cluster_apiserver_extra_args": {"etcd-prefix": "/a"}},
        "etcd-prefix also follows from cluster_etcd_prefix",
    ),
    (ELSEWHERE, {"cluster_etcd_endpoints": [URL], "cluster_external_ca": True}, "names another one: use one of both"),
    (ALONE, {USERS: [user("a", "/registry/a"), user("b", "/registry/ab")]}, ""),
    (BESIDE, {USERS: [user("a", "/clusters/a")]}, ""),
    (BESIDE, {USERS: [user("a", "/registry/a")], "cluster_apiserver_extra_args": {"etcd-prefix": "/k8s"}}, ""),
    (
        BESIDE,
        {USERS: [user("a", "/k8s/a")], "cluster_apiserver_extra_args": {"etcd-prefix": "/k8s"}},
        "of the prefixes /k8s/a, /k8s, one is in another",
    ),
    (BESIDE, {USERS: [user("a", "/registry/a")]}, "of the prefixes /registry/a, /registry, one is in another"),
    (ALONE, {USERS: [user("a", "/a"), user("b", "/a/b")]}, "of the prefixes /a, /a/b, one is in another"),
    (ALONE, {USERS: [user("a", "/a"), user("b", "/a")]}, "of the prefixes /a, /a, one is in another"),
    (ALONE, {USERS: [user("a", "/a"), user("a", "/b")]}, "cluster_etcd_users: a, a: name every user once"),
    (ALONE, {USERS: [user("a", "a")]}, "cluster_etcd_users: prefix a: begin it with '/'"),
    (ALONE, {USERS: [user("root", "/a")]}, "name root: use lower-case letters, digits, '-' and '.', and none of root"),
    (ALONE, {USERS: [user("A b", "/a")]}, "name A b: use lower-case letters"),
    (ALONE, {USERS: [{"name": "a"}]}, "missing required arguments: prefix found in cluster_etcd_users"),
    (STACKED, {USERS: [user("a", "/a")]}, "users are made where etcd has machines of its own"),
    (ALONE, {GONE: ["/b", "/ab"], USERS: [user("a", "/a")]}, ""),
    (ALONE, {GONE: ["/a"]}, ""),
    (ALONE, {GONE: ["/"]}, "cluster_etcd_deleted_prefixes: /: begin each with '/', and end it with a name"),
    (ALONE, {GONE: ["/a/"]}, "cluster_etcd_deleted_prefixes: /a/: begin each"),
    (ALONE, {GONE: ["/a"], USERS: [user("a", "/a")]}, "as these prefixes are in each other: /a and /a: name"),
    (ALONE, {GONE: ["/a"], USERS: [user("a", "/a/b")]}, "are in each other: /a and /a/b: name prefixes of former"),
    (ALONE, {GONE: ["/a/b"], USERS: [user("a", "/a")]}, "are in each other: /a/b and /a: name prefixes of former"),
    (BESIDE, {GONE: ["/registry/x"]}, "are in each other: /registry/x and /registry: name prefixes of former"),
    (STACKED, {GONE: ["/a"]}, "keys are deleted where etcd has machines of its own"),
    (ELSEWHERE, {"cluster_etcd_endpoints": [URL], USERS: [user("a", "/a")]}, "users are made where etcd has machines"),
)


@pytest.mark.parametrize("number", range(len(REQUESTS)), ids=lambda number: f"{number}-{REQUESTS[number][2][:30]}")
def test_a_request_is_refused_with_the_remedy_or_is_one(number: int, tmp_path: Path) -> None:
    groups, given, words = REQUESTS[number]
    children = {name: {"hosts": dict.fromkeys(machines.split())} for name, machines in groups.items()}
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"all": {"children": children}}), encoding="utf-8")
    for name in FILES:
        (tmp_path / name).touch()
    usual = {"cluster_etcd_client_path": str(tmp_path), "cluster_kubeconfig_path": str(tmp_path / "kubeconfig")}
    said = mistakes(inventory, **{**usual, **given})
    assert bool(said) is bool(words), said
    assert not words or any(words in each for each in said), said


def signed(place: Path, days: int) -> None:
    """Write a certificate that signed itself, as all that the folder of a client has; it ends in so many days."""
    place.mkdir()
    secret = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "one")])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(secret.public_key())
    made = made.serial_number(1).not_valid_before(now - datetime.timedelta(days=9))
    pem = made.not_valid_after(now + datetime.timedelta(days=days)).sign(secret, hashes.SHA256())
    for file in FILES[:2]:
        (place / file).write_bytes(pem.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (place / FILES[2]).write_bytes(secret.private_bytes(serialization.Encoding.PEM, *form))


# By a machine's name: whether the cluster exists, and how the etcd elsewhere is refused. Nobody listens at port 1.
ROWS = {
    "silent": (False, "https://127.0.0.1:1: it does not answer: "),
    "silent-later": (True, "https://127.0.0.1:1: it does not answer: "),
    "expired": (False, "ca.crt and client.crt has expired; nothing was changed"),
    "other-key": (False, "client.key is not the key of client.crt"),
    "no-pem": (False, "ca.crt, client.crt or client.key is not PEM"),
}
HIDDEN = "behind-a-firewall"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what Ansible said of all rows."""
    place, hosts = tmp_path_factory.mktemp("elsewhere"), dict[str, dict[str, Any]]()
    for name, (there, _) in ROWS.items():
        signed(place / name, -1 if name == "expired" else 5)
        request = {"cluster_etcd_endpoints": ["https://127.0.0.1:1"], "cluster_etcd_client_path": str(place / name)}
        hosts[name] = {"preflight_request": request, "preflight_cluster_exists": there}
    (place / "other-key/client.key").write_bytes((place / "silent/client.key").read_bytes())
    (place / "no-pem/client.crt").write_text("none", encoding="utf-8")
    look = {"ansible.builtin.include_role": {"name": "preflight", "tasks_from": "etcd"}}
    signed(place / HIDDEN, 5)
    with socket.create_server(("127.0.0.1", 0)) as hidden:  # it accepts nothing, so that no answer comes
        url = f"https://127.0.0.1:{hidden.getsockname()[1]}"
        request = {"cluster_etcd_endpoints": [url], "cluster_etcd_client_path": str(place / HIDDEN)}
        hosts[HIDDEN] = {"preflight_request": request, "preflight_cluster_exists": False}
        return run_here(place, [{"tasks": [look]}], {}, **hosts).replace(url, "URL")


@pytest.mark.parametrize("row", ROWS)
def test_an_etcd_that_does_not_serve_is_refused_with_what_is_wrong(row: str, said: str) -> None:
    check_refusal(said, row, ROWS[row][1])


def test_an_etcd_that_the_controller_has_no_way_to_is_left_to_control_planes(said: str) -> None:
    """An executor's pod speaks SSH with machines, and a policy may keep it from all else."""
    assert re.search(rf"ok: \[{HIDDEN}\] => .*?cannot connect to URL; control planes will report", said, re.DOTALL), (
        said
    )
    assert refusal_of(said, HIDDEN) == ""


# How Python's errors say that there is no way; that nobody listens, or that somebody does, is an answer.
NO_WAY = {
    "<urlopen error timed out>": True,
    "<urlopen error _ssl.c:989: The handshake operation timed out>": True,
    "<urlopen error [Errno 113] No route to host>": True,
    "<urlopen error [Errno 101] Network is unreachable>": True,
    "<urlopen error [Errno 111] Connection refused>": False,
    "HTTP Error 503: Service Unavailable": False,
    "<urlopen error [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed>": False,
}


@pytest.mark.parametrize("text", NO_WAY)
def test_what_says_that_there_is_no_way(text: str) -> None:
    pattern = load(PLAYBOOKS / "roles/preflight/vars/main.yml")["preflight_no_way"]
    assert bool(re.search(pattern, text)) is NO_WAY[text]


# By groups: whether the machine cp is the first one of each kind. Where a kind has no machine, none is.
FIRST = ("etcd_first", "certificates_hand_out", "control_plane_join_leads", "etcd_clone_wanted")
TOPOLOGIES: tuple[tuple[dict[str, str], dict[str, Any], tuple[bool, ...]], ...] = (
    (ELSEWHERE, {"cluster_etcd_endpoints": [URL]}, (False, False, False, False)),
    ({"control_plane": "cp-1", "node": "cp"}, {"cluster_etcd_endpoints": [URL]}, (False, False, False, False)),
    ({"control_plane": "cp-1", "etcd": "cp etcd-1 etcd-2", "node": "cp"}, {}, (True, True, False, True)),
    (ALONE, {}, (True, True, False, True)),
    (STACKED, {}, (True, False, False, True)),
)


@pytest.mark.parametrize(("groups", "given", "firsts"), TOPOLOGIES)
def test_a_machine_is_first_of_some_or_of_none(
    groups: dict[str, str], given: dict[str, Any], firsts: tuple[bool, ...], tmp_path: Path
) -> None:
    children = {name: {"hosts": dict.fromkeys(machines.split())} for name, machines in groups.items()}
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"all": {"children": children}}), encoding="utf-8")
    template = os.path.relpath(Path(__file__).with_name("given.json.j2"), PLAYBOOKS / "roles")
    names = [*FIRST, "cluster_etcd_clone_path"]
    asked = {"render": {"given": template}, "roles": str(PLAYBOOKS / "roles"), "names": names, **given}
    found = answered(inventory, asked)["given"]
    found = json.loads(found) if isinstance(found, str) else found
    assert tuple(str(found[name]) == "True" for name in FIRST) == firsts
    assert found["cluster_etcd_clone_path"].endswith(".clone")
