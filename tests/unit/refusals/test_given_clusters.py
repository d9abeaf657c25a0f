"""Checks of a cluster that vmatrix did not make: files and options that cannot be, said before anything is written."""

from __future__ import annotations

import pytest

from tests.unit.refusals.called import Refusal, Room
from tests.unit.refusals.lying import LIES, Liar, kubeconfig

INVENTORY = "[masters]\na ansible_host=192.0.2.1\n[workers]\nb ansible_host=192.0.2.2\n"
FILES = {"hosts": INVENTORY, "kc": kubeconfig({"server": "http://127.0.0.1:9"})}
CHECK = "check --kubeconfig kc --inventory hosts"
WORDS = {
    "check": ("nothing to check", "vmatrix status"),
    "check --facts facts.yml": ("nothing to check", ""),
    "check cell --inventory hosts": ("CELL and --inventory exclude each other", ""),
    "check cell --facts facts.yml": ("--facts is about a cluster with --inventory", ""),
    "check --inventory hosts": ("--inventory needs --kubeconfig", ""),
    f"{CHECK} --provider kind": ("--provider leads to an infra cluster", "leave it out"),
    f"{CHECK} --namespace x": ("--namespace leads to an infra cluster", ""),
    f"{CHECK} --access direct --infra-name x": ("--infra-name and --access leads", ""),
    f"{CHECK} --suite nope": ("unknown suite 'nope'", "suites: "),
    f"{CHECK} --suite phases": ("unknown suite 'phases'", "suites: "),
    f"{CHECK} --suite life": ("unknown suite 'life'", "suites: "),
    f"{CHECK} --facts nope.yml": ("the file does not exist", ""),
    f"{CHECK} -k ((": ("is not an expression", ""),
    f"{CHECK} --timeout-scale 0": ("greater than 0", ""),
    "check --kubeconfig nope --inventory hosts": ("kubeconfig nope does not exist", ""),
}
FACTS = {
    "facts: []": "expected a mapping",
    "facts: {nope: 1}": "facts.nope: unknown key",
    "nope: 1": "unknown key",
    "facts: {kubernetes: 1.36}": "facts.kubernetes",
    "facts: {kubernetes: newest}": "facts.kubernetes",
    "facts: {kubernetes: 2.1.0}": "facts.kubernetes",
    "facts: {runc: x}": "facts.runc",
    "facts: {etcd: 3}": "facts.etcd",
    "facts: {pod_cidr: x}": "facts.pod_cidr",
    "facts: {pod_cidr: 10.0.0.1/8}": "facts.pod_cidr",
    "facts: {service_cidr: 10.0.0.0/33}": "facts.service_cidr",
    "facts: {test_registry: 'http://m:5000'}": "facts.test_registry",
    "facts: {image_registry: 'm m'}": "facts.image_registry",
    "facts: {kubelet_config: [1]}": "facts.kubelet_config",
    "facts: {groups: {masters: a}}": "facts.groups",
    "facts: {groups: {node: 1}}": "facts.groups",
    "facts: {variables: {'a b': 1}}": "facts.variables",
    "facts: {cluster: {nope: 1}}": "facts.cluster.nope",
    "facts: {checks: {leave_out: [{check: x, reason: y}]}}": "expected `suite: name`",
    "facts: {dns_domain: ''}": "facts.dns_domain",
    "facts: {": "malformed YAML",
    "- a": "expected a mapping",
}


@pytest.mark.parametrize("words", WORDS)
def test_words_that_cannot_be(room: Room, words: str) -> None:
    says, hint = WORDS[words]
    room.refuses(Refusal(words, says, hint, files=FILES))


@pytest.mark.parametrize("text", FACTS)
def test_facts_that_cannot_be(room: Room, text: str) -> None:
    room.refuses(Refusal(f"{CHECK} --facts facts.yml", FACTS[text], files={**FILES, "facts.yml": text}))


@pytest.mark.parametrize("lie", ["portal-200", "says-object", "says-half", "redirect-302", "unknown", "broken-closed"])
def test_what_is_no_api(room: Room, liar: Liar, lie: str) -> None:
    files = {**FILES, "kc": liar.kubeconfig(lie)}
    room.refuses(Refusal(CHECK, LIES[lie].says, code=LIES[lie].code, files=files, starts=("ansible-playbook", "ssh")))
