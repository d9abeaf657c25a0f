"""What is wrong with a ClusterDeployment, as far as the object alone tells it: the rules that every reconcile applies.

`read` judges an object as it comes from the API or from a file, `mistakes` one that has the right form. Both use the
words of the API server's own answer, so that a mistake reads the same wherever it is found.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from urllib.parse import urlsplit

from pydantic import ValidationError

from harness.kube.failures import Json
from harness.kube.kinds.page import SpecMistake, mistakes_of_form, path_of
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.network import network_of
from harness.operator.api.variables import variable_mistakes

MAKERS = "registry.k8s.io"
ADDONS = {
    "metrics-server": ("cluster_metrics_server_image",),
    "local-path-provisioner": ("cluster_local_path_provisioner_image", "cluster_busybox_image"),
}


def unnamed_images(cd: ClusterDeployment) -> Iterator[SpecMistake]:
    """Yield the images that have to be named because the registry does not have them under the playbooks' names."""
    if cd.spec.source.registry != MAKERS:
        return
    wanted = ["cluster_coredns_image"]
    wanted += ["cluster_network_plugin_image"] if cd.spec.network.plugin == "flannel" else []
    wanted += [variable for addon in cd.spec.addons for variable in ADDONS.get(addon.name, ())]
    for variable in wanted:
        if not cd.spec.variables.get(variable):
            message = f"{MAKERS} has no image of the name that {variable} has by default"
            remedy = "set it to the image's name with its tag, or use a registry that has all images under one path"
            yield SpecMistake(f"spec.variables.{variable}", message, remedy)


def read(
    obj: Json, releases: Collection[str], outer: Collection[str] = (), *, creating: bool = True
) -> tuple[ClusterDeployment | None, list[SpecMistake]]:
    """Return the object with all defaults, None when it has another form, and what is wrong with it."""
    try:
        cd = ClusterDeployment.model_validate(obj)
    except ValidationError as error:
        return None, mistakes_of_form(error)
    return cd, mistakes(cd, releases, outer, creating=creating)


def mistakes(
    cd: ClusterDeployment, releases: Collection[str], outer: Collection[str] = (), *, creating: bool = True
) -> list[SpecMistake]:
    """Return what is wrong with an object.

    Args:
        cd: the object.  releases: the Kubernetes versions of the release table.
        outer: networks in CIDR notation that the cluster's own must not overlap.
        creating: nothing was deployed yet; some rules hold only then.
    """
    found = [
        SpecMistake(path_of(*path, rule.field), rule.message, rule.remedy)
        for path, rule in cd.broken(creating=creating)
    ]
    twice = [*_twice(cd), *_addons_twice(cd)]
    return [*found, *_version(cd, releases), *_outer(cd, outer), *twice, *variable_mistakes(cd), *unnamed_images(cd)]


def _version(cd: ClusterDeployment, releases: Collection[str]) -> Iterator[SpecMistake]:
    if cd.spec.version not in releases:
        known = ", ".join(sorted(releases, key=lambda v: [int(n) for n in re.findall(r"\d+", v)]))
        yield SpecMistake("spec.version", f"Kubernetes {cd.spec.version} is no release that is known", f"use {known}")


def _outer(cd: ClusterDeployment, outer: Collection[str]) -> Iterator[SpecMistake]:
    for field, text in (("pods", cd.spec.network.pods), ("services", cd.spec.network.services)):
        own = network_of(text)
        for other in (*outer, *_outside(cd)):
            around = network_of(other)
            if own is not None and around is not None and own.overlaps(around):
                message = f"the network {text} overlaps {other}, which is in use around the cluster"
                yield SpecMistake(f"spec.network.{field}", message, "choose a network that has no address in common")


def _outside(cd: ClusterDeployment) -> Iterator[str]:
    """Yield the hosts of the mirror and of the registry: machines have to reach them past the cluster's networks."""
    source = cd.spec.source
    for address in (source.mirror, f"//{source.registry}" if source.registry else None):
        with suppress(ValueError):  # brackets that hold no address
            host = urlsplit(address or "").hostname
            if host:
                yield host


def _twice(cd: ClusterDeployment) -> Iterator[SpecMistake]:
    owner: dict[str, str] = {}
    names: set[str] = set()
    for number, one in enumerate(cd.spec.machine_sets):
        if one.name in names:
            message = f'Duplicate value: {{"name":"{one.name}"}}'
            yield SpecMistake(f"spec.machineSets[{number}]", message, "give every set a name of its own")
        names.add(one.name)
        for name in one.machines.names or ():
            if owner.setdefault(name, one.name) != one.name:
                message = f"Machine {name} is in the sets {owner[name]} and {one.name}"
                yield SpecMistake(f"spec.machineSets[{number}].machines.names", message, "name it in one set only")


def _addons_twice(cd: ClusterDeployment) -> Iterator[SpecMistake]:
    names = [addon.name for addon in cd.spec.addons]
    for number, name in enumerate(names):
        if name in names[:number]:
            message = f'Duplicate value: {{"name":"{name}"}}'
            yield SpecMistake(f"spec.addons[{number}]", message, "give every add-on a name of its own")
