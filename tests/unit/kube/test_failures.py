"""What is to be done about a refusal: of the one who asks, or of a rule that somebody else has made."""

from __future__ import annotations

import pytest

from harness.errors import EXIT_INFRA, EXIT_RETRY
from harness.kube.failures import Answer, failure_of

POST = "POST /api/v1/namespaces/ns/pods"
VM = "POST /apis/kubevirt.io/v1/namespaces/ns/virtualmachines"
RIGHT = "needed: `kubectl auth can-i create pods -n ns` must say yes"
# Answers as Kubernetes, Kyverno and Gatekeeper write them: status, request, message, and what has to be advised.
CASES = {
    "right": (403, POST, 'pods is forbidden: User "ci" cannot create resource "pods" in API group ""', RIGHT),
    "right on one": (
        403,
        "DELETE /api/v1/namespaces/ns",
        'namespaces "ns" is forbidden: User "ci" cannot delete resource "namespaces" in API group ""',
        "needed: `kubectl auth can-i delete namespaces` must say yes",
    ),
    "impersonation": (
        403,
        POST,
        'users "boss" is forbidden: User "ci" cannot impersonate resource "users" in API group "" at the cluster scope',
        "must say yes",
    ),
    "right with a reason": (
        403,
        POST,
        'pods is forbidden: User "ci" cannot create resource "pods" in API group "" in the namespace "ns": RBAC: '
        'clusterrole.rbac.authorization.k8s.io "gone" not found',
        RIGHT,
    ),
    "quota": (
        403,
        POST,
        'pods "a" is forbidden: exceeded quota: small, requested: pods=1, used: pods=4, limited: pods=4',
        "the quota small is used up: `kubectl describe quota -n ns` shows it",
    ),
    "quota of a kind": (
        403,
        VM,
        'virtualmachines.kubevirt.io "cp-0" is forbidden: exceeded quota: few, requested: '
        "count/virtualmachines.kubevirt.io=1, used: count/virtualmachines.kubevirt.io=2, limited: "
        "count/virtualmachines.kubevirt.io=2",
        "the quota few is used up",
    ),
    "quota of storage": (
        403,
        "POST /api/v1/namespaces/ns/persistentvolumeclaims",
        'persistentvolumeclaims "d" is forbidden: exceeded quota: disks, requested: requests.storage=9Gi, used: '
        "requests.storage=5Gi, limited: requests.storage=10Gi",
        "the quota disks is used up",
    ),
    "quota that wants limits": (
        403,
        POST,
        'pods "a" is forbidden: failed quota: q: must specify limits.cpu for: c; limits.memory for: c',
        "the quota q wants values of every pod",
    ),
    "quota not counted": (403, POST, 'pods "a" is forbidden: status unknown for quota: q', "was not counted yet"),
    "limit range": (
        403,
        POST,
        'pods "a" is forbidden: [maximum cpu usage per Container is 1, but limit is 2, maximum memory usage per '
        "Container is 1Gi, but limit is 2Gi]",
        "`kubectl describe limitrange -n ns` shows it",
    ),
    "limit range of claims": (
        403,
        "POST /api/v1/namespaces/ns/persistentvolumeclaims",
        'persistentvolumeclaims "d" is forbidden: minimum storage usage per PersistentVolumeClaim is 5Gi, but request '
        "is 1Gi",
        "a LimitRange refuses this size",
    ),
    "limit range of ratios": (
        403,
        POST,
        'pods "a" is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 10.000000',
        "a LimitRange refuses this size",
    ),
    "pod security": (
        403,
        POST,
        'pods "a" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container '
        '"c" must set securityContext.allowPrivilegeEscalation=false), runAsNonRoot != true',
        "the namespace enforces Pod Security restricted:latest",
    ),
    "policy": (
        422,
        VM,
        "virtualmachines.kubevirt.io \"cp-0\" is forbidden: ValidatingAdmissionPolicy 'owners' with binding 'all' "
        "denied request: set the label owner",
        "`kubectl get validatingadmissionpolicies owners -o yaml` has the rule",
    ),
    "kyverno": (
        400,
        VM,
        'admission webhook "validate.kyverno.svc-fail" denied the request: \n\nresource VirtualMachine/ns/cp-0 was '
        "blocked due to the following policies \n\nrequire-labels:\n  check-team: 'validation error: label team'",
        "(webhook validate.kyverno.svc-fail) refuses this object, and no right helps",
    ),
    "gatekeeper": (
        403,
        "POST /api/v1/namespaces",
        'admission webhook "validation.gatekeeper.sh" denied the request: [ns-must-have-gk] you must provide labels: '
        '{"gatekeeper"}',
        "(webhook validation.gatekeeper.sh) refuses this object",
    ),
    "a webhook that denies by 500": (
        500,
        VM,
        'admission webhook "deny.example.org" denied the request: frozen until Monday',
        "(webhook deny.example.org) refuses this object",
    ),
    "kubevirt": (
        422,
        VM,
        'admission webhook "virtualmachine-validator.kubevirt.io" denied the request: spec.template.spec.domain.cpu: '
        "Invalid value",
        "KubeVirt or CDI (virtualmachine-validator.kubevirt.io) does not take this object",
    ),
    "terminating": (
        403,
        POST,
        'pods "a" is forbidden: unable to create new content in namespace ns because it is being terminated',
        "the namespace is being deleted",
    ),
    "another plugin of admission": (
        403,
        POST,
        'pods "a" is forbidden: error looking up service account ns/default: serviceaccount "default" not found',
        "admission of the cluster refuses this object, and no right helps",
    ),
    "full": (500, POST, "etcdserver: mvcc: database space exceeded", "the cluster's etcd is full"),
    "reading": (
        403,
        "GET /api/v1/namespaces/ns/pods",
        'pods is forbidden: User "ci" cannot list resource',
        "list pods",
    ),
    "nothing said": (403, POST, "", RIGHT),
}
PASSING = {"full"}  # trouble that may be over when the request is made again


@pytest.mark.parametrize("name", CASES)
def test_who_refuses_is_told_from_who_may_not(name: str) -> None:
    code, request, message, advice = CASES[name]
    body = {"kind": "Status", "reason": "Forbidden" if code == 403 else "", "message": message}
    failure = failure_of(Answer(code, body, ()), request)
    assert advice in failure.hint
    assert ("auth can-i" in failure.hint) == (
        name in ("right", "right on one", "impersonation", "reading") or advice == RIGHT
    )
    assert failure.exit_code == (EXIT_RETRY if name in PASSING else EXIT_INFRA)
    assert message in str(failure)
