"""The webhooks of one manager: they are served by every manager, also by one that waits for its Lease.

They ask the API about what they judge, not a local copy, so that they work from the first moment and are never behind.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from functools import partial

from harness.errors import VmatrixError
from harness.files import write_atomically
from harness.kube.admission import Answered, Judge, listen
from harness.kube.client import Cluster, own_name
from harness.kube.serving import HttpsServer, ServingPair, expires
from harness.machines.keys import PrivateFiles
from harness.operator.webhooks.certificates import Certificates
from harness.operator.webhooks.configurations import (
    AUTHORS,
    CLAIMS,
    CLUSTERS,
    DEFAULTS,
    DELETIONS,
    DELIVERIES,
    DEPLOYMENTS,
    ETCDS,
    SETS,
)
from harness.operator.webhooks.deliveries import DeliveryJudge
from harness.operator.webhooks.deployments import DeploymentJudge
from harness.operator.webhooks.guards import (
    default_delivery,
    default_deployment,
    guard_claim,
    guard_cluster,
    guard_etcd,
    guard_machine,
    guard_set,
)
from harness.until import grown

log = logging.getLogger(__name__)
LOOK_SECONDS = 120.0  # pacing: three requests; a renewal, or a configuration that was applied anew, waits for it
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.5, 15.0  # pacing, doubled with each failure


def judges(cluster: Cluster, image: str, user: str) -> Mapping[str, Judge]:
    """Return who answers at which path; `user`: whom this manager acts as."""
    return {
        DEFAULTS: default_deployment,
        DEPLOYMENTS: DeploymentJudge(cluster, image),
        AUTHORS: default_delivery,
        DELIVERIES: DeliveryJudge(cluster),
        SETS: partial(guard_set, trusted=(user,)),
        DELETIONS: partial(guard_machine, cluster=cluster),
        CLAIMS: partial(guard_claim, cluster=cluster),
        CLUSTERS: partial(guard_cluster, cluster=cluster),
        ETCDS: partial(guard_etcd, cluster=cluster),
    }


class Webhooks:
    """A server and the thread that keeps its certificate.

    Attributes: port (once it serves), serving (set once it does).
    """

    def __init__(self, certificates: Certificates, image: str, address: tuple[str, int], answered: Answered) -> None:
        self.port = address[1]
        self.serving = threading.Event()
        self._certificates = certificates
        self._image = image
        self._address = address
        self._answered = answered
        self._used: ServingPair | None = None
        self._server: HttpsServer | None = None
        self._files = PrivateFiles()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="webhooks", daemon=True)

    def start(self) -> None:
        """Begin to get a certificate, then to serve."""
        self._thread.start()

    def stop(self) -> None:
        """End; what is being answered is answered."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        self._files.close()

    @property
    def expires(self) -> float | None:
        """Return until when the certificate is valid, as seconds since 1970; None before there is one."""
        return expires(self._used).timestamp() if self._used is not None else None

    def look(self) -> None:
        """Use the certificate that there is now; nobody's connection ends. Raises VmatrixError."""
        pair = self._certificates.look()
        if pair == self._used:
            return
        with self._files.use() as folder:
            certificate, key = folder / "tls.crt", folder / "tls.key"
            write_atomically(certificate, pair.certificate, mode=0o600)
            write_atomically(key, pair.key, mode=0o600)
            if self._server is None:
                by_path = judges(self._certificates.cluster, self._image, own_name(self._certificates.cluster))
                self._server = listen(self._address, certificate, key, by_path, self._answered)
                self.port = self._server.server_port
                threading.Thread(target=self._server.serve_forever, name="webhooks-server", daemon=True).start()
                log.info("webhooks on port %d", self.port)
            else:
                self._server.use(certificate, key)
                log.info("webhooks have a new certificate")
        self._used = pair
        self.serving.set()

    def _keep(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                self.look()
                failures = 0
            except VmatrixError as error:
                failures += 1
                log.warning("webhooks: %s", error)
            pause = grown(FIRST_RETRY_SECONDS, failures, LAST_RETRY_SECONDS) if failures else LOOK_SECONDS
            self._stopping.wait(pause)
