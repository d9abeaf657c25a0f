"""The operator's webhooks in the test's process, called by a real API server by URL."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.kube.admission import untold
from harness.kube.client import Cluster, Json
from harness.kube.failures import ApiFailure
from harness.kube.objects import ensure
from harness.kube.resources import MUTATING_WEBHOOK, VALIDATING_WEBHOOK
from harness.operator.api.resources import CLUSTER_DEPLOYMENT
from harness.operator.webhooks.certificates import Certificates
from harness.operator.webhooks.configurations import configuration_name, webhook_objects
from harness.operator.webhooks.server import Webhooks
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS
from tests.embedded.operator.world import IMAGE
from tests.unit.operator.api.objects import deployment

HERE = "127.0.0.1"  # the API server of an embedded infrastructure is a process of this host
KINDS = {kind.kind: kind for kind in (MUTATING_WEBHOOK, VALIDATING_WEBHOOK)}


@dataclass
class Served:
    """Webhooks that an API server calls for one namespace."""

    api: Cluster
    namespace: str
    webhooks: Webhooks

    def configure(self) -> None:
        """Have the API server call them; return once it does."""
        self.apply()
        self.webhooks.look()
        self.wait(self._asked, "the webhooks to be asked")

    def die(self) -> None:
        """Have nobody answer any more where the API server calls; return once it has noticed."""
        self.webhooks.stop()
        for body in self.configurations():
            for hook in body["webhooks"]:  # connections that there are would still be answered in this process
                hook["clientConfig"]["url"] = hook["clientConfig"]["url"].replace(f":{self.webhooks.port}/", ":1/")
            ensure(self.api, KINDS[body["kind"]], body)

        def noticed() -> bool | NotYet:
            try:
                self.api.create(CLUSTER_DEPLOYMENT, deployment(name="probe", namespace=self.namespace), dry_run=True)
            except ApiFailure as failure:
                return "failed calling webhook" in failure.message or NotYet(failure.message)
            return NotYet("it was taken")

        self.wait(noticed, "the API server to find nobody")

    def apply(self) -> None:
        """Write the configurations, if they are not there."""
        for body in self.configurations():
            ensure(self.api, KINDS[body["kind"]], body)

    def configurations(self) -> list[Json]:
        """Return the configurations with URLs in them."""
        made = webhook_objects(self.namespace, pod={}, writers=("vmatrix-operator",), everywhere=False, labels={})[1:]
        for hook in (hook for body in made for hook in body["webhooks"]):
            hook["clientConfig"] = {
                "url": f"https://{HERE}:{self.webhooks.port}{hook['clientConfig']['service']['path']}"
            }
        return copy.deepcopy(made)

    def wait(self, probe: Callable[[], object], what: str) -> None:
        """Wait for something."""
        until(probe, deadline=Deadline.after(WAIT_SECONDS), what=what, interval=INTERVAL)

    def _asked(self) -> bool | NotYet:
        bad = deployment(name="probe", namespace=self.namespace, version="1.2.3")
        try:
            self.api.create(CLUSTER_DEPLOYMENT, bad, dry_run=True)
        except ApiFailure as failure:
            return "not a release that is known" in failure.message or NotYet(failure.message)
        return NotYet("it was taken")


@contextmanager
def serving(api: Cluster, namespace: str, certificates: Certificates | None = None) -> Iterator[Served]:
    """Serve the webhooks of a namespace; nobody calls them before `configure`, and nothing is left of them."""
    webhooks = Webhooks(certificates or Certificates(api, namespace), IMAGE, (HERE, 0), untold)
    webhooks.look()
    try:
        yield Served(api, namespace, webhooks)
    finally:
        for kind in KINDS.values():
            api.delete(kind, configuration_name(namespace))
        webhooks.stop()
