"""Before a member of a real etcd stops it leads no more, and an upgrade begins with all members well, or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import proc
from harness.artifacts.listening import free_port
from harness.until import Deadline, NotYet, until
from tests.embedded.playbooks.test_etcd_users import VERSIONS, Words, begin_authority, program, sign
from tests.unit.playbooks.playbook_files import check_refusal, run_here

LATER = "3.6.99"  # of the same minor release, newer than any


class Members:
    """Three members on this host, by name, and what etcdctl says of them."""

    def __init__(self, place: Path) -> None:
        self.place, self.pki = place, place / "pki" / "etcd"
        begin_authority(self.pki)
        sign(self.pki, "server", "/CN=etcd", authority=self.pki, server=True)
        sign(self.pki, "healthcheck-client", "/CN=kube-etcd-healthcheck-client", authority=self.pki)
        names = ("etcd-0", "etcd-1", "etcd-2")
        self.urls = {name: f"https://127.0.0.1:{free_port()}" for name in names}
        peers = {name: f"http://127.0.0.1:{free_port()}" for name in names}
        together = ",".join(f"{name}={peer}" for name, peer in peers.items())
        self.services = {}
        for name, url in self.urls.items():
            argv: Words = [
                program("etcd"),
                f"--name={name}",
                f"--data-dir={place}/{name}",
                f"--initial-cluster={together}",
            ]
            argv += [f"--listen-peer-urls={peers[name]}", f"--initial-advertise-peer-urls={peers[name]}"]
            argv += [f"--listen-client-urls={url}", f"--advertise-client-urls={url}", "--client-cert-auth"]
            argv += [f"--trusted-ca-file={self.pki}/ca.crt", f"--cert-file={self.pki}/server.crt"]
            self.services[name] = proc.spawn([*argv, f"--key-file={self.pki}/server.key"], log=place / f"{name}.log")

    def leader(self) -> str | NotYet:
        """Return the name of the member that leads."""
        argv: Words = [
            program("etcd", "etcdctl"),
            f"--endpoints={','.join(self.urls.values())}",
            "--write-out=json",
        ]
        argv += [f"--cacert={self.pki}/ca.crt", f"--cert={self.pki}/healthcheck-client.crt"]
        done = proc.run(
            [*argv, f"--key={self.pki}/healthcheck-client.key", "endpoint", "status"], timeout=30, check=False
        )
        states = json.loads(done.stdout) if done.returncode == 0 else []
        ids = {one["Status"]["header"]["member_id"]: one["Endpoint"] for one in states}
        leaders = {one["Status"].get("leader", 0) for one in states}
        led = [ids[number] for number in leaders if number in ids]
        names = [name for name, url in self.urls.items() if [url] == led]
        return names[0] if names else NotYet(done.stderr[-200:])

    def step(self, step: str, version: str, *names: str) -> str:
        """Take a step of the role on machines, by name; return what Ansible said."""
        given = {
            "etcd_upgrade_program": str(program("etcd", "etcdctl")),
            "etcd_upgrade_step": step,
            "etcd_upgrade_version": version,
            "etcd_upgrade_releases": [],
            "etcd_upgrade_external": True,
            "etcd_upgrade_address": "127.0.0.1",
            "etcd_upgrade_certificates": str(self.place / "pki"),
        }
        hosts: dict[str, dict[str, Any]] = {name: {"own": self.urls[name]} for name in names}
        role = {"name": "etcd_upgrade"}
        play = {"tasks": [{"ansible.builtin.include_role": role, "vars": {**given, "etcd_upgrade_own": "{{ own }}"}}]}
        return run_here(self.place, [play], {}, **hosts)


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    """Run three members."""
    running = Members(tmp_path_factory.mktemp("etcd"))
    try:
        until(running.leader, deadline=Deadline.after(120), what="a member leads")
        yield running
    finally:
        for service in running.services.values():
            service.stop(grace=5)


def test_a_member_that_leads_hands_the_lead_over_before_it_stops(members: Members) -> None:
    leads = str(members.leader())
    followers = [name for name in members.urls if name != leads]
    said = members.step("member", LATER, followers[0])
    assert ("failed=0" in said, members.leader()) == (True, leads), "a member that does not lead changes nothing"
    assert "failed=0" in members.step("member", VERSIONS["etcd"], leads)
    assert members.leader() == leads, "a member that has the version is not stopped"
    assert "failed=0" in members.step("member", LATER, leads)
    assert until(members.leader, deadline=Deadline.after(60), what="a member leads") in followers


@pytest.mark.parametrize("step", ["prepare", "judge"])
@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("3.6.7", "etcd is not downgraded. Nothing was changed: request 3.6.8 or newer"),
        (
            "3.8.0",
            "skips a minor version, which etcd cannot do. Nothing was changed: upgrade to a version of 3.7 first",
        ),
        ("4.7.0", "skips a minor version"),
    ],
)
def test_a_version_that_cannot_be_is_refused(members: Members, step: str, version: str, words: str) -> None:
    check_refusal(members.step(step, version, "etcd-0"), "etcd-0", words)


def test_nothing_begins_while_a_member_is_down(members: Members) -> None:
    leads = str(members.leader())
    (down, left) = (name for name in members.urls if name != leads)
    members.services[down].stop(grace=5)
    said = members.step("member", LATER, left)
    check_refusal(said, left, members.urls[down], "etcd is only upgraded while every member")
    assert "failed=0" in members.step("judge", LATER, left), "it is about versions alone"
