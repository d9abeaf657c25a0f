"""How an admission sees its infra cluster; tests replace it as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harness.kube import Cluster
from harness.schedule.capacity import Survey, survey
from harness.schedule.demand import Rules, rules_of
from harness.schedule.ledger import RESERVATIONS_NAMESPACE, Ledger


@dataclass(frozen=True)
class Outlook:
    """How an infra cluster is seen: KubeVirt's settings, what is free there, and, for a holder, who reserved what.

    asked: the memory (MiB) that machines request, by the cells' ids, where that is not what they declare.
    """

    rules: Rules
    look: Callable[[], Survey]
    ledger: Callable[[str], Ledger]
    asked: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @staticmethod
    def of(cluster: Cluster, ttl: float, namespace: str | None, spare_mib: int | None = None) -> Outlook:
        """Return what asks the cluster itself; reservations lie in the shared namespace or in one of their own.

        Args:
            spare_mib: of each node, where nodes are asked what they have left; see `survey`.
        """
        book = namespace if namespace is not None else RESERVATIONS_NAMESPACE
        return Outlook(
            rules_of(cluster),
            lambda: survey(cluster, namespace, spare_mib),
            lambda holder: Ledger(cluster, holder, ttl=ttl, namespace=book),
        )
