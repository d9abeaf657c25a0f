"""The operator's real programs: executors that run Ansible, logins to a machine. Jobs are played here, too."""

import pytest

from harness.paths import packaged_dir
from harness.spec import Spec, load_spec
from tests.embedded.operator.conftest import api, job_controller, kubelet, manager, namespace, played_jobs

__all__ = ["api", "job_controller", "kubelet", "manager", "namespace", "played_jobs"]


@pytest.fixture(scope="module")
def spec() -> Spec:
    """Return the packaged matrix."""
    return load_spec(packaged_dir() / "matrix")
