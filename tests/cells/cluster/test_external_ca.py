"""Where the cluster's CA is external, the cluster itself signs nothing."""

from __future__ import annotations

import pytest

from harness.validate.findings import require
from harness.validate.inspection import Inspection
from harness.validate.topics import external_ca
from harness.validate.variables import EXTERNAL_CA, asks


@pytest.mark.when(phase=asks(EXTERNAL_CA))
def test_the_cluster_signs_no_request(inspection: Inspection) -> None:
    require(
        external_ca.signed_request(inspection.api),
        claim="a request for a client's certificate that is approved gets none: the cluster has no key to sign with",
        look="the flags cluster-signing-* of the controller manager",
        do="kubectl --kubeconfig kubeconfig get certificatesigningrequests -o yaml",
    )
