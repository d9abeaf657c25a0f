"""Values of the packaged playbooks' variables that their roles would refuse on machines, found in the matrix.

Holds for projects whose product is the packaged playbooks; other products give these names a meaning of their own. What
a run adds (machines, mirror) and what several variables are together is judged by the playbooks' preflight. Works on
the files' plain data, as `crossref` does, which calls it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import yaml

from harness.paths import packaged_dir
from harness.spec.declared import EACH, find, texts
from harness.spec.lines import Document, Problem
from harness.spec.networks import EXAMPLES
from harness.spec.shape import shown
from harness.spec.variables import PLACES

PACKAGED = "playbooks"  # the folder of the packaged playbooks
KNOWN = "roles/preflight/vars/main.yml"  # of them: the minor versions that they know, by component
VERSION = re.compile(r"\d+\.\d+\.\d+")
SHORT_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")
LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
DOMAIN = re.compile(rf"{LABEL}(\.{LABEL})*")  # RFC 1123, as kubeadm takes `dnsDomain`
LONGEST_DOMAIN = 253
URL = re.compile(r"https?://[^\s/]+\S*")
HOURS = re.compile(r"[1-9]\d{0,6}h(0m)?(0s)?")
TIME = re.compile(r"(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+")  # Go's time.ParseDuration
SERVER = re.compile(r"https://[^\s/]+")
ROTATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
SHA256 = re.compile(r"[0-9a-f]{64}")
TRUTH = ("true", "false", "yes", "no", "on", "off", "1", "0", "t", "f", "y", "n")  # Ansible's words, in any case
KEY_BYTES = 32
HIGHEST_PORT = 65535
TEMPLATE = re.compile(r"\{\{|\{%|\{#")


@dataclass(frozen=True)
class Form:
    """What values of a variable have in common: in words, with an example, and as a test.

    empty: whether "" stands for "not wanted", as it does where the playbooks' default is that.
    """

    what: str
    example: str
    fits: Callable[[Any], bool]
    empty: bool = False


def _matching(pattern: re.Pattern[str], longest: int = 1000) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and len(value) <= longest and pattern.fullmatch(value) is not None


def _whole(value: Any) -> bool:
    return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, str) and value.isdecimal()))


def _number(least: int, most: int) -> Callable[[Any], bool]:
    return lambda value: _whole(value) and least <= int(value) <= most


def _truth(value: Any) -> bool:
    return isinstance(value, bool) or str(value).lower() in TRUTH


def _one_of(*words: str) -> Form:
    return Form(f"one of {', '.join(words)}", words[0], lambda value: value in words)


def _list_of(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(isinstance(item, kind) for item in value)


def _mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _an_address(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(ip_address(value))
    except ValueError:
        return False


def _key(value: Any) -> bool:
    try:
        return len(base64.b64decode(str(value), validate=True)) == KEY_BYTES
    except ValueError:
        return False


A_VERSION = Form("a version", "1.36.3", _matching(VERSION))
AN_OPTIONAL_VERSION = Form("a version", "1.2.3", _matching(VERSION), empty=True)
A_FOLDER = Form("an absolute path", "/etc/kubernetes/pki", lambda value: isinstance(value, str) and value[:1] == "/")
A_TRUTH = Form("true or false", "true", _truth)
A_MAPPING = Form("a mapping", "{a: b}", _mapping)
FLAGS = Form(
    "a mapping of flags without dashes", "{v: 2}", lambda v: _mapping(v) and not any(str(k)[:1] == "-" for k in v)
)
TEXTS = Form("a list of texts", "[a, b]", _list_of(str))
MAPPINGS = Form("a list of mappings", "[{a: b}]", _list_of(Mapping))
A_SITE = Form("a URL", "https://example.org/releases", _matching(URL))
A_TIME_OF_HOURS = Form("a number of hours", "4392h", _matching(HOURS), empty=True)
TIMES = Form(
    "a mapping of times", "{kubeletHealthCheck: 10m0s}", lambda v: _mapping(v) and all(map(_matching(TIME), v.values()))
)
CHECKSUMS = Form(
    "a mapping of SHA-256", "{runc/1.3.0: …}", lambda v: _mapping(v) and all(map(_matching(SHA256), v.values()))
)
FORMS: Mapping[str, Form] = {
    **dict.fromkeys(
        (f"cluster_{name}_version" for name in ("kubernetes", "etcd", "coredns", "runc", "cni_plugins")), A_VERSION
    ),
    **dict.fromkeys(
        (
            *(
                "cluster_containerd_version",
                "cluster_crio_version",
                "cluster_crictl_version",
                "cluster_flannel_version",
            ),
            *("cluster_metrics_server_version", "cluster_local_path_provisioner_version", "cluster_metallb_version"),
            *("cluster_kube_router_version", "cluster_traefik_version"),
        ),
        AN_OPTIONAL_VERSION,
    ),
    "cluster_pause_version": Form("a version", "3.10", _matching(SHORT_VERSION)),
    "cluster_dns_domain": Form("a DNS name in lower case", "cluster.local", _matching(DOMAIN, LONGEST_DOMAIN)),
    "cluster_container_runtime": _one_of("containerd", "crio"),
    "cluster_kube_proxy_mode": _one_of("nftables", "iptables"),
    "cluster_artifact_source": _one_of("mirror", "upstream"),
    "cluster_architecture": _one_of("amd64", "arm64"),
    "cluster_network_plugin": Form("the name of a network plugin", "flannel", _matching(re.compile(LABEL))),
    "cluster_vxlan_port": Form("a port", "8472", _number(1, HIGHEST_PORT)),
    "cluster_vxlan_vni": Form("a number from 1 to 16777215", "1", _number(1, (1 << 24) - 1)),
    "cluster_api_port": Form("a port", "6445", _number(1, HIGHEST_PORT)),
    "cluster_vxlan_mtu": Form("a number of bytes", "1450", _number(0, HIGHEST_PORT)),
    "cluster_coredns_cache_seconds": Form("a number of seconds", "30", _number(0, 1 << 31)),
    "cluster_drain_timeout": Form("a number of seconds", "300", _number(0, 1 << 31)),
    "cluster_etcd_defragment_percent": Form("a number from 0 to 100", "30", _number(0, 100)),
    "cluster_etcd_defragment_mebibytes": Form("a number of MiB", "100", _number(0, 1 << 31)),
    "cluster_certificates_renew_before_days": Form("a number of days", "90", _number(0, 1 << 31)),
    "cluster_ca_rotation": Form("a name such as 2026-11", "2026-11", _matching(ROTATION), empty=True),
    "cluster_api_virtual_address": Form("an IP address", "192.0.2.50", _an_address, empty=True),
    "cluster_kubeconfig_server": Form("a server's URL", "https://10.0.0.5:6443", _matching(SERVER), empty=True),
    "cluster_encryption_key": Form("32 bytes in base64", "`head -c 32 /dev/urandom | base64`", _key, empty=True),
    "cluster_tls_minimum": Form(
        "a version of TLS", "VersionTLS12", lambda v: v in ("VersionTLS12", "VersionTLS13"), empty=True
    ),
    **dict.fromkeys(("cluster_certificates_validity", "cluster_ca_validity"), A_TIME_OF_HOURS),
    **dict.fromkeys(
        (f"cluster_{name}_folder" for name in ("certificates", "scheduler", "hardening", "audit", "external_ca")),
        A_FOLDER,
    ),
    "cluster_etcd_prefix": A_FOLDER,
    **dict.fromkeys(
        (f"cluster_{name}_site" for name in ("kubernetes", "containerd", "runc", "cni_plugins", "etcd")), A_SITE
    ),
    **dict.fromkeys(
        (
            *("cluster_containerd_systemd_cgroup", "cluster_containerd_restrict_oom_score_adj", "cluster_swap_off"),
            *("cluster_crio_systemd_cgroup", "cluster_crio_within_limits", "cluster_drain_force", "cluster_profiling"),
            *("cluster_ingress_default_class", "cluster_anonymous_health_only", "cluster_kubelet_certificates_signed"),
            *("cluster_private_files", "cluster_seccomp_default", "cluster_external_ca"),
            *("cluster_enforces_network_policies", "cluster_ca_rotation_restart_pods"),
            *("cluster_upgrade_workers", "cluster_emulate_previous_minor", "cluster_etcd_delete_prefix"),
        ),
        A_TRUTH,
    ),
    **dict.fromkeys(
        (f"cluster_{name}_extra_args" for name in ("apiserver", "controller_manager", "scheduler", "etcd")), FLAGS
    ),
    **dict.fromkeys(
        (
            *(
                "cluster_kubelet_config",
                "cluster_kube_proxy_config",
                "cluster_containerd_config",
                "cluster_crio_config",
            ),
            *("cluster_kubeadm_patches", "cluster_scheduler_config", "cluster_audit_policy", "cluster_pod_security"),
        ),
        A_MAPPING,
    ),
    "cluster_kubeadm_timeouts": TIMES,
    "cluster_checksums": CHECKSUMS,
    **dict.fromkeys(
        (f"cluster_{name}_extra_volumes" for name in ("apiserver", "controller_manager", "scheduler")), MAPPINGS
    ),
    **dict.fromkeys(
        ("cluster_event_rate_limits", "cluster_jwt_authenticators", "cluster_etcd_users", "cluster_registries"),
        MAPPINGS,
    ),
    **dict.fromkeys(
        (
            *("cluster_api_extra_sans", "cluster_kubeadm_ignore_preflight_errors", "cluster_kubeadm_skip_phases"),
            *("cluster_load_balancer_addresses", "cluster_admission_plugins", "cluster_tls_cipher_suites"),
            *("cluster_pod_security_exempt", "cluster_etcd_endpoints", "cluster_etcd_deleted_prefixes"),
        ),
        TEXTS,
    ),
    "cluster_timeout_scale": Form(
        "a number above 0", "1.5", lambda v: re.fullmatch(r"[0-9.]+", str(v)) is not None and str(v).strip("0.") != ""
    ),
}
# By name: why a value cannot be judged here.
UNJUDGED: Mapping[str, str] = {
    **dict.fromkeys(EXAMPLES, "judged with the other networks"),
    "cluster_authority_path": "a folder of the controller, judged there",
    "cluster_etcd_client_path": "a folder of the controller, judged there",
    "cluster_image_prefix": "judged with the run's registry",
    "cluster_ingress_address": "made of the run's machines",
    "cluster_api_host": "fixed: each machine's own haproxy",
    "cluster_files_url": "given by a run",
    "cluster_etcd_restore_confirmation": "compared with the time of the snapshot, which names the right one",
}


def check(documents: Mapping[str, Document], project: Path) -> Iterator[Problem]:
    """Find values of another form than the packaged playbooks take; nothing for other products."""
    if not is_packaged(documents["product.yml"].content, project):
        return
    for file, steps in PLACES:
        document = documents[file]
        for at, value in find(document.content, *steps, EACH):
            if message := mistake(str(at[-1]), value):
                yield document.problem(at, message)


def is_packaged(product: Any, project: Path) -> bool:
    """Tell whether the product of product.yml is the packaged playbooks."""
    folders = [project / name for _, name in texts(product, "product", "directory")]
    return any(folder.resolve() == (packaged_dir() / PACKAGED).resolve() for folder in folders)


@cache
def template_mistake(text: str) -> str:
    """Return the line of a template and what is wrong there, "" for one that can be read."""
    import jinja2  # which most commands need for nothing else

    extensions = ["jinja2.ext.do", "jinja2.ext.loopcontrols"]  # which an ansible.cfg may name
    try:
        jinja2.Environment(autoescape=False, extensions=extensions).parse(text)  # noqa: S701 - objects, no HTML
    except jinja2.TemplateSyntaxError as error:
        return f"{error.lineno}: not a template: {error.message}"
    except RecursionError:
        return "1: not a template: it is nested too deep"
    return ""


def unreadable_template(value: Any) -> str:
    """Return what is wrong with the first text of a value that Ansible would fill in and cannot read, "" for none.

    Ansible fills in variables on machines, and only those that are asked for.
    """
    texts = [value] if isinstance(value, str) else []
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    wrong = next((said for text in texts if TEMPLATE.search(text) and (said := template_mistake(text))), "")
    if wrong:
        why = wrong.partition(": ")[2]
        return f"{shown(value)} is {why}; in a text that is not one, write {{{{ '{{{{' }}}} for {{{{"
    return next((said for one in inner if (said := unreadable_template(one))), "")


def mistake(name: str, value: Any) -> str:
    """Return what is wrong with a variable's value, "" where nothing is or only a run can tell."""
    if wrong := unreadable_template(value):
        return wrong
    form = FORMS.get(name)
    if form is None or (isinstance(value, str) and TEMPLATE.search(value)) or (form.empty and value == ""):
        return ""
    if not form.fits(value):
        return f"{shown(value)} is not {form.what}; write one such as {form.example}" + (
            ', or "" for none' if form.empty else ""
        )
    minors = _minors().get(name.removeprefix("cluster_").removesuffix("_version"), ())
    if name.endswith("_version") and minors and value.rpartition(".")[0] not in minors:
        return f"{value} is not a version that the playbooks know; use {', '.join(f'{minor}.x' for minor in minors)}"
    return ""


@cache
def _minors() -> Mapping[str, list[str]]:
    content = yaml.safe_load((packaged_dir() / PACKAGED / KNOWN).read_text(encoding="utf-8"))
    known: Mapping[str, list[str]] = content["preflight_known"]
    return known
