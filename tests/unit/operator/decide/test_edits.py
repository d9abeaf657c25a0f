"""Every field of a ClusterDeployment, edited and taken back: refused, carried out, or without effect; then as it was.

What a value does to a running cluster is in tests/embedded/playbooks/test_wrong_settings.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from harness.operator.api.components import KubeadmTimeouts, NamedImages
from harness.operator.api.rules import mistakes
from harness.operator.decide.accepted import edit_mistakes
from harness.operator.decide.desired import Desired
from harness.operator.decide.due import Wait
from harness.operator.decide.operations import Nothing, next_operation
from harness.operator.decide.variables import load_releases
from tests.unit.operator.api.objects import SOURCE, Json, wanted_set
from tests.unit.operator.api.test_fields import SPECS, leaves
from tests.unit.operator.decide.wishes import CP, MACHINES, WORKERS, deployed, wish

NOTHING, REFUSED = "nothing", "refused"


@dataclass(frozen=True)
class Edit:
    """One edit. follows: what it does.  spec: fields afterwards.  sets: the machine sets, where they change."""

    follows: str
    spec: dict[str, Any]
    sets: tuple[dict[str, Any], ...] = (CP, WORKERS)


def field(path: str, value: Any, follows: str) -> tuple[str, Edit]:
    """Return an edit of one field outside of the sets."""
    spec = value
    for step in reversed(path.split(".")):
        spec = {step: spec}
    return path, Edit(follows, {"source": SOURCE, **spec} if not path.startswith("source") else spec)


def sets(path: str, follows: str, *after: dict[str, Any]) -> tuple[str, Edit]:
    """Return an edit of the sets."""
    return f"machineSets.0.{path}" if path else "machineSets", Edit(follows, {}, after)


TAINT = {"key": "a", "value": "b", "effect": "NoSchedule"}
FLAG = {"v": "2"}
VOLUME = {"name": "share", "hostPath": "/usr/share", "mountPath": "/srv/share", "readOnly": True}
AUTHENTICATOR = {
    "issuer": {"url": "https://issuer.example", "audiences": ["guest"]},
    "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
}
OF_RACK_B = wanted_set("w", "worker", replicas=2, pool={"selector": {"matchLabels": {"rack": "b"}}})
# Each field, another value that it may have, and what follows on a deployed cluster.
EDITS = dict(
    [
        field("version", "1.35.4", REFUSED),
        *(field(f"components.{name}", "9.9.9", REFUSED) for name in ("etcd",)),
        *(field(f"components.{name}", "9.9.9", "upgrade") for name in ("coredns", "pause", "runc")),
        *(field(f"components.{name}", "9.9.9", "upgrade") for name in ("cni-plugins", "flannel")),
        field("components.crictl", "9.9.9", NOTHING),  # of a cluster with CRI-O alone
        field("adopt", True, NOTHING),
        field("paused", True, NOTHING),
        field("approval", "Manual", NOTHING),
        field("isolation.enabled", True, NOTHING),
        field("isolation.allowFrom", [{"ipBlock": {"cidr": "192.0.2.0/24"}}], NOTHING),
        field("isolation.allowTo", [{"podSelector": {}, "ports": [{"port": 443}]}], NOTHING),
        field("network.plugin", "routes", REFUSED),
        field("network.pods", "10.9.0.0/16", REFUSED),
        field("network.services", "10.9.0.0/16", REFUSED),
        field("network.ipv6Pods", "fd10::/56", REFUSED),
        field("network.ipv6Services", "fd11::/112", REFUSED),
        field("network.ipFamilies", ["IPv4", "IPv6"], REFUSED),
        field("network.dnsDomain", "other.local", REFUSED),
        field("network.ingress.defaultClass", False, "addons"),
        field("network.ingress.address", "ingress.example.com", "addons"),
        field("network.loadBalancerAddresses", ["192.0.2.200-192.0.2.210"], "addons"),
        field("kubernetes.scheduler.config", {"parallelism": 4}, "reconfigure"),
        *(
            field(f"kubernetes.{name}.extraVolumes", [VOLUME], "reconfigure")
            for name in ("apiServer", "controllerManager", "scheduler")
        ),
        field("kubernetes.featureGates", {"SidecarContainers": True}, "reconfigure"),
        *(
            field(f"kubernetes.kubeadm.timeouts.{name}", "9m0s", "reconfigure")
            for name in (field.alias or name for name, field in KubeadmTimeouts.model_fields.items())
        ),
        field("kubernetes.kubeadm.ignorePreflightErrors", ["NumCPU"], "reconfigure"),
        field("kubernetes.kubeadm.skipPhases", ["preflight"], "reconfigure"),
        field("kubernetes.coredns.cacheSeconds", 5, "reconfigure"),
        field("kubernetes.kubelet.swapOff", False, "reconfigure"),
        field("kubernetes.patches", {"etcd0.json": {"a": 1}}, "reconfigure"),
        field("authentication.jwt", [AUTHENTICATOR], "reconfigure"),
        field("hardening.auditPolicy", {"rules": [{"level": "Metadata"}]}, "reconfigure"),
        field("hardening.tls.minimum", "VersionTLS13", "reconfigure"),
        field("hardening.tls.cipherSuites", ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"], "reconfigure"),
        *(field(f"hardening.podSecurity.{name}", "baseline", "reconfigure") for name in ("enforce", "audit", "warn")),
        field("hardening.podSecurity.exempt", ["shop"], "reconfigure"),
        field("hardening.eventRateLimits", [{"type": "User", "qps": 1, "burst": 1}], "reconfigure"),
        field("hardening.admissionPlugins", ["AlwaysPullImages"], "reconfigure"),
        *(
            field(f"hardening.{name}", True, "reconfigure")
            for name in (
                "anonymousHealthOnly",
                "kubeletCertificatesSigned",
                "seccompDefault",
                "privateFiles",
            )
        ),
        field("hardening.profiling", False, "reconfigure"),
        field("certificates.validity", "4392h", "reconfigure"),
        field("certificates.caValidity", "43800h", "reconfigure"),
        field("certificates.renewBeforeDays", 30, "reconfigure"),
        field("certificates.folder", "/etc/kubernetes/ssl", REFUSED),
        field("certificates.extraSans", ["api.example.com"], "reconfigure"),
        field("maintenance.drainTimeoutSeconds", 60, NOTHING),
        field("maintenance.drainForce", True, NOTHING),
        field("maintenance.defragmentPercent", 50, NOTHING),
        field("maintenance.defragmentMebibytes", 50, NOTHING),
        field("network.pool", "flat", REFUSED),
        field("network.vxlan.vni", 7, REFUSED),
        field("network.vxlan.port", 4789, "reconfigure"),
        field("network.vxlan.mtu", 1400, "reconfigure"),
        field("runtime.version", "2.0.5", "upgrade"),
        field("runtime.name", "crio", REFUSED),
        field("runtime.systemdCgroup", False, "reconfigure"),
        field("runtime.withinLimits", True, "reconfigure"),
        field("runtime.registries", [{"name": "registry.example"}], "reconfigure"),
        field("runtime.config", {"max_concurrent_downloads": 9}, "reconfigure"),
        field("etcd.extraArgs", {"snapshot-count": "5000"}, "reconfigure"),
        field("etcd.backup.beforeDisruption", True, REFUSED),
        field("etcd.backup.destination.claim", "backups", NOTHING),
        field("etcd.backup.keep", 3, NOTHING),
        field("etcd.backup.schedule", "0 3 * * *", REFUSED),  # without a destination; with one: NOTHING
        field("etcd.backup.drill", "weekly", REFUSED),  # likewise
        field("etcd.backup.timeZone", "Europe/Berlin", NOTHING),
        field("etcd.backup.suspend", True, NOTHING),
        field("etcd.backup.maxAgeHours", 24, NOTHING),
        *(field(f"kubernetes.{name}.extraArgs", FLAG, "reconfigure") for name in ("apiServer", "scheduler")),
        field("kubernetes.controllerManager.extraArgs", FLAG, "reconfigure"),
        field("kubernetes.kubelet.config", {"maxPods": 50}, "reconfigure"),
        field("kubernetes.kubeProxy.mode", "iptables", "reconfigure"),
        field("kubernetes.kubeProxy.config", {"mode": "nftables"}, "reconfigure"),
        field("addons", [{"name": "metrics-server"}], "addons"),
        field("source.checksums", None, NOTHING),
        field("loadBalancer.type", "Service", "reconfigure"),
        field("endpoint.type", "Service", "reconfigure"),  # the other types: test_endpoint.py
        field("endpoint.host", "api.example.com", REFUSED),  # of the type Local
        field("endpoint.address", "192.0.2.50", REFUSED),
        field("endpoint.port", 443, REFUSED),
        field("endpoint.className", "metallb", REFUSED),
        field("endpoint.annotations", {"example.com/a": "b"}, REFUSED),
        field("health.remediation", "Restart", NOTHING),
        field("health.afterSeconds", 60, NOTHING),
        field("health.maxUnhealthy", 2, NOTHING),
        field("access", "Direct", NOTHING),
        field("variables", {"cluster_api_port": 6446}, "reconfigure"),
        field("playbooks.image", "registry.invalid/ours:1", NOTHING),
        field("jobs.retries", 5, NOTHING),
        field("jobs.deadlineSeconds", 600, NOTHING),
        field("jobs.keepFailed", 5, NOTHING),
        field("jobs.keepSucceeded", 5, NOTHING),
        field("deletion.machines", "Leave", NOTHING),
        field("deletion.backups", "Delete", NOTHING),
        field("deletion.etcdKeys", "Delete", REFUSED),  # of a cluster with an etcd of its own
        field("etcd.clusterRef.name", "store", REFUSED),  # of such a cluster: test_etcdclients.py
        ("etcd.clusterRef.prefix", Edit(REFUSED, {"etcd": {"clusterRef": {"name": "store", "prefix": "/a"}}})),
        ("source.type", Edit("reconfigure", {"source": {**SOURCE, "type": "Upstream"}})),
        ("source.mirror", Edit("reconfigure", {"source": {**SOURCE, "mirror": "http://10.0.0.9:8080"}})),
        ("source.registry", Edit("reconfigure", {"source": {**SOURCE, "registry": "10.0.0.9:5000"}})),
        ("source.imagePrefix", Edit("reconfigure", {"source": {**SOURCE, "imagePrefix": "mirror.internal:5000"}})),
        ("source.architecture", Edit("reconfigure", {"source": {**SOURCE, "architecture": "arm64"}})),
        *(
            (f"source.sites.{name}", Edit("reconfigure", {"source": {**SOURCE, "sites": {name: "https://x.example"}}}))
            for name in ("kubernetes", "containerd", "runc", "cni-plugins", "etcd")
        ),
        *(
            (f"source.images.{name}", Edit("reconfigure", {"source": {**SOURCE, "images": {name: "r/x:1"}}}))
            for name in (field.alias or name for name, field in NamedImages.model_fields.items())
        ),
        sets("", REFUSED, CP),
        sets("name", REFUSED, CP, {**WORKERS, "name": "other"}),
        sets("roles", REFUSED, CP, {**WORKERS, "roles": ["worker", "control-plane"]}),
        sets("replicas", "remove-node", CP, {**WORKERS, "replicas": 1}),
        sets("machines.pool.selector.matchLabels", NOTHING, CP, OF_RACK_B),
        *(
            sets(f"failureDomains.{name}", NOTHING, CP, {**WORKERS, "failureDomains": {name: value}})
            for name, value in (("topologyKey", "kubernetes.io/hostname"), ("policy", "Required"), ("domains", ["a"]))
        ),
        sets("labels", NOTHING, CP, {**WORKERS, "labels": {"a": "b"}}),
        sets("taints", NOTHING, CP, {**WORKERS, "taints": [TAINT]}),
    ]
)
# Fields that are a part of what one of the table is, or that are set once: why they have no row of their own.
ELSEWHERE = {
    "etcd.backup.destination.s3": "as `etcd.backup.destination.claim`: the next backup goes there",
    "authority": "a deployed cluster keeps its CAs; tests/unit/operator/decide/test_authority.py",
    **{
        f"kubernetes.{name}.extraVolumes.0": "by `extraVolumes`"
        for name in ("apiServer", "controllerManager", "scheduler")
    },
    "kubernetes.kubeadm.ignorePreflightErrors.0": "by `ignorePreflightErrors`",
    "kubernetes.kubeadm.skipPhases.0": "by `skipPhases`",
    "network.ipFamilies.0": "by `ipFamilies`",
    "isolation.allowFrom.0": "by `allowFrom`; test_isolation.py",
    "isolation.allowTo.0": "by `allowTo`; test_isolation.py",
    "endpoint.gatewayRef": "of the type Gateway; test_endpoint.py",
    "certificates.extraSans.0": "by `extraSans`",
    "network.loadBalancerAddresses.0": "by `loadBalancerAddresses`",
    "authentication.jwt.0": "by `jwt`",
    "runtime.registries.0": "by `registries`",
    "hardening.tls.cipherSuites.0": "by `cipherSuites`",
    "hardening.admissionPlugins.0": "by `admissionPlugins`",
    "hardening.eventRateLimits.0": "by `eventRateLimits`",
    "hardening.podSecurity.exempt.0": "by `exempt`",
    "addons.0": "by `addons`; tests/unit/operator/controllers/test_addons.py",
    "playbooks.product.configMap": "tests/unit/operator/decide/test_product_file.py",
    "machineSets.0.roles.0": "by `roles`",
    "machineSets.0.machines.names": "the definition refuses another source; by `replicas`",
    "machineSets.0.machines.kubevirt": "of Machines that are made later; tests/unit/operator/controllers",
    "machineSets.0.taints.0": "by `taints`",
    "machineSets.0.failureDomains.domains.0": "by `domains`",
}
DEFAULTED = {"source.checksums"}


def fields() -> list[str]:
    return [".".join(path) for path, _ in leaves(SPECS["ClusterDeployment"][1])]


def test_every_field_has_a_row_or_a_reason() -> None:
    lacking = [name for name in fields() if name not in EDITS and not name.startswith(tuple(ELSEWHERE))]
    assert lacking == []
    assert EDITS.keys() <= set(fields())


def constant(schema: Json, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield each field that the API server keeps as it was; one that ends with a dot is any part of that object."""
    for rule in schema.get("x-kubernetes-validations", ()):
        if "oldSelf" in rule["rule"] and not rule.get("optionalOldSelf"):  # else it is about new objects
            yield ".".join((*path, rule.get("fieldPath", "").removeprefix(".")))
    for name, inner in schema.get("properties", {}).items():
        yield from constant(inner, (*path, name))
    if "items" in schema:
        yield from constant(schema["items"], (*path, "0"))


def test_what_the_api_server_keeps_as_it_was_is_refused_by_every_other_judge() -> None:
    paths = set(constant(SPECS["ClusterDeployment"][1]))
    assert {path for path in paths if path in EDITS and EDITS[path].follows != REFUSED} == set()
    # Only the API server has the former object; of an EtcdCluster, each of its fields has a row.
    assert paths - EDITS.keys() == {"machineSets.0.machines.", "etcd.clusterRef"}


def outcome(one: Desired, world: Any) -> str:
    """Return what follows of a wish in a world."""
    found = mistakes(one.wish, load_releases().kubernetes, creating=False) + edit_mistakes(one.wish, world.applied)
    if found:
        return REFUSED
    verdict = next_operation(one, world)
    if isinstance(verdict, Wait):
        return NOTHING if str(verdict.reason) == "Paused" else str(verdict.reason)
    return NOTHING if isinstance(verdict, Nothing) else verdict.operation


@pytest.mark.parametrize("path", EDITS)
def test_no_variable_has_a_part_that_its_field_does_not_set(path: str) -> None:
    edit = EDITS[path]
    spec = {name: value for name, value in edit.spec.items() if path not in DEFAULTED or name != "source"}
    assert [name for name, value in wish(*edit.sets, **spec).variables.items() if "null" in json.dumps(value)] == []


@pytest.mark.parametrize("path", EDITS)
def test_an_edit_is_refused_or_carried_out_and_taking_it_back_leads_to_the_cluster_as_it_was(path: str) -> None:
    edit, before = EDITS[path], wish()
    world = deployed(before)
    spec = {name: value for name, value in edit.spec.items() if path not in DEFAULTED or name != "source"}
    after = wish(*edit.sets, machines=MACHINES, applied=world.applied, **spec)
    assert outcome(after, world) == edit.follows
    assert outcome(wish(applied=world.applied), world) == NOTHING, "taken back"
