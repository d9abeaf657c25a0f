"""A wrong value of any field of a real cluster's ClusterDeployment, taken back, leaves the cluster as it was.

WRONG has a value for each field, and for each class of values of those that hold settings. What no field of that form
can be is walked as well; the API server refuses it. `-k` chooses rows by their names.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.objects import condition, dig
from harness.kube.resources import CONFIG_MAP, DAEMON_SET, DEPLOYMENT, JOB, NODE, PVC, SECRET, SERVICE, VM
from harness.model import Cell
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, ETCD_BACKUP, MACHINE, MACHINE_SET
from harness.operator.controllers.infrastructure import key_name
from harness.spec import Spec
from harness.until import Deadline, NotYet, until
from tests.embedded.operator_live.lived import INTERVAL, Lived, cell_of, deployed
from tests.unit.operator.api.test_fields import SPECS, leaves, placed, wrong

End = Literal["not accepted", "failed", "waits", "paused", "no add-on", "succeeded", "nothing to do"]
# How an edit ends: a condition, its status, its reason ("" for any), and the outcome of the operation, if one began.
ENDS: dict[End, tuple[str, str, str, str]] = {
    "not accepted": ("Accepted", "False", "", ""),
    "failed": ("Degraded", "True", "Failed", "failed"),
    "waits": ("Progressing", "True", "WaitingForMachines", ""),
    "paused": ("Progressing", "False", "Paused", ""),
    "no add-on": ("AddonsReady", "False", "", ""),
    "succeeded": ("Progressing", "False", "UpToDate", "succeeded"),
    "nothing to do": ("Progressing", "False", "UpToDate", ""),
}
SECONDS = 420.0  # of an operation that fails and puts back what it changed
IDLE_SECONDS = 90.0  # of an edit that begins no operation, and of the removal of what the operator made
NOWHERE = "http://127.0.0.1:9"
HEX = "0" * 64
MADE = {"image": {"url": f"{NOWHERE}/x.qcow2", "checksum": f"sha256:{HEX}"}, "memory": "512Mi", "disk": "10Gi"}
S3 = {"bucket": "no-such-bucket", "secretRef": {"name": "no-such-secret"}}


def edited(spec: Mapping[str, Any], edit: Mapping[str, Any]) -> Json:
    """Return a spec with other values at some paths."""
    made: Json = copy.deepcopy(dict(spec))
    for path, given in edit.items():
        *steps, last = path.split(".")
        place: Any = made
        for step in steps:
            place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
        if not isinstance(place, list):
            place[last] = given
        elif int(last) < len(place):
            place[int(last)] = given
        else:
            place.append(given)
    return made


@dataclass(frozen=True)
class WrongField:
    """One wrong edit.

    fields: what it covers.  edit: values by path; a list gets longer by the number behind its end.
    words: what the object, or the API server that refuses the edit, says.
    """

    name: str
    fields: tuple[str, ...]
    edit: Mapping[str, Any]
    end: End
    words: str = ""


def value(path: str, given: Any, end: End, words: str = "", name: str = "") -> WrongField:
    """Return one value of one field."""
    return WrongField(name or path, (path,), {path: given}, end, words)


def settings(path: str, given: Mapping[str, Any], end: End, words: str) -> WrongField:
    """Return settings of a component."""
    edit = {f"{path}.{name}": each for name, each in given.items()}  # beside those that the cell has
    return WrongField(f"{path}-{next(iter(given))}", (path,), edit, end, words)


def added(path: str, given: Any, **more: Any) -> WrongField:
    """Return a set of machines that cannot be made, because of one field and of an image that nobody serves."""
    kubevirt = edited(MADE, {path: given, **more})
    one = {"name": "v", "roles": ["worker"], "replicas": 1, "machines": {"kubevirt": kubevirt}}
    field = f"machineSets.0.machines.kubevirt.{path}"
    return WrongField(field, (field, f"{field}.0"), {"machineSets.1": one}, "waits")


def worker(**more: Any) -> dict[str, Any]:
    """Return what adds a set of workers."""
    return {"machineSets.1": {"name": "v", "roles": ["worker"], "replicas": 1, **more}}


def backup(path: str, given: Any, **s3: Any) -> WrongField:
    """Return a bucket that nobody serves, for backups that nothing asks for yet."""
    field = f"etcd.backup.destination.s3.{path}"
    where = edited({**S3, **s3}, {path: given})
    return WrongField(field, (field,), {"etcd.backup.destination": {"s3": where}}, "nothing to do")


def several(name: str, edit: Mapping[str, Any], end: End, words: str = "", *more: str) -> WrongField:
    """Return values of several fields at once. more: fields below these."""
    return WrongField(name, (*edit, *more), edit, end, words)


def volume(component: str) -> WrongField:
    """Return a folder that no machine has, for a component."""
    place = f"kubernetes.{component}.extraVolumes"
    one = {
        "name": "no-such",
        "hostPath": "/nowhere",
        "mountPath": "/nowhere",
        "pathType": "Directory",
        "readOnly": True,
    }
    return several(place, {place: [one]}, "failed", "/nowhere", *(f"{place}.0.{name}" for name in one))


NO_PODS = {
    "matchLabels": {"no": "such"},
    "matchExpressions": [{"key": "no", "operator": "In", "values": ["such"]}],
}
NOBODY = [
    {"podSelector": NO_PODS, "namespaceSelector": NO_PODS, "ports": [{"protocol": "SCTP", "port": 1, "endPort": 2}]},
    {"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.0/25"]}},
]
OF_PEERS = (
    *("ipBlock.cidr", "ipBlock.except", "ipBlock.except.0"),
    *("ports", "ports.0.port", "ports.0.endPort", "ports.0.protocol"),
    *(
        f"{selector}.{name}"
        for selector in ("podSelector", "namespaceSelector")
        for name in (
            *("matchLabels", "matchExpressions", "matchExpressions.0.key", "matchExpressions.0.operator"),
            *("matchExpressions.0.values", "matchExpressions.0.values.0"),
        )
    ),
)
TIMEOUTS = ("controlPlaneComponentHealthCheck", "kubeletHealthCheck", "kubernetesAPICall", "etcdAPICall")
TIMEOUTS_OF_JOINS = ("tlsBootstrap", "discovery", "upgradeManifests")
SITES = ("kubernetes", "containerd", "runc", "cni-plugins", "etcd")
IMAGES = ("sandbox", "coredns", "networkPlugin", "metricsServer", "localPathProvisioner", "busybox")
IMAGES_OF_OTHERS = (
    "metallbController",
    "metallbSpeaker",
    "kubeRouter",
    "traefik",
)  # add-ons that the cell does not have
AUTHENTICATOR: dict[str, Any] = {
    "issuer": {
        "url": "https://issuer.example",
        "discoveryURL": "https://issuer.example/.well-known/openid-configuration",
        "audiences": ["guest"],
        "audienceMatchPolicy": "MatchAny",
        "certificateAuthority": "no PEM",
    },
    "claimMappings": {"username": {"claim": "sub"}},
    "claimValidationRules": [{"claim": "a", "requiredValue": "b"}],
    "userValidationRules": [{"expression": "1 +"}],
}
BELOW_JWT = (
    *(f"issuer.{name}" for name in AUTHENTICATOR["issuer"]),
    *("issuer.audiences.0", "claimMappings", "claimValidationRules", "claimValidationRules.0"),
    *("userValidationRules", "userValidationRules.0"),
)
POOL = {"pool": {"selector": {"matchLabels": {"rack": "no-such-rack"}}}}
WRONG = (
    value("version", "1.36.99", "not accepted", "1.36.99"),
    value("version", "1.35.4", "not accepted", "cannot be gone back to", "version-older"),
    *(value(f"components.{name}", "99.0.0", "failed", "99.0.0") for name in ("coredns", "pause", "runc")),
    *(value(f"components.{name}", "99.0.0", "failed", "99.0.0") for name in ("cni-plugins", "flannel")),
    value("components.etcd", "3.6.99", "failed", "3.6.99"),
    value(
        "components.etcd", "99.0.0", "not accepted", "is not a version that the playbooks know", "components.etcd-new"
    ),
    value("components.etcd", "3.5.0", "not accepted", "cannot be gone back to", "components.etcd-older"),
    value("adopt", True, "nothing to do"),
    value("paused", True, "paused"),
    value("approval", "Manual", "nothing to do"),
    value("network.plugin", "routes", "not accepted", "cannot change"),
    value("network.pods", "10.244.0.0/16", "not accepted", "cannot change"),
    value("network.services", "10.97.0.0/16", "not accepted", "cannot change"),
    value("network.dnsDomain", "other.local", "not accepted", "cannot change"),
    value("network.vxlan.port", 8473, "succeeded"),
    value("network.vxlan.mtu", 65535, "failed", "65535"),
    WrongField("runtime.name", ("runtime.name",), {"runtime.name": "docker"}, "not accepted", "docker"),
    value("runtime.version", "2.4.99", "failed", "2.4.99"),
    value(
        "runtime.version", "99.0.0", "not accepted", "is not a version that the playbooks know", "runtime.version-new"
    ),
    settings("runtime.config", {"max_concurrent_downloads": "many"}, "failed", "MaxConcurrentDownloads"),
    settings("etcd.extraArgs", {"no-such-flag": "x"}, "failed", "no-such-flag"),
    settings("etcd.extraArgs", {"auto-compaction-mode": "never"}, "failed", "auto-compaction"),
    WrongField(
        "etcd.backup.schedule",
        ("etcd.backup.schedule",),
        {"etcd.backup": {"schedule": "0 0 30 2 *", "destination": {"claim": "c"}}},
        "not accepted",
        "is not a schedule that fires",
    ),
    WrongField(
        "etcd.backup.timeZone",
        ("etcd.backup.timeZone",),
        {"etcd.backup": {"schedule": "@daily", "timeZone": "Mars/Base", "destination": {"claim": "c"}}},
        "not accepted",
        "Mars/Base",
    ),
    WrongField(
        "etcd.backup.drill",
        ("etcd.backup.drill",),
        {"etcd.backup": {"schedule": "@yearly", "drill": "0 0 30 2 *", "destination": {"claim": "c"}}},
        "not accepted",
        "is not a schedule that fires",
    ),
    WrongField(
        "etcd.backup",
        ("etcd.backup.suspend", "etcd.backup.keep", "etcd.backup.maxAgeHours", "etcd.backup.destination.claim"),
        {
            "etcd.backup": {
                "schedule": "@yearly",
                "suspend": True,
                "keep": 50,
                "maxAgeHours": 1,
                "destination": {"claim": "no-such-claim"},
            }
        },
        "nothing to do",
    ),
    value("etcd.backup.beforeDisruption", True, "not accepted", "destination"),
    backup("bucket", "another"),
    backup("prefix", "no/such/prefix"),
    backup("endpoint", NOWHERE),
    backup("region", "mars-1"),
    backup("pathStyle", True),
    backup("secretRef.name", "another-secret"),
    backup("caSecretRef.name", "no-such-secret", caSecretRef={"name": "x", "key": "ca.crt"}),
    backup("caSecretRef.key", "no-such-key", caSecretRef={"name": "x", "key": "ca.crt"}),
    backup("serverSideEncryption", "AES256"),
    backup("kmsKeyId", "no-such-key", serverSideEncryption="aws:kms"),
    backup("encryptionKeyRef.name", "no-such-secret", encryptionKeyRef={"name": "x", "key": "key"}),
    backup("encryptionKeyRef.key", "no-such-key", encryptionKeyRef={"name": "x", "key": "key"}),
    settings("kubernetes.apiServer.extraArgs", {"no-such-flag": "x"}, "failed", "unknown flag"),
    settings("kubernetes.apiServer.extraArgs", {"audit-policy-file": "/nowhere"}, "failed", "/nowhere"),
    settings("kubernetes.controllerManager.extraArgs", {"no-such-flag": "x"}, "failed", "unknown flag"),
    settings("kubernetes.controllerManager.extraArgs", {"controllers": "no-such"}, "failed", "no-such"),
    settings("kubernetes.scheduler.extraArgs", {"no-such-flag": "x"}, "failed", "unknown flag"),
    settings("kubernetes.scheduler.extraArgs", {"config": "/nowhere"}, "failed", "/nowhere"),
    settings("kubernetes.kubelet.config", {"noSuchSetting": True}, "failed", "noSuchSetting"),
    settings("kubernetes.kubelet.config", {"maxPods": -5}, "not accepted", "maxPods"),
    settings(
        "kubernetes.kubelet.config",
        {"authentication": {"x509": {"clientCAFile": "/nowhere.crt"}}},
        "failed",
        "nowhere.crt",
    ),
    settings("kubernetes.kubeProxy.config", {"bindAddress": "nowhere"}, "failed", "nowhere"),
    value("kubernetes.kubeProxy.mode", "iptables", "succeeded"),
    WrongField("addons", ("addons", "addons.0.name"), {"addons.9": {"name": "dashboard"}}, "not accepted", "no add-on"),
    value("addons.0.version", "99.0.0", "failed", "99.0.0"),
    WrongField(
        "addons.0.manifests.configMap",
        ("addons.0.manifests.configMap",),
        {"addons.9": {"name": "shop", "manifests": {"configMap": "no-such-map"}}},
        "no add-on",
        "no-such-map",
    ),
    WrongField(
        "addons.0.manifests.url",
        ("addons.0.manifests.url", "addons.0.manifests.sha256"),
        {"addons.9": {"name": "shop", "manifests": {"url": f"{NOWHERE}/x.yml", "sha256": HEX}}},
        "no add-on",
        "127.0.0.1:9",
    ),
    value("source.type", "Upstream", "failed"),
    value("source.mirror", NOWHERE, "succeeded"),
    value("source.registry", "127.0.0.1:9", "failed", "127.0.0.1:9"),
    value("source.checksums", {"kubelet/1.36.3": HEX}, "nothing to do"),
    value("machineSets", [], "not accepted", "machineSets"),
    value("machineSets.0.name", "other", "not accepted", "other"),
    WrongField(
        "machineSets.0.roles",
        ("machineSets.0.roles", "machineSets.0.roles.0"),
        {"machineSets.0.roles": ["control-plane"]},
        "not accepted",
        "roles",
    ),
    value("machineSets.0.replicas", 3, "not accepted", "replicas"),
    WrongField(
        "machineSets.0.machines.names",
        ("machineSets.0.machines.names", "machineSets.0.machines.names.0"),
        worker(machines={"names": ["no-such-machine"]}),
        "waits",
    ),
    WrongField(
        "machineSets.0.machines.pool",
        ("machineSets.0.machines.pool.selector.matchLabels",),
        worker(machines=POOL),
        "waits",
    ),
    added("image.url", f"{NOWHERE}/another.qcow2"),
    added("image.checksum", f"sha512:{HEX}{HEX}"),
    added("image.credentials", "no-such-secret"),
    added("image.certificates", "no-such-map"),
    added("cpus", 512),
    added("memory", "9999999Gi"),
    added("disk", "9999999Ti"),
    added("storageClass", "no-such-class"),
    added("nodeSelector", {"rack": "no-such-rack"}),
    added("user", "nobody"),
    added("zones", ["mars"]),
    value("machineSets.0.labels", {"kubernetes.io/hostname": "x"}, "not accepted", "kubernetes.io/hostname"),
    value("machineSets.0.labels", {"tier": "gold"}, "nothing to do", "", "machineSets.0.labels-own"),
    WrongField(
        "machineSets.0.taints",
        tuple(f"machineSets.0.taints{part}" for part in ("", ".0.key", ".0.value", ".0.effect")),
        {"machineSets.0.taints": [{"key": "no-such", "value": "x", "effect": "NoSchedule"}]},
        "nothing to do",
    ),
    WrongField(
        "machineSets.0.taints-kubernetes",
        ("machineSets.0.taints.0.key",),
        {"machineSets.0.taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
        "not accepted",
        "taint",
    ),
    several(
        "loadBalancer.type",
        {"loadBalancer.type": "Service", "endpoint.type": "VIP", "endpoint.address": "192.0.2.250"},
        "not accepted",
        "different ways to the API",
    ),
    several(
        "endpoint",
        {
            "endpoint.type": "LoadBalancer",
            "endpoint.className": "no-such",
            "endpoint.annotations": {"example.com/pool": "no-such"},
        },
        "nothing to do",  # EndpointReady says that nobody gives it an address; certificates stay
    ),
    several(
        "isolation",
        {"isolation.enabled": True, "isolation.allowFrom": NOBODY, "isolation.allowTo": NOBODY},
        "nothing to do",  # NetworkIsolated says what is known of the network
        "",
        *(f"isolation.{side}.0.{name}" for side in ("allowFrom", "allowTo") for name in OF_PEERS),
    ),
    *(
        several(f"isolation-{side}", {f"isolation.{side}": [{"ports": [{"port": 1}]}]}, "not accepted", "names nobody")
        for side in ("allowFrom", "allowTo")
    ),
    several(
        "isolation-except",
        {"isolation.allowTo": [{"ipBlock": {"cidr": "192.0.2.0/24", "except": ["198.51.100.0/24"]}}]},
        "not accepted",
        "not a part of the network",
    ),
    value("endpoint.host", "api.example.com", "not accepted", "has no host"),
    value("endpoint.port", 443, "not accepted", "has no port"),
    several(
        "endpoint.address",
        {"endpoint.type": "VIP", "endpoint.address": "192.0.2"},
        "not accepted",
        "not an IP address",
    ),
    several(
        "endpoint.gatewayRef",
        {"endpoint.gatewayRef": {"name": "no-such", "namespace": "no-such", "sectionName": "no-such"}},
        "not accepted",
        "has no gatewayRef",
        *(f"endpoint.gatewayRef.{name}" for name in ("name", "namespace", "sectionName")),
    ),
    WrongField(
        "health",
        ("health.remediation", "health.afterSeconds", "health.maxUnhealthy"),
        {"health": {"remediation": "Replace", "afterSeconds": 1, "maxUnhealthy": 200}},
        "nothing to do",
    ),
    value("access", "Direct", "nothing to do"),
    value("variables", {"cluster_no_such_variable": 1}, "not accepted", "cluster_no_such_variable"),
    WrongField(
        "variables-of-a-field",
        ("variables",),
        {"variables.cluster_kubernetes_version": "1.34.4"},
        "not accepted",
        "cluster_kubernetes_version",
    ),
    WrongField(
        "variables-setting",
        ("variables",),
        {"variables.cluster_timeout_scale": 0},
        "not accepted",
        "is not a number above 0",
    ),
    several(
        "authentication.jwt",
        {"authentication.jwt": [AUTHENTICATOR]},
        "failed",
        "certificateAuthority",
        *(f"authentication.jwt.0.{name}" for name in BELOW_JWT),
    ),
    several(
        "authority",
        {f"authority.{name}SecretRef.name": "no-such-secret" for name in ("ca", "etcd", "proxy", "serviceAccount")},
        "nothing to do",
    ),
    several(
        "authority.issuerRef",
        {"authority.issuerRef": {"name": "no-such-issuer", "kind": "NoSuchKind", "group": "no.such.group"}},
        "nothing to do",
        "",
        *(f"authority.issuerRef.{name}" for name in ("name", "kind", "group")),
    ),
    several(
        "authority.keysOnMachines",
        {"authority.keysOnMachines": False, "hardening.kubeletCertificatesSigned": True},
        "not accepted",
        "nothing in the cluster signs what kubelets ask for",
    ),
    several(
        "certificates", {"certificates.validity": "99999h", "certificates.caValidity": "9999h"}, "failed", "longer"
    ),
    value("certificates.renewBeforeDays", 9999, "not accepted", "renewBeforeDays"),
    value("certificates.folder", "/etc/kubernetes/elsewhere", "not accepted", "folder cannot change"),
    several(
        "certificates.extraSans",
        {"certificates.extraSans": ["*."]},
        "not accepted",
        "extraSans",
        "certificates.extraSans.0",
    ),
    value("components.crictl", "99.0.0", "nothing to do"),
    several(
        "hardening.admissionPlugins",
        {"hardening.admissionPlugins": ["NoSuchPlugin"]},
        "failed",
        "NoSuchPlugin",
        "hardening.admissionPlugins.0",
    ),
    several(
        "hardening.anonymousHealthOnly",
        {"hardening.anonymousHealthOnly": True, "kubernetes.apiServer.extraArgs.anonymous-auth": "false"},
        "failed",
        "exclude each other",
    ),
    value("hardening.auditPolicy", {"rules": [{"level": "Loud"}]}, "failed", "Loud"),
    several(
        "hardening.eventRateLimits",
        {"hardening.eventRateLimits": [{"type": "Pod", "qps": 0, "burst": 0, "cacheSize": 0}]},
        "not accepted",
        "eventRateLimits",
        *(f"hardening.eventRateLimits.0.{name}" for name in ("type", "qps", "burst", "cacheSize")),
    ),
    several(
        "hardening.podSecurity",
        {
            **{f"hardening.podSecurity.{name}": "strict" for name in ("enforce", "audit", "warn")},
            "hardening.podSecurity.exempt": ["No_Namespace"],
        },
        "not accepted",
        "strict",
        "hardening.podSecurity.exempt.0",
    ),
    several(
        "hardening-switches",
        {
            **dict.fromkeys(("hardening.kubeletCertificatesSigned", "hardening.privateFiles"), True),
            "hardening.seccompDefault": True,
            "hardening.profiling": False,
        },
        "succeeded",
    ),
    several(
        "hardening.tls",
        {"hardening.tls.minimum": "VersionTLS11", "hardening.tls.cipherSuites": ["TLS_NONE"]},
        "not accepted",
        "VersionTLS11",
        "hardening.tls.cipherSuites.0",
    ),
    *(volume(name) for name in ("apiServer", "controllerManager", "scheduler")),
    value("kubernetes.coredns.cacheSeconds", -1, "not accepted", "cacheSeconds"),
    value("kubernetes.featureGates", {"NoSuchGate": True}, "failed", "NoSuchGate"),
    several(
        "kubernetes.kubeadm.ignorePreflightErrors",
        {"kubernetes.kubeadm.ignorePreflightErrors": ["no such check"]},
        "not accepted",
        "ignorePreflightErrors",
        "kubernetes.kubeadm.ignorePreflightErrors.0",
    ),
    several(
        "kubernetes.kubeadm.skipPhases",
        {"kubernetes.kubeadm.skipPhases": ["certs"]},
        "not accepted",
        "skipPhases",
        "kubernetes.kubeadm.skipPhases.0",
    ),
    several(
        "kubernetes.kubeadm.timeouts",
        {f"kubernetes.kubeadm.timeouts.{name}": "never" for name in (*TIMEOUTS, *TIMEOUTS_OF_JOINS)},
        "not accepted",
        "timeouts",
    ),
    value("kubernetes.kubelet.swapOff", False, "succeeded"),
    value("kubernetes.patches", {"no-such0.json": {"a": 1}}, "failed", "names no patch"),
    value("kubernetes.scheduler.config", {"parallelism": -1}, "failed", "parallelism"),
    several(
        "machineSets.0.failureDomains",
        {
            "machineSets.0.failureDomains.topologyKey": "not a label",
            "machineSets.0.failureDomains.policy": "Strictly",
            "machineSets.0.failureDomains.domains": ["no domain"],
        },
        "not accepted",
        "failureDomains",
        "machineSets.0.failureDomains.domains.0",
    ),
    several(
        "maintenance",
        {
            **{
                f"maintenance.{name}": -1
                for name in ("defragmentMebibytes", "defragmentPercent", "drainTimeoutSeconds")
            },
            "maintenance.drainForce": True,
        },
        "not accepted",
        "maintenance",
    ),
    several(
        "network.ingress",
        {"network.ingress.address": "no-such.example", "network.ingress.defaultClass": False},
        "nothing to do",
    ),
    several(
        "network.families",
        {"network.ipFamilies": ["IPv6"], "network.ipv6Pods": "fd10::/56", "network.ipv6Services": "fd11::/112"},
        "not accepted",
        "network",
        "network.ipFamilies.0",
    ),
    several(
        "network.loadBalancerAddresses",
        {"network.loadBalancerAddresses": ["nowhere"]},
        "not accepted",
        "loadBalancerAddresses",
        "network.loadBalancerAddresses.0",
    ),
    value("network.pool", "no-such-pool", "not accepted", "pool"),
    value("network.vxlan.vni", 9999999, "not accepted", "vni"),
    value("runtime.systemdCgroup", True, "failed", "cgroup"),
    value("runtime.withinLimits", False, "failed"),
    several(
        "runtime.registries",
        {"runtime.registries": [{"name": "http://a", "server": "a:5000", "ca": "none"}]},
        "not accepted",
        "registries",
        *(f"runtime.registries.0.{name}" for name in ("name", "server", "ca")),
    ),
    value("source.architecture", "mips", "not accepted", "architecture"),
    value("source.imagePrefix", "registry.invalid/none", "failed", "registry.invalid"),
    several("source.images", {f"source.images.{name}": "no-such:1" for name in IMAGES}, "failed", "no-such"),
    several(
        "source.images-others", {f"source.images.{name}": "no-such:1" for name in IMAGES_OF_OTHERS}, "nothing to do"
    ),
    several("source.sites", {f"source.sites.{name}": NOWHERE for name in SITES}, "nothing to do"),
    value("playbooks.image", "registry.invalid/none:1", "nothing to do"),
    value("playbooks.product.configMap", "no-such-map", "not accepted", "there is no ConfigMap no-such-map"),
    WrongField(
        "jobs",
        tuple(f"jobs.{name}" for name in ("retries", "deadlineSeconds", "keepFailed", "keepSucceeded")),
        {"jobs": {"retries": 0, "deadlineSeconds": 60, "keepFailed": 0, "keepSucceeded": 0}},
        "nothing to do",
    ),
    several(
        "etcd.clusterRef",
        {"etcd.clusterRef.name": "no-such", "etcd.clusterRef.prefix": "/x"},
        "not accepted",
        "a cluster cannot move to another etcd",
    ),
    value("deletion.etcdKeys", "Delete", "not accepted", "has no keys in another etcd"),
    WrongField(
        "deletion",
        ("deletion.machines", "deletion.backups"),
        {"deletion": {"machines": "Reset", "backups": "Delete"}},
        "nothing to do",
    ),
)
IN_ORDER = sorted(WRONG, key=lambda row: ENDS[row.end][3])  # first what begins no operation
FORM = [(path, schema) for path, schema in leaves(SPECS["ClusterDeployment"][1])]
FILES = "/etc/kubernetes /etc/containerd /var/lib/kubelet/config.yaml /usr/local/bin /opt/cni/bin"


@pytest.fixture(scope="module")
def planned(spec: Spec) -> Cell:
    """Return a cell of one machine with all add-ons of the playbooks."""
    return cell_of(spec, "operator", topology="all-in-one", scenario="fresh")


@pytest.fixture(scope="module")
def lived(spec: Spec, planned: Cell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    """Return the cluster once it is deployed."""
    with deployed(spec, planned, "fields", tmp_path_factory.mktemp("cell")) as found:
        yield found


def is_now(wish: Json, kind: str, status: str, reason: str) -> bool:
    """Tell whether a condition is about the object as it is now, and says this."""
    found = condition(wish, kind) or {}
    current = found.get("observedGeneration") == wish["metadata"]["generation"]
    return current and found.get("status") == status and reason in ("", found.get("reason"))


def settled(lived: Lived) -> None:
    """Wait until nothing is to do, and what is wished is deployed and works."""
    kinds = (("Progressing", "False", "UpToDate"), ("Ready", "True", ""), ("Accepted", "True", ""))

    def probe() -> bool | NotYet:
        wish = lived.get("guest", CLUSTER_DEPLOYMENT)
        return all(is_now(wish, *kind) for kind in kinds) or NotYet(str(wish["status"]))

    until(probe, deadline=Deadline.after(SECONDS), what="the cluster to be as it is wished", interval=INTERVAL)


def ended(lived: Lived, end: End, words: str) -> Json:
    """Return the object once an edit has ended as it should, with these words, or as nothing changes by itself."""
    final = [ENDS[other] for other in ("not accepted", "failed") if other != end]
    kind, status, reason, _ = ENDS[end]

    def probe() -> Json | NotYet:
        wish = lived.get("guest", CLUSTER_DEPLOYMENT)
        as_said = is_now(wish, kind, status, reason) and words in said(lived, kind)
        over = as_said or any(is_now(wish, *one[:3]) for one in final)
        return wish if over else NotYet(str(wish["status"]))

    seconds = SECONDS if ENDS[end][3] else IDLE_SECONDS
    return until(probe, deadline=Deadline.after(seconds), what=end, interval=INTERVAL)


def without_status(found: Json) -> Json:
    """Return what an object is, without what changes by itself, as keys and times in Secrets do."""
    name, labels = found["metadata"]["name"], found["metadata"].get("labels")
    data = sorted(found.get("data") or {}) if "type" in found else found.get("data")
    return {"name": name, "labels": labels, "spec": found.get("spec"), "data": data}


def state(lived: Lived) -> Json:
    """Return what has to be as it was: the objects around the cluster, what is in it, the files of its machine."""
    outside = (MACHINE_SET, MACHINE, VM, PVC, SECRET, ETCD_BACKUP)
    around = {kind.kind: lived.api.list(kind, lived.namespace).items for kind in outside}
    # The key of machines that the operator makes stays as long as the ClusterDeployment, once one was asked for.
    around[SECRET.kind] = [one for one in around[SECRET.kind] if one["metadata"]["name"] != key_name("guest")]
    guest = Cluster.from_kubeconfig(lived.life.guests[0].kubeconfig)
    within = {
        kind.kind: guest.list(kind, "kube-system").items for kind in (CONFIG_MAP, DAEMON_SET, DEPLOYMENT, SERVICE)
    }
    nodes = guest.list(NODE).items
    found = {
        name: sorted((without_status(one) for one in objects), key=lambda one: str(one["name"]))
        for name, objects in {**around, **within, NODE.kind: nodes}.items()
    }
    listed = lived.sh("cp-0", f"find {FILES} -type f -exec sha256sum {{}} + | sort -k 2")
    files = [line for line in listed.splitlines() if "checkpoint.tar" not in line]
    applied = dig(lived.get("guest", CLUSTER), "status", "applied", "variables")
    return {**found, "files": files, "applied": applied, "served": guest.version()}


def differences(before: Json, after: Json) -> list[str]:
    """Return in what two states differ."""
    parts = ((name, one, after[name]) for name, one in before.items() if one != after[name])
    return [f"{name}: {old} != {new}" for name, old, new in parts]


def restored(lived: Lived, before: Json) -> None:
    """Wait until the cluster is as it was; what the operator deletes may take a moment to be gone."""
    settled(lived)

    def probe() -> bool | NotYet:
        found = differences(before, state(lived))
        return not found or NotYet("; ".join(found)[:4000])

    until(probe, deadline=Deadline.after(IDLE_SECONDS), what="the former state", interval=2.0)


def spec_of(lived: Lived) -> Json:
    """Return what is wished."""
    found: Json = lived.get("guest", CLUSTER_DEPLOYMENT)["spec"]
    return found


def written(lived: Lived, spec: Mapping[str, Any]) -> str:
    """Write a whole spec, as `kubectl replace` does; return why the API server refuses it, "" when it does not."""

    def probe() -> str | NotYet:
        found = lived.get("guest", CLUSTER_DEPLOYMENT)
        try:
            lived.api.replace(CLUSTER_DEPLOYMENT, {**found, "spec": dict(spec)})
        except ApiFailure as refused:
            return NotYet(str(refused)) if refused.conflict else str(refused)
        return ""

    return until(probe, deadline=Deadline.after(lived.seconds), what="the edit to be written", interval=INTERVAL)


@pytest.fixture
def undone(lived: Lived) -> Iterator[Callable[[], None]]:
    """Return what takes an edit back; at the end it is taken back in any case, so that the next row begins well."""
    settled(lived)
    former = copy.deepcopy(spec_of(lived))

    def back() -> None:
        if spec_of(lived) != former:
            assert written(lived, former) == ""

    yield back
    back()


def said(lived: Lived, kind: str) -> str:
    """Return all that the object and its last operation say."""
    wish, cluster = lived.get("guest", CLUSTER_DEPLOYMENT), lived.get("guest", CLUSTER)
    last: Json = next(iter(dig(cluster, "status", "history") or []), {})
    return " ".join(
        [(condition(wish, kind) or {}).get("message", ""), *(str(last.get(x)) for x in ("summary", "hint"))]
    )


@pytest.mark.parametrize("row", IN_ORDER, ids=lambda row: row.name)
def test_a_wrong_field_that_is_taken_back_leaves_the_cluster_as_it_was(
    lived: Lived, undone: Callable[[], None], row: WrongField
) -> None:
    before, last, (kind, status, reason, outcome) = state(lived), lived.last_sequence(), ENDS[row.end]
    refusal = written(lived, edited(spec_of(lived), row.edit))
    if refusal:
        assert row.end == "not accepted", refusal
        assert row.words in refusal
    else:
        found = ended(lived, row.end, row.words)
        assert is_now(found, kind, status, reason), (said(lived, "Accepted"), said(lived, "Degraded"))
        assert row.words in said(lived, kind), found["status"]
        begun = [one.partition(" ")[2] for one in lived.history(after=last)]
        assert begun == ([outcome] if outcome else [])
    undone()
    restored(lived, before)


def test_no_field_takes_a_value_of_another_form(lived: Lived) -> None:
    settled(lived)
    before, generation = state(lived), lived.get("guest", CLUSTER_DEPLOYMENT)["metadata"]["generation"]
    for path, schema in FORM:
        for given in wrong(schema):
            with pytest.raises(ApiFailure) as refused:
                lived.edit(placed(path, given))
            assert refused.value.code in (400, 422), (path, given, refused.value)
    assert lived.get("guest", CLUSTER_DEPLOYMENT)["metadata"]["generation"] == generation
    assert not differences(before, state(lived))


def test_operations_leave_no_job_behind_that_runs(lived: Lived) -> None:
    settled(lived)
    active = [
        one["metadata"]["name"] for one in lived.api.list(JOB, lived.namespace).items if dig(one, "status", "active")
    ]
    assert active == []
