"""An EtcdCluster as the machinery of ClusterDeployments reads it: one set with the role etcd alone; and its mistakes.

Both kinds have the same life: claims, operations, executions, backups, certificates. So an EtcdCluster is read as the
ClusterDeployment that it would be. What it has no field for is not given to the playbooks (`variables.OF_ETCD`).
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from harness.kube.failures import Json
from harness.kube.kinds.page import SpecMistake, mistakes_of_form, path_of
from harness.kube.objects import dig
from harness.operator.api.cluster import AppliedState
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.etcdcluster import MEMBER, EtcdCluster
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, ETCD_CLUSTER, RESET_FINALIZER
from harness.operator.api.rules import HOSTS, template_mistakes, variable, variable_mistakes
from harness.operator.api.schedules import schedule_mistakes
from harness.operator.api.sets import ETCD
from harness.operator.decide.variables import KnownReleases, load_releases, numbers

ETCD_VERSION = variable("etcd")
WRITTEN = "written"  # of what `as_deployment` returns: the EtcdCluster as it was written
SAME = (  # fields that both kinds have, with the same meaning
    *("approval", "paused", "health", "access", "variables", "playbooks", "jobs", "deletion", "maintenance"),
    *("certificates",),
)
CLIENT_PORT = 2379


def is_etcd(deployment: Json | None) -> bool:
    """Tell whether an object is an EtcdCluster, as it was written or as a ClusterDeployment."""
    return deployment is not None and deployment.get("kind") == ETCD_CLUSTER.kind


def kubernetes_of(version: str, releases: KnownReleases) -> str:
    """Return the release of Kubernetes whose kubeadm signs a member's certificates: the newest that goes with it.

    Args:
        version: of etcd, which may be one that no release has.
    """
    known = list(releases.kubernetes)
    for digits in (3, 2, 0):
        fits = [release for release in known if _etcd(releases, release)[:digits] == numbers(version)[:digits]]
        if fits:
            return max(fits, key=numbers)
    return max(known, key=numbers)


def _etcd(releases: KnownReleases, release: str) -> tuple[int, ...]:
    return numbers(releases.kubernetes[release].get("etcd", "0"))


def as_deployment(obj: Json) -> Json:
    """Return an EtcdCluster as the ClusterDeployment that it would be; any other object as it is.

    Its kind stays, by which `operations.duties_of` and owners tell it apart, and beside it is what was written. Texts
    about it name its fields once they have passed `own_words`.
    """
    if not is_etcd(obj) or WRITTEN in obj:
        return obj
    spec: Json = obj.get("spec") or {}
    members = {"name": MEMBER, "roles": [ETCD], "replicas": spec.get("replicas", 3), "machines": spec.get("machines")}
    if spec.get("failureDomains") is not None:
        members["failureDomains"] = spec["failureDomains"]
    secret, issuer = dig(spec, "authority", "caSecretRef"), dig(spec, "authority", "issuerRef")
    version = str(spec.get("version", ""))
    made: Json = {
        "version": kubernetes_of(version, load_releases()),
        "components": {"etcd": version},
        "etcd": {name: spec[name] for name in ("extraArgs", "backup") if name in spec},
        "source": spec.get("source") or {},
        "authority": {**({"etcdSecretRef": secret} if secret else {}), **({"issuerRef": issuer} if issuer else {})},
        "machineSets": [members],
        **{name: spec[name] for name in SAME if name in spec},
    }
    return {**obj, "spec": made, WRITTEN: obj}


def own_words(text: str) -> str:
    """Return a text that names fields of a ClusterDeployment with the names that an EtcdCluster has for them."""
    return text.replace("spec.etcd.", "spec.")


def scaled_to(deployment: Json, replicas: int) -> Json:
    """Return an EtcdCluster, as a ClusterDeployment, with another number of members."""
    written = deployment[WRITTEN]
    return as_deployment({**written, "spec": {**written["spec"], "replicas": replicas}})


def read_etcd(
    deployment: Json, applied: AppliedState | None, *, creating: bool
) -> tuple[ClusterDeployment | None, list[SpecMistake]]:
    """Return an EtcdCluster as a ClusterDeployment with all defaults, None when it has another form; and its mistakes.

    Args:
        deployment: as it was written, or as a ClusterDeployment.  applied: what was deployed last, if anything.
        creating: nothing was deployed yet.
    """
    written = deployment.get(WRITTEN, deployment)
    try:
        etcd = EtcdCluster.model_validate(written)
    except ValidationError as error:
        return None, mistakes_of_form(error)
    made = as_deployment(written)
    wish = settled(ClusterDeployment.model_validate({key: made[key] for key in made if key != WRITTEN}), applied)
    return wish, [*_mistakes(etcd, wish, creating=creating), *version_mistakes(wish, applied)]


def settled(wish: ClusterDeployment, applied: AppliedState | None) -> ClusterDeployment:
    """Return a wish with the kubeadm that its members have: a newer release table changes none by itself."""
    if applied is None or applied.variables.get(ETCD_VERSION) != wish.spec.components.etcd:
        return wish
    return wish.model_copy(update={"spec": wish.spec.model_copy(update={"version": applied.version})})


def _mistakes(etcd: EtcdCluster, wish: ClusterDeployment, *, creating: bool) -> Iterator[SpecMistake]:
    for path, rule in etcd.broken(creating=creating):
        yield SpecMistake(path_of(*path, rule.field), rule.message, rule.remedy)
    policy = etcd.spec.backup
    yield from schedule_mistakes("spec.backup", {"schedule": policy.schedule, "drill": policy.drill}, policy.time_zone)
    yield from variable_mistakes(wish)
    yield from template_mistakes(etcd.spec)


def version_mistakes(wish: ClusterDeployment, applied: AppliedState | None) -> Iterator[SpecMistake]:
    """Yield an upgrade that etcd does not take: https://etcd.io/docs/v3.6/upgrades: one minor version at a time."""
    running = str(applied.variables.get(ETCD_VERSION, "")) if applied is not None else ""
    asked = wish.spec.components.etcd or ""
    if not running or numbers(asked) == numbers(running):
        return
    if numbers(asked) < numbers(running):
        message = f"etcd {asked} is older than {running}, which is deployed, and cannot be gone back to"
        yield SpecMistake("spec.version", message, f"use {running} or newer")
    elif numbers(asked)[:2] > (numbers(running)[0], numbers(running)[1] + 1):
        between = f"{numbers(running)[0]}.{numbers(running)[1] + 1}"
        near = sorted(
            {release["etcd"] for release in load_releases().kubernetes.values() if release["etcd"].startswith(between)}
        )
        message = f"from etcd {running} to {asked} a minor version is skipped"
        yield SpecMistake("spec.version", message, f"use {near[-1] if near else f'a release of {between}'} first")


def endpoints_of(applied: AppliedState | None) -> list[str]:
    """Return the URLs at which clients reach the members, in the inventory's order."""
    hosts = applied.variables.get(HOSTS) if applied is not None else None
    known = [host for host in hosts if isinstance(host, dict)] if isinstance(hosts, list) else []
    return [f"https://{_host(str(host['address']))}:{CLIENT_PORT}" for host in known]


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def elder(first: Json | None, second: Json | None) -> Json | None:
    """Return which of two objects of one name has it: a ClusterDeployment and an EtcdCluster have a Cluster each.

    Of two that were made in the same second, it is the one for which something is done already.
    """
    existing = [obj for obj in (first, second) if obj is not None]
    return min(existing, key=_age, default=None)


def _age(obj: Json) -> tuple[str, bool, bool]:
    meta = obj["metadata"]
    begun = RESET_FINALIZER in (meta.get("finalizers") or ())
    return str(meta.get("creationTimestamp", "")), not begun, obj.get("kind") != CLUSTER_DEPLOYMENT.kind


def name_taken(own: Json, other: Json | None) -> SpecMistake | None:
    """Return why an object has not the name, None where no other one has it."""
    if other is None or other.get("kind") == own.get("kind"):
        return None
    kind = other.get("kind", CLUSTER_DEPLOYMENT.kind)
    message = f"{kind} {own['metadata']['name']} has this name, and what is known of both is in a Cluster of it"
    return SpecMistake("metadata.name", message, "choose another name")
