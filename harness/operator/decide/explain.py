"""What the operator would do for a file, and why: from the file alone, or compared with a cluster that is there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import BadInput
from harness.kube.failures import ApiFailure, Json
from harness.kube.kinds.models import Metadata, ObjectModel
from harness.kube.kinds.page import SpecMistake
from harness.kube.objects import dig
from harness.kube.resources import CONFIG_MAP
from harness.operator.api.cluster import CurrentOperation, DeclaredCluster, DeclaredClusterStatus, PlannedStep
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.delivery import Delivery
from harness.operator.api.etcd import EtcdBackup, EtcdRestore
from harness.operator.api.machine import DeclaredMachine, DeclaredMachineSpec, KeyRef, MachineClaim
from harness.operator.api.networks import ClusterNetworkPool
from harness.operator.api.resources import (
    CLUSTER,
    CLUSTER_DEPLOYMENT,
    CLUSTER_NETWORK_POOL,
    CLUSTER_USER,
    DECLARED,
    DELIVERY,
    DELIVERY_GROUP,
    ETCD_BACKUP,
    ETCD_CLUSTER,
    ETCD_PEER,
    ETCD_RESTORE,
    GROUP,
    MACHINE,
    MACHINE_SET,
)
from harness.operator.api.rules import mistakes, read
from harness.operator.api.sets import WantedSet
from harness.operator.api.users import ClusterUser
from harness.operator.decide.accepted import against
from harness.operator.decide.desired import Desired, desired
from harness.operator.decide.due import Wait
from harness.operator.decide.endpoint import address_mistakes, filled_endpoint
from harness.operator.decide.etcdclients import (
    EtcdAround,
    client_state,
    clients_of,
    prefix_mistakes,
    variables_around,
)
from harness.operator.decide.etcdclusters import ETCD_VERSION, elder, is_etcd, read_etcd, settled
from harness.operator.decide.networks import filled
from harness.operator.decide.observed import Observed, observed, trouble_of
from harness.operator.decide.operations import Verdict, next_operation, plan
from harness.operator.decide.product_file import FIELD, KnownProduct, in_config_map
from harness.operator.decide.variables import load_releases
from harness.operator.kubectl import open_usual
from harness.spec.lines import Document, Location, Problem, dotted, read_all
from harness.spec.loader import refuse
from harness.spec.shape import unknown, validate

WISHES = tuple(kind.kind for kind in DECLARED)
# Kinds that people write as well: judged, but nothing is decided from them here.
OTHERS: Mapping[str, type[ObjectModel]] = {
    ETCD_BACKUP.kind: EtcdBackup,
    ETCD_RESTORE.kind: EtcdRestore,
    CLUSTER_USER.kind: ClusterUser,
    CLUSTER_NETWORK_POOL.kind: ClusterNetworkPool,
    DELIVERY.kind: Delivery,
}
KINDS = (*WISHES, MACHINE.kind, *OTHERS)
OPERATORS_OWN = (CLUSTER.kind, MACHINE_SET.kind, ETCD_PEER.kind)  # that `kubectl get -o yaml` prints beside them


def documents_of(file: Path, namespace: str = "default") -> list[Document]:
    """Return the operator's objects that people write in a file; others, such as Secrets, do not count.

    Args:
        namespace: of objects that name none.

    Raises:
        BadInput: what is wrong, with the line; or there is no ClusterDeployment and no EtcdCluster, after what is wrong
            with the objects that there are.
    """
    listed, problems = read_all(file)
    documents = [item for document in listed for item in _items(document)]
    ours = [document for document in documents if _group(document) in (GROUP, DELIVERY_GROUP, None)]
    ours = [document for document in ours if _kind(document) not in OPERATORS_OWN]
    problems += [problem for document in ours for problem in _form(document)]
    if problems:
        raise refuse(problems)
    placed = [_within(document, namespace) for document in ours]
    if not any(_kind(document) in WISHES for document in ours):
        judged(placed)
        kinds = " or ".join(WISHES)
        raise BadInput(
            f"{file} has no {kinds}",
            hint=f"it needs an object with apiVersion: {CLUSTER_DEPLOYMENT.api_version} and kind: {kinds}",
        )
    return placed


def names_of(documents: Sequence[Document]) -> dict[str, str]:
    """Return the names of what people declare among documents, and the namespace of each."""
    metadata = [document.content["metadata"] for document in documents if _kind(document) in WISHES]
    return {str(meta.get("name")): str(meta["namespace"]) for meta in metadata}


def judged(
    documents: Sequence[Document], *, creating: bool = True
) -> tuple[list[ClusterDeployment], list[DeclaredMachine]]:
    """Return the ClusterDeployments, EtcdClusters as those that they would be, and Machines of documents.

    Raises BadInput with every mistake: its line, its field and what to write.

    creating: nothing is deployed yet; some rules hold only then.
    """
    deployments, machines, problems = list[ClusterDeployment](), list[DeclaredMachine](), list[Problem]()
    for document in documents:
        if _kind(document) == MACHINE.kind:
            machine, wrong = validate(document, DeclaredMachine)
            machines += [machine] if machine is not None else []
            problems += wrong or _broken(document, machine)
            continue
        if (model := OTHERS.get(_kind(document))) is not None:
            other, wrong = validate(document, model)
            problems += wrong or _broken(document, other)
            continue
        if is_etcd(document.content):
            cd, mistakes = read_etcd(document.content, None, creating=creating)
        else:
            cd, mistakes = read(document.content, load_releases().kubernetes, creating=creating)
        deployments += [cd] if cd is not None else []
        problems += [
            Problem(*document.place_of(_location(document, m.field)), m.field, f"{m.message}: {m.remedy}")
            for m in mistakes
        ]
    if problems:
        raise refuse(problems)
    return deployments, machines


def _broken(document: Document, model: ObjectModel | None) -> Iterator[Problem]:
    """Yield the rules of its definition that an object breaks."""
    for place, rule in model.broken(creating=True) if model is not None else ():
        fields = [field for field in rule.field.split(".") if field]
        yield document.problem((*place, *fields), f"{rule.message}: {rule.remedy}")


def _items(document: Document) -> Iterator[Document]:
    """Yield the objects of a list, as kubectl prints several, or the document itself."""
    content = document.content
    kind, items = (content.get("kind"), content.get("items")) if isinstance(content, dict) else (None, None)
    if not (isinstance(kind, str) and kind.endswith("List") and isinstance(items, list)):
        yield document
        return
    for number in range(len(items)):
        yield from _items(document.below(("items", number)))


def _form(document: Document) -> Iterator[Problem]:
    """Yield what keeps a document from being an object of the group."""
    if not isinstance(document.content, dict):
        yield document.problem((), "expected an object with apiVersion and kind")
    elif _group(document) is None:
        yield document.problem((), f"no apiVersion; expected {CLUSTER_DEPLOYMENT.api_version}")
    elif _kind(document) not in KINDS:
        yield document.problem(("kind",), unknown("kind", _kind(document), KINDS))
    elif document.content["apiVersion"] != (api_version := _api_version(document)):
        yield document.problem(("apiVersion",), f"unknown version; expected {api_version}")


def _within(document: Document, namespace: str) -> Document:
    """Return a document with a namespace in its metadata, its own if it has one."""
    metadata = document.content.get("metadata")
    if not isinstance(metadata, dict):
        raise refuse([document.problem(("metadata",), "expected a mapping with the key name")])
    return replace(document, content={**document.content, "metadata": {"namespace": namespace, **metadata}})


def _group(document: Document) -> str | None:
    """Return the group of an object, None where there is no apiVersion."""
    content = document.content if isinstance(document.content, dict) else {}
    version = content.get("apiVersion")
    return version.rpartition("/")[0] if isinstance(version, str) and version else None


def _api_version(document: Document) -> str:
    """Return what the apiVersion of an object of its kind is."""
    return (DELIVERY if _kind(document) == DELIVERY.kind else CLUSTER_DEPLOYMENT).api_version


def _kind(document: Document) -> str:
    return str(document.content.get("kind", "")) if isinstance(document.content, dict) else ""


def _location(document: Document, field: str) -> Location:
    """Return the place of a field, as far as the document has it."""
    above = (at for at in document.lines if f"{field}.".startswith((f"{dotted(at)}.", f"{dotted(at)}[")))
    return max(above, key=len, default=())


def product_of(
    cd: ClusterDeployment, file: Path, kubeconfig: Path | None, *, compared: bool
) -> tuple[KnownProduct | None, Sequence[SpecMistake]]:
    """Return the product, None where the wish names none or one that cannot be used, and what is wrong with it.

    Args:
        kubeconfig: of the cluster, where it is `compared` with one; None: as kubectl finds it.
    """
    source = cd.spec.playbooks.product
    if source is None:
        return None, ()
    name = source.config_map
    for document in read_all(file)[0]:
        content = document.content if isinstance(document.content, dict) else {}
        if content.get("kind") == CONFIG_MAP.kind and dig(content, "metadata", "name") == name:
            return in_config_map(content, name)
    if compared:
        return in_config_map(open_usual(kubeconfig).get(CONFIG_MAP, name, cd.metadata.namespace), name)
    message = f"ConfigMap {name} is not in {file}"
    return None, [SpecMistake(f"{FIELD}.configMap", message, "add it there, or compare with a cluster: --against")]


def claimed(cd: ClusterDeployment, machines: Sequence[DeclaredMachine]) -> tuple[DeclaredMachine, ...]:
    """Return machines with those claimed that a cluster's sets would claim, the oldest first, or have made for them."""
    candidates = sorted(
        machines, key=lambda machine: (machine.metadata.creation_timestamp or "", machine.metadata.name)
    )
    for machine_set in cd.spec.machine_sets:
        lacking = machine_set.replicas - sum(machine.spec.claim == _claim(cd, machine_set) for machine in candidates)
        if machine_set.machines.kubevirt is not None:
            candidates += _invented(cd, machine_set, range(len(candidates), len(candidates) + max(lacking, 0)))
        free = [number for number, machine in enumerate(candidates) if _free(cd, machine_set, machine)]
        for number in free[: max(lacking, 0)]:
            spec = candidates[number].spec.model_copy(update={"claim": _claim(cd, machine_set)})
            candidates[number] = candidates[number].model_copy(update={"spec": spec})
    return tuple(candidates)


def invented(cd: ClusterDeployment) -> tuple[DeclaredMachine, ...]:
    """Return machines just as the sets ask for them."""
    sets = cd.spec.machine_sets
    return tuple(machine for machine_set in sets for machine in _invented(cd, machine_set, range(machine_set.replicas)))


def _invented(cd: ClusterDeployment, machine_set: WantedSet, numbers: range) -> list[DeclaredMachine]:
    """Return machines of a set; with names where it names them."""
    names = machine_set.machines.names or [f"{machine_set.name}-{number}" for number in numbers]
    return [
        DeclaredMachine(
            metadata=Metadata(name=name, namespace=cd.metadata.namespace),
            spec=DeclaredMachineSpec(
                address="?", user="root", key_ref=KeyRef(name="none"), claim=_claim(cd, machine_set)
            ),
        )
        for name in names
    ]


def _claim(cd: ClusterDeployment, machine_set: WantedSet) -> MachineClaim:
    return MachineClaim.model_validate({"cluster": cd.metadata.name, "set": machine_set.name, "uid": cd.metadata.uid})


def _free(cd: ClusterDeployment, machine_set: WantedSet, machine: DeclaredMachine) -> bool:
    """Tell whether a set may claim a Machine: it is idle, or in a file, where nobody has looked at it."""
    meta, phase = machine.metadata, machine.status.phase
    here = meta.namespace == cd.metadata.namespace and machine.spec.claim is None
    idle = phase == "Idle" or (phase is None and not meta.uid)
    if machine_set.machines.pool is None:
        fits = meta.name in (machine_set.machines.names or ())
    else:
        fits = machine_set.machines.pool.selector.match_labels.items() <= meta.labels.items()
    return here and idle and fits and not trouble_of(machine)


@dataclass(frozen=True)
class LiveCluster:
    """What there is.

    metadata: of what was declared, None where nothing was.  state: its Cluster.  machines: of its namespace.
    backups, restores: of its namespace, too.  declared: ClusterDeployments and EtcdClusters there.  clusters: Clusters.
    """

    metadata: Metadata | None = None
    state: DeclaredCluster | None = None
    machines: tuple[DeclaredMachine, ...] = ()
    backups: tuple[EtcdBackup, ...] = ()
    restores: tuple[EtcdRestore, ...] = ()
    declared: tuple[Json, ...] = ()
    clusters: tuple[Json, ...] = ()

    @property
    def new(self) -> bool:
        """Tell whether nothing was begun for it yet."""
        return self.state is None or not self.state.status.sequence


def look(name: str, namespace: str, kubeconfig: Path | None) -> LiveCluster:
    """Read a cluster.

    Args:
        kubeconfig: of the cluster that the operator works in; None: as kubectl finds it.

    Raises:
        BadInput: there is no kubeconfig, or the operator's kinds are not there.  InfraError: the API does not answer.
    """
    api = open_usual(kubeconfig)
    try:
        machines = api.list(MACHINE, namespace).items
        backups, restores = (api.list(kind, namespace).items for kind in (ETCD_BACKUP, ETCD_RESTORE))
        wish = elder(*(api.get(kind, name, namespace) for kind in DECLARED))
        state = api.get(CLUSTER, name, namespace)
    except ApiFailure as failure:
        if not failure.not_found:
            raise
        message = f"the cluster has no kind {MACHINE.kind} of {MACHINE.api_version}"
        raise BadInput(message, hint="add it: `vmatrix operator crds | kubectl apply --server-side -f -`") from failure
    return LiveCluster(
        Metadata.model_validate(wish["metadata"]) if wish is not None else None,
        DeclaredCluster.model_validate(state) if state is not None else None,
        tuple(DeclaredMachine.model_validate(machine) for machine in machines),
        tuple(EtcdBackup.model_validate(backup) for backup in backups),
        tuple(EtcdRestore.model_validate(restore) for restore in restores),
    )


def with_neighbours(live: LiveCluster, cd: ClusterDeployment, kubeconfig: Path | None) -> LiveCluster:
    """Return what there is with the other objects of the namespace, where what a wish has of etcd depends on them."""
    if cd.kind != ETCD_CLUSTER.kind and cd.spec.etcd.cluster_ref is None:
        return live
    api, namespace = open_usual(kubeconfig), cd.metadata.namespace
    declared = (obj for kind in DECLARED for obj in api.list(kind, namespace).items)
    return replace(live, declared=tuple(declared), clusters=tuple(api.list(CLUSTER, namespace).items))


def _named(name: str, objects: Iterable[Json]) -> Json | None:
    return next((obj for obj in objects if obj["metadata"]["name"] == name), None)


def with_etcd(cd: ClusterDeployment, live: LiveCluster, world: Observed) -> Observed:
    """Return the world with what a wish has of its EtcdCluster, or with the clusters that have something of it."""
    ref = cd.spec.etcd.cluster_ref
    if cd.kind == ETCD_CLUSTER.kind:
        etcd = _named(cd.metadata.name, filter(is_etcd, live.declared))
        return replace(world, clients=clients_of(etcd, live.clusters))
    if ref is None:
        return world
    kinds = [[obj for obj in live.declared if is_etcd(obj) is of] for of in (False, True)]
    named = elder(_named(ref.name, kinds[0]), _named(ref.name, kinds[1]))
    around = EtcdAround.of(cd, named if is_etcd(named) else None, live.clusters, kinds[0])
    state = client_state(cd, world.etcd_client, around, fixed=world.touched)
    known = world.etcd_client
    if state.usable and known is not None and not known.usable:
        return world  # the operator has a reason besides, such as a certificate
    return replace(world, etcd_client=state)


Products = Callable[[ClusterDeployment], tuple[KnownProduct | None, Sequence[SpecMistake]]]


@dataclass(frozen=True)
class Against:
    """What a file is compared with: the cluster of a name. kubeconfig: None: as kubectl finds it."""

    name: str
    kubeconfig: Path | None = None


@dataclass(frozen=True)
class ClusterOutlook:
    """What the operator would do for one wish. assumed: its machines are none that exist."""

    desired: Desired
    steps: tuple[PlannedStep, ...]
    verdict: Verdict
    assumed: bool

    def json(self) -> dict[str, Any]:
        """Return it as plain data."""
        cluster = self.desired
        return {
            "cluster": cluster.wish.metadata.name,
            "namespace": cluster.wish.metadata.namespace,
            "version": cluster.variables[ETCD_VERSION] if cluster.etcd_alone else cluster.spec.version,
            "machines": [
                {"machine": host.machine, "host": host.name, "address": host.address, "set": host.set_name}
                for host in cluster.hosts
            ],
            "groups": {host.machine: list(host.groups) for host in cluster.hosts},
            "assumed": self.assumed,
            "variables": dict(cluster.variables),
            "plan": [step.model_dump() for step in self.steps],
            "now": _now(self.verdict),
        }


def _now(verdict: Verdict) -> dict[str, Any]:
    if isinstance(verdict, CurrentOperation):
        return {"operation": verdict.operation, "attempt": verdict.attempt}
    if isinstance(verdict, Wait):
        return {"waits": str(verdict.reason), "message": verdict.message, "again_seconds": verdict.again_seconds}
    return {}


def explain(file: Path, namespace: str, against: Against | None, now: datetime) -> list[ClusterOutlook]:
    """Return what the operator would do for each wish of a file, or for the one that is compared.

    Args:
        namespace: of objects that name none.

    Raises:
        BadInput: what is wrong with the file, with the line of each mistake.
    """
    documents = documents_of(file, namespace)
    names = names_of(documents)
    live = LiveCluster()
    if against is not None:
        if against.name not in names:
            kinds = {_kind(document) for document in documents}
            message = unknown(" or ".join(kind for kind in WISHES if kind in kinds), against.name, names)
            raise BadInput(message, hint=f"--against names the one of {file} to compare")
        live = look(against.name, names[against.name], against.kubeconfig)
        known = live.state.status if live.state is not None else DeclaredClusterStatus()
        documents = [
            replace(document, content=filled_endpoint(filled(document.content, known.networks), known.endpoint))
            if _kind(document) == CLUSTER_DEPLOYMENT.kind
            else document
            for document in documents
        ]
    deployments, machines = judged(documents, creating=live.new)
    there = {machine.metadata.name for machine in live.machines}
    live = replace(
        live, machines=(*live.machines, *(machine for machine in machines if machine.metadata.name not in there))
    )
    if against is None:  # an EtcdCluster beside it in the file is one that is not deployed yet
        live = replace(live, declared=tuple(document.content for document in documents if _kind(document) in WISHES))
    chosen = [cd for cd in deployments if against is None or cd.metadata.name == against.name]
    kubeconfig = against.kubeconfig if against is not None else None
    for cd in chosen if against is not None else ():
        live = with_neighbours(live, cd, kubeconfig)
    products = partial(product_of, file=file, kubeconfig=kubeconfig, compared=against is not None)
    return [_outlook(cd, live, products, now) for cd in chosen]


def _outlook(cd: ClusterDeployment, live: LiveCluster, products: Products, now: datetime) -> ClusterOutlook:
    """Return what would be done for a wish among machines, or among just those that it asks for if there are none."""
    if live.metadata is not None:  # the object that is there, as it would be once the file is applied
        annotations = {**live.metadata.annotations, **cd.metadata.annotations}
        cd = cd.model_copy(update={"metadata": live.metadata.model_copy(update={"annotations": annotations})})
    machines = claimed(cd, live.machines) if live.machines else invented(cd)
    world = with_etcd(cd, live, observed(live.state, machines, now, live.backups, live.restores))
    known = load_releases()
    around = [machine.address for machine in machines if machine.spec.claim is not None and machine.address]
    if cd.kind == ETCD_CLUSTER.kind:  # the file alone has no mistakes, as `judged` has seen
        cd, wrong = settled(cd, world.applied), list[SpecMistake]()
    else:
        wrong = [*mistakes(cd, known.kubernetes, around, creating=live.new), *address_mistakes(cd, machines)]
        wrong += prefix_mistakes(cd, world)
    wrong += against(cd, machines, world)
    product, unusable = products(cd)
    texts = [mistake.text for mistake in (*wrong, *unusable)]
    desired_cluster = desired(cd, machines, known, world.applied, texts, product, variables_around(cd, world))
    return ClusterOutlook(
        desired_cluster, plan(desired_cluster, world), next_operation(desired_cluster, world), assumed=not live.machines
    )
