"""The operator's real programs: executors that run Ansible, logins to a machine. Jobs are played here, too."""

from tests.embedded.operator.conftest import api, job_controller, kubelet, manager, namespace, played_jobs

__all__ = ["api", "job_controller", "kubelet", "manager", "namespace", "played_jobs"]
