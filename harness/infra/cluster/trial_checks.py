"""What the doctor's dry run comes to: findings about bridged machines and about isolation."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from harness.infra.cluster.enforcement import KINDNET, check_enforcement, known
from harness.infra.cluster.network import check_plugin
from harness.infra.cluster.trial import NetworkTrial, NotTried, carry_out
from harness.infra.cluster.trial_images import repository
from harness.infra.cluster.trial_report import Report
from harness.infra.findings import Finding
from harness.kube import ApiFailure, Cluster
from harness.kube.resources import NODE


def check_network(
    cluster: Cluster, served: Collection[str], trial: NetworkTrial | None, *, bridged: bool, isolated: bool
) -> Iterator[Finding]:
    """Yield what is wrong with the pod network, tried out where that is possible.

    Args:
        served: all group/versions of the API.
        trial: how to try it; None: not at all, and then nothing is said about isolation.
        bridged, isolated: whether machines are bridged to the pod network, and each cell gets a NetworkPolicy.
    """
    seen = _seen(cluster, trial)
    report = seen if isinstance(seen, Report) else Report(None, None, seen.why)
    yield from check_plugin(cluster, served, report.bridged if bridged else None)
    if not report.why and report.bridged is None and report.enforced is None:
        return  # nothing was to be tried
    images = _images(cluster)
    if bridged and report.bridged is None:
        kindnet = any(repository(image).rpartition("/")[2] == KINDNET for image in images)
        yield Finding(
            f"not checked whether bridged machines reach pods of their node ({report.why})",
            "with kindnet, which this cluster has, and ptp they do only if nodes answer ARP for their pods"
            if kindnet
            else "on some network plugins they do not, and `portforward` times out",
            seen.remedy if isinstance(seen, NotTried) else "try a single machine first: vmatrix run --tier single",
            fatal=False,
        )
    if isolated:
        groups = {version.partition("/")[0] for version in served}
        yield from check_enforcement(known(groups, images), report.enforced, report.why)


def _seen(cluster: Cluster, trial: NetworkTrial | None) -> Report | NotTried:
    if trial is None:
        return NotTried()
    try:
        return carry_out(cluster, trial)
    except ApiFailure as failure:
        return NotTried(failure.message or failure.summary, "ask the cluster's owner to run it")


def _images(cluster: Cluster) -> set[str]:
    """Return the names of the images that nodes have, as far as one may look."""
    try:
        nodes = cluster.list(NODE).items
    except ApiFailure as failure:
        if failure.forbidden:
            return set()
        raise
    return {name for node in nodes for image in node["status"].get("images") or [] for name in image.get("names") or []}
