"""A hardened guest as its machines show it when it is well: one control plane, one worker."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from harness.paths import packaged_dir
from harness.spec.loader import load_file
from harness.spec.models import FILES as MATRIX_FILES
from harness.validate.expected import ExpectedGuest
from harness.validate.topics.hardening.facts import FILES, HEALTH, HIDDEN, OWNER, HardeningFacts, hardening_of
from harness.validate.topics.hardening.machines import key_name
from tests.unit.validate import guests
from tests.unit.validate.guests import Json

AXES = dict(load_file(packaged_dir() / "matrix" / "axes.yml", MATRIX_FILES["axes.yml"])[0])["axes"]
(PROFILE,) = [value.vars for axis in AXES if axis.name == "profile" for value in axis.values if value.id == "hardened"]
VARIABLES: Json = {**guests.VARIABLES, **PROFILE}
MADE = "/registry/secrets/default/vmatrix-1"
OFFERS = {
    "old": ["refused", "TLSV1_ALERT_PROTOCOL_VERSION"],
    "weak": ["refused", "SSLV3_ALERT_HANDSHAKE_FAILURE"],
    "strong": ["accepted", "TLSv1.2 ECDHE-RSA-AES128-GCM-SHA256"],
    "new": ["accepted", "TLSv1.3 TLS_AES_128_GCM_SHA256"],
}


def expected(**more: Any) -> ExpectedGuest:
    """Return what the guest must look like."""
    return guests.expected(variables={**VARIABLES, **more})


def _rights(groups: set[str]) -> Json:
    found: Json = {}
    for number, globs, allowed, group in FILES:
        mode = 0o600 if allowed == OWNER else allowed
        found[number] = {globs[0].replace("/**", "/one"): [mode, 0, 0]} if group in groups else {}
    return found


def raw(name: str) -> Json:
    """Return what a machine prints."""
    control = name == "cp-0"
    programs = ["kubelet 10250"]
    if control:
        programs += ["kube-apiserver 6443", "kube-controller-manager 10257", "kube-scheduler 10259"]
        programs += ["etcd 2379", "etcd 2380"]
    strangers = {**dict.fromkeys(HEALTH, 200), **dict.fromkeys(HIDDEN, 401)}
    sealed = f"secretbox:v1:{key_name(PROFILE['cluster_encryption_key'])}"
    event = ["Metadata", "ResponseComplete", "get", "kube-apiserver-kubelet-client"]
    trail = {"path": "/var/log/kubernetes/audit.log", "status": 404, "events": [event], "leaked": 0}
    refused = ["refused", "SSLV3_ALERT_BAD_CERTIFICATE"]
    return copy.deepcopy(
        {
            "listeners": dict.fromkeys(programs, OFFERS),
            "etcd_strangers": {"etcd 2379": refused, "etcd 2380": refused} if control else {},
            "profiles": {one.split()[0]: 404 for one in programs if one.startswith("kube-")},
            "kubelet": {"strangers": {"/pods": 401, "/metrics": 401}, "unsigned": "", "read_only": False},
            "rights": _rights({"control_plane", "etcd", "nodes"} if control else {"nodes"}),
            "strangers": strangers if control else {},
            "stored": {"sealed": {MADE: sealed}, "shown": []} if control else None,
            "audited": trail if control else None,
            "status": "Name:\tsystemd\nSeccomp:\t0\nSeccomp_filters:\t0\n",
        }
    )


def seen(change: Callable[[Json], Any] | None = None, *, of: str = "cp-0") -> dict[str, HardeningFacts]:
    """Return what all machines show, one of them changed."""
    printed = {name: raw(name) for name in ("cp-0", "w-0")}
    if change is not None:
        change(printed[of])
    return {name: hardening_of(one) for name, one in printed.items()}
