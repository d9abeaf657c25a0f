"""Manifests: the objects that a product installs, rendered for a cell, and where those of a guest are not like them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2

from harness import yaml_text
from harness.errors import BadInput
from harness.files import read_text
from harness.kube import Cluster, Resource
from harness.kube.failures import ApiFailure
from harness.kube.resources import (
    API_SERVICE,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    CRD,
    DAEMON_SET,
    DEPLOYMENT,
    INGRESS_CLASS,
    NAMESPACE,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
)
from harness.paths import packaged_dir, project_dir
from harness.spec.models.leaves import Manifest
from harness.validate.expected import LEFT_OUT, ExpectedGuest
from harness.validate.facts.cluster import API_HOST, DNS_HOST, Json, service_address
from harness.validate.findings import Mismatch, unjudged
from harness.validate.variables import DNS_TARGET, Patch, patches_of, patches_of_others

METALLB = "metallb.io"
KINDS = {
    one.kind: one
    for one in (
        *(NAMESPACE, SERVICE_ACCOUNT, CONFIG_MAP, SERVICE, DAEMON_SET, DEPLOYMENT, API_SERVICE, CRD, STORAGE_CLASS),
        *(INGRESS_CLASS, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING),
        Resource(METALLB, "v1beta1", "ipaddresspools", "IPAddressPool"),
        Resource(METALLB, "v1beta1", "l2advertisements", "L2Advertisement"),
    )
}
OF_RIGHTS = frozenset(one.kind for one in (CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING))


@dataclass(frozen=True)
class InstalledObject:
    """An object as the product installs it. optional: whether it may be missing, as what only some phases need."""

    content: Json
    optional: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """Return its kind, namespace and name."""
        return key_of(self.content)


def key_of(obj: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return an object's kind, namespace and name."""
    return str(obj["kind"]), str(obj["metadata"].get("namespace", "")), str(obj["metadata"]["name"])


def place_of(key: tuple[str, str, str]) -> str:
    """Return how findings name an object: KIND NAME or KIND NAMESPACE/NAME."""
    kind, namespace, name = key
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def installed(expected: ExpectedGuest) -> dict[tuple[str, str, str], InstalledObject] | None:
    """Return the objects that the product installs in the cell; None where product.yml does not say (manifests).

    Raises:
        BadInput: a file that it names is not there, cannot be rendered, or has something else than objects.
    """
    manifests = expected.leaves.manifests
    if manifests is None:
        return None
    values = _values(expected)
    objects = [obj for manifest in manifests for obj in _objects(manifest, values)]
    return {obj.key: obj for obj in objects}


def _values(expected: ExpectedGuest) -> dict[str, Any]:
    """Return what expressions and templates know: the cell's variables, and what follows from them."""
    return {
        **expected.variables,
        "images": expected.image_prefix,
        "kubernetes": expected.kube_proxy_version,
        "minor": int(expected.minor.partition(".")[2]),
        "coredns": expected.coredns,
        "dns_domain": expected.dns_domain,
        "dns_replicas": expected.leaves.dns.replicas or 2,
        "dns_address": service_address(expected.service_cidr, DNS_HOST),
        "api_address": service_address(expected.service_cidr, API_HOST),
        "kube_proxy": expected.kube_proxy_mode != LEFT_OUT,
        "kube_proxy_mode": expected.kube_proxy_mode,
        "kubelet": expected.kubelet_config,
        "pod_cidr": "" if expected.version == 6 else expected.pod_cidr,
        "ipv6_pod_cidr": expected.pod_cidr if expected.version == 6 else expected.ipv6_pod_cidr,
        "service_cidrs": expected.service_cidrs.split(","),
        "addresses": dict(expected.addresses),
        "workers": list(expected.workers),
        "control_planes": list(expected.control_plane),
    }


def _environment(folder: Path) -> jinja2.Environment:
    """Return an environment with what templates of Ansible use of its own filters and tests."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        autoescape=False,  # noqa: S701 - YAML, not HTML
    )
    made.filters |= {"to_json": json.dumps, "bool": lambda value: str(value).lower() in ("true", "yes", "1")}
    made.tests |= {
        "match": lambda text, pattern: re.match(pattern, str(text)) is not None,
        "search": lambda text, pattern: re.search(pattern, str(text)) is not None,
    }
    return made


def _objects(manifest: Manifest, values: Mapping[str, Any]) -> Iterator[InstalledObject]:
    path = next((one for folder in (project_dir(), packaged_dir()) if (one := folder / manifest.file).is_file()), None)
    if path is None:
        raise BadInput(
            f"product.yml: manifests: the file {manifest.file} is neither in the project nor packaged",
            hint="name a file of the project, from its folder on",
        )
    environment = _environment(path.parent)
    try:
        if manifest.when is not None and not environment.compile_expression(manifest.when)(**values):
            return
        own = {name: environment.compile_expression(text)(**values) for name, text in manifest.vars.items()}
        text = environment.from_string(read_text(path)).render(**{**values, **own})
    except (jinja2.TemplateError, TypeError) as error:
        raise BadInput(
            f"{path} cannot be rendered as `manifests` of product.yml asks: {error}",
            hint="its `vars` give the template's variables, as expressions of the cell's",
            paths=[path],
        ) from error
    yield from (InstalledObject(obj, manifest.optional) for obj in _parsed(text, path))


@lru_cache(maxsize=64)
def _parsed(text: str, path: Path) -> tuple[Json, ...]:
    """Return the objects of a rendered file, which nobody changes."""
    objects = tuple(yaml_text.documents(text, str(path), hint="objects with apiVersion, kind and metadata.name"))
    for obj in objects:
        if obj["kind"] not in KINDS:
            raise BadInput(
                f"{path} has an object of kind {obj['kind']}, which checks cannot read",
                hint=f"they read {', '.join(sorted(KINDS))}",
                paths=[path],
            )
    return objects


# What the API server, or a controller, adds by itself: the value of "nobody said", by the last keys of a field.
DEFAULTS: Mapping[str, Any] = {
    "allocateLoadBalancerNodePorts": True,
    "fieldRef.apiVersion": "v1",
    "conversion": {"strategy": "None"},
    "defaultMode": 0o644,
    "dnsPolicy": "ClusterFirst",
    "externalTrafficPolicy": "Cluster",
    "failureThreshold": 3,
    "hostPath.type": "",
    "imagePullPolicy": "IfNotPresent",
    "internalTrafficPolicy": "Cluster",
    "ipFamilyPolicy": "SingleStack",
    "periodSeconds": 10,
    "progressDeadlineSeconds": 600,
    "protocol": "TCP",
    "reclaimPolicy": "Delete",
    "restartPolicy": "Always",
    "revisionHistoryLimit": 10,
    "schedulerName": "default-scheduler",
    "scheme": "HTTP",
    "service.port": 443,  # of an APIService
    "sessionAffinity": "None",
    "spec.replicas": 1,
    "spec.type": "ClusterIP",
    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
    "strategy.rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
    "strategy.rollingUpdate.maxSurge": "25%",
    "strategy.rollingUpdate.maxUnavailable": "25%",
    "strategy.type": "RollingUpdate",
    "successThreshold": 1,
    "terminationGracePeriodSeconds": 30,
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "timeoutSeconds": 1,
    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
    "updateStrategy.rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
    "updateStrategy.rollingUpdate.maxSurge": 0,
    "updateStrategy.rollingUpdate.maxUnavailable": 1,
    "updateStrategy.type": "RollingUpdate",
    "volumeBindingMode": "Immediate",
}
DEPTH = 3  # keys of the longest
# What is given to each object anew, or says who wrote it.
GIVEN = frozenset(
    ("clusterIPs", "ipFamilies", "nodePort", "healthCheckNodePort", "caBundle", "finalizers", "serviceAccount")
)
BOOKKEEPING = (
    "kubectl.kubernetes.io/",
    "deployment.kubernetes.io/",
    "deprecated.daemonset.template.generation",
    "kubernetes.io/metadata.name",
    "kubeadm/",  # which patches kubeadm made an object with, as playbooks note it
)
RESTARTED = "kubectl.kubernetes.io/restartedAt"  # in a template: what `kubectl rollout restart` notes
NAMED = ("name", "mountPath", "key", "containerPort", "port", "kind")  # by which elements of a list are told apart
EMPTY: tuple[Any, ...] = (None, "", {}, [])
Field = tuple[str, ...]


@dataclass(frozen=True)
class Deviation:
    """A field of an object that is not as the manifest has it. wanted, seen: None where it has none."""

    field: Field
    wanted: Any
    seen: Any

    def mismatch(self, where: str) -> Mismatch:
        """Return the finding."""
        path = ".".join(self.field).replace(".[", "[")
        desired = f"no {path}" if self.wanted is None else f"{path} {_short(self.wanted)}"
        return Mismatch(where, desired, "none" if self.seen is None else _short(self.seen))


def _short(value: Any, limit: int = 300) -> str:
    text = value if isinstance(value, str) and value else json.dumps(value, sort_keys=True)
    return text if len(text) <= limit else f"{text[:limit]}..."


def deviations(manifest: Mapping[str, Any], there: Mapping[str, Any]) -> list[Deviation]:
    """Return the fields of an object that are not those of its manifest, nor what the API gives by itself."""
    ours, theirs = _content(manifest), _content({**there, "kind": manifest["kind"]})
    if manifest["kind"] == CONFIG_MAP.kind and "data" not in manifest:  # another check looks at that
        theirs.pop("data", None)
    return [*_compare((), ours, theirs)]


def _content(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an object says, without what differs from cluster to cluster."""
    meta = obj["metadata"]
    content = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    content |= {key: _own(meta.get(key)) for key in ("labels", "annotations") if _own(meta.get(key))}
    if obj["kind"] == NAMESPACE.kind:  # which has nothing but finalizers
        content.pop("spec", None)
    if "roleRef" in obj:
        content["roleRef"] = f"{obj['roleRef']['kind']} {obj['roleRef']['name']}"
        content["subjects"] = sorted(subjects_of(obj))
    if "rules" in obj:
        content["rules"] = sorted(map(" ".join, permissions(obj["rules"] or ())))
    return content


def _own(texts: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (texts or {}).items() if not key.startswith(BOOKKEEPING)}


def subjects_of(binding: Mapping[str, Any]) -> Iterator[str]:
    """Yield whom a binding binds: `KIND NAME`, or `ServiceAccount NAMESPACE/NAME`."""
    for subject in binding.get("subjects") or ():
        name = (
            f"{subject.get('namespace', '')}/{subject['name']}"
            if subject["kind"] == "ServiceAccount"
            else subject["name"]
        )
        yield f"{subject['kind']} {name}"


def permissions(rules: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Return rules of a role one by one: (verb, `RESOURCE.GROUP`, with a name behind it where it is for one object)."""
    rights: set[tuple[str, str]] = set()
    for rule in rules:
        places = {
            f"{resource}{f'.{group}' if group else ''}{f' {name}' if name else ''}"
            for group in rule.get("apiGroups") or ()
            for resource in rule.get("resources") or ()
            for name in rule.get("resourceNames") or ("",)
        }
        rights |= {(verb, place) for verb in rule["verbs"] for place in (*places, *(rule.get("nonResourceURLs") or ()))}
    return rights


def _compare(at: Field, desired: Any, there: Any) -> Iterator[Deviation]:
    if isinstance(desired, Mapping) and isinstance(there, Mapping):
        for key in sorted({*desired, *there}):
            if key in GIVEN and key not in desired:
                continue
            yield from _compare_key((*at, key), desired.get(key), there.get(key))
    elif _is_list(desired) and _is_list(there):
        yield from _compare_lists(at, desired, there)
    elif desired != there:
        yield Deviation(at, desired, there)


def _compare_key(at: Field, desired: Any, there: Any) -> Iterator[Deviation]:
    if at[-1] == "annotations" and isinstance(there, Mapping):
        there = {key: value for key, value in there.items() if key != RESTARTED}
    if desired is None and (there in EMPTY or _by_itself(at, there)):
        return
    if there is None and (desired in EMPTY or desired is False):
        return
    if desired is None and (at[-1] == "targetPort" or (at[-1] == "clusterIP" and there != "None")):
        return  # the port itself, which is compared; any address of the Service network
    yield from _compare(at, desired, there)


def _by_itself(at: Field, there: Any) -> bool:
    """Tell whether a value is what the API gives a field that nobody set."""
    keys = (".".join(at[-depth:]) for depth in range(1, DEPTH + 1))
    return any(key in DEFAULTS and DEFAULTS[key] == there for key in keys)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _compare_lists(at: Field, desired: Sequence[Any], there: Sequence[Any]) -> Iterator[Deviation]:
    ours, theirs = _by_name(desired), _by_name(there)
    if ours is None or theirs is None:
        if list(desired) != list(there):
            yield Deviation(at, list(desired), list(there))
        return
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        ours_named, other = ours.get(name), theirs.get(name)
        if ours_named is None or other is None:
            yield Deviation((*at, f"[{name}]"), ours_named, other)
        else:
            yield from _compare((*at, f"[{name}]"), ours_named, other)
    if [*ours] != [*theirs] and set(ours) == set(theirs) and at[-1] in ("initContainers", "containers"):
        yield Deviation(at, [*ours], [*theirs])


def _by_name(items: Sequence[Any]) -> dict[str, Any] | None:
    """Return the elements of a list by what tells them apart, None where nothing does."""
    if not all(isinstance(item, Mapping) for item in items):
        return None
    for key in NAMED:
        names = [str(item[key]) for item in items if key in item]
        if len(names) == len(items) == len(set(names)):
            return dict(zip(names, items, strict=True))
    return None


def strange_objects(api: Cluster, expected: ExpectedGuest, *, rights: bool = False) -> list[Mismatch]:
    """Return where objects that the product installs are missing, or are not as it makes them.

    Args:
        rights: whether to look at roles and their bindings, or at everything else.
    """
    known = installed(expected)
    if known is None:
        why = "product.yml does not say which it installs (manifests)"
        return [unjudged("the objects of add-ons", why, whole=True)]
    mismatches: list[Mismatch] = []
    chosen = {key: obj for key, obj in known.items() if (key[0] in OF_RIGHTS) is rights}
    for kind in sorted({kind for kind, _, _ in chosen}):
        there = {key_of({"kind": kind, **obj}): obj for obj in listed(api, KINDS[kind])}
        for key in sorted(key for key in chosen if key[0] == kind):
            mismatches += _judge(chosen[key], there.get(key), expected)
    return mismatches


def listed(api: Cluster, kind: Resource) -> Sequence[Json]:
    """Return the objects of a kind, none where the cluster does not have it."""
    try:
        return api.list(kind).items
    except ApiFailure as failure:
        if failure.not_found:
            return ()
        raise


def _judge(desired: InstalledObject, there: Json | None, expected: ExpectedGuest) -> Iterator[Mismatch]:
    where = place_of(desired.key)
    if there is None:
        if not desired.optional:
            yield Mismatch(where, "to exist, as the product installs it", "none")
        return
    dns = f"Deployment {expected.leaves.dns.deployment}" == where
    if dns and patches_of_others(expected.variables):
        yield unjudged(where, "the cell has patches, which change it")
        return
    patched = {key for patch in patches_of(DNS_TARGET, expected.variables) for key in changed_by(patch)} if dns else ()
    for deviation in deviations(desired.content, there):
        if not set(deviation.field) & set(patched):  # another check looks at what the cell's patches change
            yield deviation.mismatch(where)


def changed_by(patch: Patch) -> Iterator[str]:
    """Yield the last keys of the fields that a patch changes."""
    if patch.kind == "json":
        yield from (str(operation.get("path", "")).rpartition("/")[2] for operation in patch.content)
    else:
        yield from _last_keys(patch.content)


def _last_keys(content: Any, key: str = "") -> Iterator[str]:
    if isinstance(content, Mapping):
        for name, value in content.items():
            yield from _last_keys(value, str(name))
    elif _is_list(content) and any(isinstance(item, Mapping) for item in content):
        for item in content:
            yield from _last_keys(item, key)
    else:
        yield key
