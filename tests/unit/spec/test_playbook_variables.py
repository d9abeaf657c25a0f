"""Every variable of the packaged playbooks: a wrong value is refused before machines exist, or it is said why not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.errors import BadInput
from harness.paths import packaged_dir
from harness.spec import load_spec
from harness.spec.playbook_variables import FORMS, UNJUDGED, mistake
from harness.spec.variables import BY_THE_RUN, DEFAULTS, SET_BY_THE_RUN, known_variables

# A value of the wrong form for each variable.
TRUTHS: tuple[Any, ...] = ("maybe", 2, [], {})
VERSIONS: tuple[Any, ...] = ("latest", "v1.36.3", "1.36", 1.36, "stable-1.36", ["1.36.3"])
WRONG: dict[str, tuple[Any, ...]] = {
    "a version": VERSIONS,
    "a DNS name in lower case": (
        "Cluster.Local",
        "cluster..local",
        ".local",
        "cluster.local.",
        "a_b",
        "x" * 300,
        "",
        1,
    ),
    "true or false": TRUTHS,
    "a mapping": ("text", ["a"], 1),
    "a mapping of flags without dashes": ({"--v": 2}, ["v=2"]),
    "a mapping of times": ({"kubeletHealthCheck": 5}, {"x": "ten minutes"}, "10m"),
    "a mapping of SHA-256": ({"runc/1.3.0": "abc"}, []),
    "a list of texts": ("one", [1], {}),
    "a list of mappings": ("one", ["text"], {}),
    "an IP address": ("192.0.2.300", "192.0.2.0/24", "api.example.org", 1),
    "a URL": ("example.org", "ftp://example.org", ""),
    "a server's URL": ("10.0.0.5:6443", "http://10.0.0.5:6443"),
    "a number of hours": ("1y", "0h", 4392),
    "a number of bytes": ("large", -1, True),
    "a number of seconds": ("30s", -1, 1.5),
    "a number of days": ("90d", -1),
    "a name such as 2026-11": ("of November", "-1", 2026),
    "a number of MiB": ("100Mi", -1),
    "a number from 0 to 100": ("30%", -1, 101),
    "a number from 1 to 16777215": (0, 1 << 24, "one"),
    "a number above 0": (0, "0.0", "fast", -1),
    "a port": (0, 65536, "http", True),
    "an absolute path": ("pki", "", 1),
    "32 bytes in base64": ("secret", "c2hvcnQ="),
    "a version of TLS": ("1.2", "TLS1.2"),
    "the name of a network plugin": ("Flannel", "", 1),
    "one of containerd, crio": ("docker", ""),
    "one of nftables, iptables": ("ipvs", ""),
    "one of mirror, upstream": ("registry", ""),
    "one of amd64, arm64": ("x86_64", ""),
}
# Made by the playbooks of what callers set: nobody gives them, and `harness/spec/variables.py` has those of a run.
CONSTANTS = {
    *("cluster_container_runtimes", "cluster_release_places", "cluster_releases", "cluster_etcd_tools"),
    *("cluster_etcd_release", "cluster_network_plugins", "cluster_extra_volumes", "cluster_hardening"),
    *("cluster_customised", "cluster_network_settings", "cluster_etcd_settings", "cluster_clone_mark"),
    *("cluster_coredns_readiness", "cluster_probe_patches", "cluster_usual_probes", "cluster_kubeadm_default_timeouts"),
}


def defaults() -> dict[str, Any]:
    made: dict[str, Any] = {}
    for file in sorted((packaged_dir() / DEFAULTS).glob("*.yml")):
        made |= yaml.safe_load(file.read_text(encoding="utf-8"))
    return made


def test_every_variable_is_judged_or_it_is_said_why_not() -> None:
    names = {name for name in known_variables() if name.startswith("cluster_")}
    made = {name for name, value in defaults().items() if isinstance(value, str) and "{{" in value}
    said = {*FORMS, *UNJUDGED, *SET_BY_THE_RUN, *BY_THE_RUN}
    assert names - said - made - CONSTANTS == set()
    assert names >= CONSTANTS
    assert not FORMS.keys() & {*UNJUDGED, *SET_BY_THE_RUN}
    assert FORMS.keys() | UNJUDGED.keys() <= names
    assert all(UNJUDGED.values())


@pytest.mark.parametrize("name", FORMS)
def test_wrong_values_of_every_variable(name: str) -> None:
    for value in WRONG[FORMS[name].what]:
        fits_short = name == "cluster_pause_version" and value == "1.36"
        assert bool(mistake(name, value)) != fits_short, value
    assert mistake(name, "{{ later }}") == ""
    assert (mistake(name, "") == "") == FORMS[name].empty


def test_defaults_have_their_variables_form() -> None:
    assert {name: said for name, value in defaults().items() if (said := mistake(name, value))} == {}


def test_a_version_that_the_playbooks_do_not_know() -> None:
    assert mistake("cluster_kubernetes_version", "1.30.0").startswith("1.30.0 is not a version that the playbooks know")
    assert mistake("cluster_coredns_version", "1.30.0") == ""


CASES = {
    "cluster_dns_domain: Cluster.Local": "'Cluster.Local' is not a DNS name in lower case",
    "cluster_kubernetes_version: latest": "'latest' is not a version",
    "cluster_service_cidr: 10.95.0.0/30": "10.95.0.0/30 has 4 addresses, and kubeadm asks for 10",
    "cluster_service_cidr: 172.0.0.0/8": "172.0.0.0/8 is too large for Kubernetes",
    "cluster_service_cidr: 10.95.0.1/16": "has host bits set",
    "cluster_pod_cidr: 10.243.0.0/30": "has no /24 for each of",
    "cluster_pod_cidr: 10.95.0.0/16": "overlap",
    "cluster_drain_timeout: 5m": "'5m' is not a number of seconds",
}


def project(folder: Path, variables: str) -> Path:
    """Make a project over the packaged playbooks with more variables."""
    (folder / "vmatrix.yml").write_text("vmatrix: {}\n", encoding="utf-8")
    (folder / "matrix").mkdir()
    text = f"extends: default\nproduct:\n  vars: {{{variables}}}\n"
    (folder / "matrix" / "product.yml").write_text(text, encoding="utf-8")
    return folder / "matrix"


@pytest.mark.parametrize("variables", CASES)
def test_a_project_over_the_packaged_playbooks(tmp_path: Path, variables: str) -> None:
    with pytest.raises(BadInput) as refused:
        load_spec(project(tmp_path, variables))
    assert CASES[variables] in str(refused.value) + refused.value.detail
    assert variables.partition(":")[0] in str(refused.value) + refused.value.detail


def test_other_products_give_these_names_their_own_meaning(tmp_path: Path) -> None:
    matrix = project(tmp_path, "cluster_drain_timeout: 5m")
    (tmp_path / "site.yml").write_text("- hosts: all\n  vars: {a: '{{ cluster_kubeconfig_path }}'}\n", encoding="utf-8")
    text = "product:\n  name: x\n  directory: .\n  phases: {deploy: {playbook: site.yml}}\n"
    text += "  vars: {cluster_drain_timeout: 5m}\n"
    (matrix / "product.yml").write_text(text, encoding="utf-8")
    assert load_spec(matrix).product.vars["cluster_drain_timeout"] == "5m"


# Texts that Ansible would fill in, and what is wrong with them as templates.
TEMPLATES: dict[str, str] = {
    "{{ later }}": "",
    "{{ lookup('file', 'ca.crt') | b64encode }}": "",
    "{% if a %}b{% endif %}": "",
    "a {# said #} b": "",
    "{{ '{{' }} .Name }}": "",
    "{ not: one }": "",
    "{{ .Values.name }}": "unexpected '.'",
    "{{ unclosed": "unexpected end of template",
    "{{ a b }}": "expected token 'end of print statement', got 'b'",
    "{% if a %}b": "Unexpected end of template",
    "{% do a.append(1) %}{{ a }}": "",  # of extensions, which an ansible.cfg may name
    "{% for b in a %}{% break %}{% endfor %}": "",
    "{% nope %}": "Encountered unknown tag 'nope'",
    "{# unclosed": "Missing end of comment tag",
    "{{ " + "(" * 5000: "",
}


@pytest.mark.parametrize("text", TEMPLATES)
@pytest.mark.parametrize("wrap", [lambda text: text, lambda text: [1, {"a": text}]], ids=["text", "nested"])
def test_a_template_that_cannot_be_read_is_refused_before_machines_exist(text: str, wrap: Callable[[str], Any]) -> None:
    said = mistake("cluster_unknown", wrap(text))
    wrong = TEMPLATES[text] or ("not a template" if text.startswith("{{ (((") else "")
    assert wrong in said
    assert bool(said) is bool(wrong)
    assert not wrong or "in a text that is not one, write {{ '{{' }} for {{" in said
