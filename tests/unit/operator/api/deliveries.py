"""Deliveries for tests, and a table of every mistake that their definition refuses."""

from __future__ import annotations

from typing import Any

from harness.operator.api.delivery import Delivery
from harness.operator.api.resources import DELIVERY

Json = dict[str, Any]
IMAGE = "registry.example:5000/team/shop"
GIT = "https://git.example/team/shop.git"


def delivery(name: str = "shop", *, namespace: str = "team", **spec: Any) -> Json:
    """Return a Delivery; `spec`: parts that are merged over its own."""
    own: Json = {"source": {"git": GIT}, "build": {"image": IMAGE}, "deploy": {"ports": [{"name": "http", "port": 80}]}}
    parts = {part: {**own.get(part, {}), **told} if isinstance(told, dict) else told for part, told in spec.items()}
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": 1}
    return {
        "apiVersion": DELIVERY.api_version,
        "kind": DELIVERY.kind,
        "metadata": meta,
        "spec": {**own, **parts},
    }


def declared(body: Json | None = None, **status: Any) -> Delivery:
    """Return the model of a Delivery with a status."""
    return Delivery.model_validate({**(body or delivery()), "status": status})


def _source(**source: Any) -> Json:
    return delivery(source=source)


def _build(**build: Any) -> Json:
    return delivery(build=build)


def _deploy(**deploy: Any) -> Json:
    return delivery(deploy=deploy)


_GIT, _IMAGE = ("spec.source.git", "is not the address of a git repository"), ("spec.build.image", "is not the name of")
_REF = "in body should match"
# What is wrong, by a name: the object, the field that is named, words of the refusal.
BAD: dict[str, tuple[Json, str, str]] = {
    "a name too long": (delivery("a" * 51), "metadata.name", "the name is too long"),
    "a name with a dot": (delivery("a.b"), "metadata.name", "the name is too long or has other letters"),
    "git: a file": (_source(git="file:///etc"), *_GIT),
    "git: a folder": (_source(git="/srv/git/shop"), *_GIT),
    "git: a program": (_source(git="ext::sh -c date"), *_GIT),
    "git: an option": (_source(git="--upload-pack=date"), *_GIT),
    "git: a host that is an option": (_source(git="ssh://-oProxyCommand=date/x"), *_GIT),
    "git: a path that is an option": (_source(git="git@git.example:-x"), *_GIT),
    "git: a password": (_source(git="https://alice:secret@git.example/shop"), *_GIT),
    "git: no path": (_source(git="https://git.example"), *_GIT),
    "git: a space": (_source(git="https://git.example/a b"), *_GIT),
    "git: two lines": (_source(git="https://git.example/a\nb"), *_GIT),
    "git: the git protocol": (_source(git="git://git.example/shop"), *_GIT),
    "git: nothing": (_source(git=""), "spec.source.git", ""),
    "a branch and a tag": (_source(branch="main", tag="v1"), "spec.source", "one branch, one tag or one revision"),
    "a branch and a revision": (_source(branch="a", revision="0" * 40), "spec.source", "one branch, one tag"),
    "branch: an option": (_source(branch="-x"), "spec.source.branch", _REF),
    "branch: a space": (_source(branch="a b"), "spec.source.branch", _REF),
    "branch: up": (_source(branch="a/../b"), "spec.source.branch", "git has no branch of such a name"),
    "branch: a slash at its end": (_source(branch="a/"), "spec.source.branch", "git has no branch of such a name"),
    "branch: a lock": (_source(branch="a.lock"), "spec.source.branch", "git has no branch of such a name"),
    "tag: two dots": (_source(tag="v1..2"), "spec.source.tag", "git has no tag of such a name"),
    "a short revision": (_source(revision="0123456"), "spec.source.revision", _REF),
    "a revision in capitals": (_source(revision="A" * 40), "spec.source.revision", _REF),
    "subPath: up": (_source(subPath="../other"), "spec.source.subPath", _REF),
    "subPath: absolute": (_source(subPath="/etc"), "spec.source.subPath", _REF),
    "subPath: an option": (_source(subPath="-x"), "spec.source.subPath", _REF),
    "poll: negative": (_source(pollSeconds=-1), "spec.source.pollSeconds", "greater than or equal to 0"),
    "webhook: nobody's": (
        _source(webhook={"provider": "Gitea", "secretRef": {"name": "a", "key": "b"}}),
        "spec.source.webhook.provider",
        'supported values: "GitLab", "GitHub", "Bitbucket"',
    ),
    "image: a tag": (_build(image=f"{IMAGE}:v1"), *_IMAGE),
    "image: a digest": (_build(image=f"{IMAGE}@sha256:{'0' * 64}"), *_IMAGE),
    "image: capitals": (_build(image="registry.example/Team/shop"), *_IMAGE),
    "image: no registry": (_build(image="team/shop"), *_IMAGE),
    "image: a URL": (_build(image="https://registry.example/team/shop"), *_IMAGE),
    "image: an option": (_build(image="-registry.example/shop"), *_IMAGE),
    "image: a space": (_build(image="registry.example/a b"), *_IMAGE),
    "image: nothing": (_build(image=""), "spec.build.image", ""),
    "dockerfile: up": (_build(dockerfile="../Dockerfile"), "spec.build.dockerfile", _REF),
    "context: absolute": (_build(context="/"), "spec.build.context", _REF),
    "an argument with a hyphen": (_build(args={"a-b": "c"}), "spec.build.args", "a build argument has a name"),
    "target: an option": (_build(target="--x"), "spec.build.target", _REF),
    "a buildpack": (_build(buildpack="java"), "spec.build.buildpack", 'supported values: "None"'),
    "a platform of its own": (_build(platforms=["windows/amd64"]), "spec.build.platforms[0]", _REF),
    "no time to build": (_build(timeoutSeconds=1), "spec.build.timeoutSeconds", "greater than or equal to 30"),
    "no amount": (
        _build(resources={"limits": {"memory": "much"}}),
        "spec.build.resources.limits.memory",
        _REF,
    ),
    "replicas: negative": (_deploy(replicas=-1), "spec.deploy.replicas", "greater than or equal to 0"),
    "namespace: capitals": (_deploy(namespace="Team"), "spec.deploy.namespace", _REF),
    "cluster: a dot": (_deploy(cluster="a.b"), "spec.deploy.cluster", _REF),
    "two ports of a number": (
        _deploy(ports=[{"name": "a", "port": 80}, {"name": "b", "port": 80}]),
        "spec.deploy.ports",
        "two ports of the Service have the same number",
    ),
    "a port of no number": (_deploy(ports=[{"name": "a", "port": 0}]), "spec.deploy.ports[0].port", "or equal to 1"),
    "a variable with two values": (
        _deploy(env=[{"name": "A", "value": "b", "secretKeyRef": {"name": "s", "key": "k"}}]),
        "spec.deploy.env[0]",
        "a variable has one value",
    ),
    "a variable without a value": (_deploy(env=[{"name": "A"}]), "spec.deploy.env[0]", "a variable has one value"),
    "a variable with a space": (_deploy(env=[{"name": "A B", "value": "c"}]), "spec.deploy.env[0].name", _REF),
    "a probe without a port": (
        _deploy(ports=[], probes={"liveness": {"path": "/"}}),
        "spec.deploy.probes",
        "a probe needs a port",
    ),
    "an Ingress without a port": (
        _deploy(ports=[], ingress={"host": "shop.example"}),
        "spec.deploy.ingress",
        "an Ingress leads to a port of the Service",
    ),
    "an Ingress without a Service": (
        _deploy(service={"type": "None"}, ingress={"host": "shop.example"}),
        "spec.deploy.ingress",
        "an Ingress leads to a port of the Service",
    ),
    "an Ingress to no port": (
        _deploy(ingress={"host": "shop.example", "port": "grpc"}),
        "spec.deploy.ingress",
        "there is no port of this name",
    ),
    "a Service of no type": (_deploy(service={"type": "External"}), "spec.deploy.service.type", '"LoadBalancer"'),
    "a pull Secret in another namespace": (
        _deploy(namespace="web", pullSecretRef={"name": "pull"}),
        "spec.deploy.pullSecretRef",
        "Secrets are copied into guest clusters, and not between namespaces",
    ),
    "no history": (delivery(history=1), "spec.history", "greater than or equal to 2"),
}
GOOD: dict[str, Json] = {
    "least": delivery(deploy={}),
    **{
        f"git: {git}": _source(git=git)
        for git in (
            "https://git.example/shop",
            "http://10.0.0.1:8080/git/shop.git",
            "http://[fd00::1]:8080/shop.git",
            "ssh://git@git.example:2222/~alice/shop.git",
            "git@git.example:team/shop.git",
            "https://git.example/a%20b",
        )
    },
    **{
        f"image: {image}": _build(image=image)
        for image in (
            IMAGE,
            "localhost/shop",
            "registry:5000/shop",
            "registry.example/a/b-c/d.e__f",
            "[fd00::1]:5000/shop",
            "registry.ci.svc.cluster.local:5000/shop",
        )
    },
    **{f"branch: {name}": _source(branch=name) for name in ("main", "feature/a.b-c", "renovate/x@1", "1.x", "a=b#1")},
    "a pull Secret at home": _deploy(pullSecretRef={"name": "pull"}),
    "a revision of SHA-256": _source(revision="0" * 64),
    "everything": delivery(
        source={
            "tag": "v1.0",
            "subPath": "apps/shop",
            "secretRef": {"name": "git"},
            "pollSeconds": 0,
            "webhook": {"provider": "GitHub", "secretRef": {"name": "hook", "key": "secret"}},
            "submodules": True,
        },
        build={
            "dockerfile": "build/Dockerfile",
            "context": ".",
            "args": {"VERSION": "1"},
            "target": "final",
            "insecure": True,
            "pushSecretRef": {"name": "push"},
            "signingSecretRef": {"name": "cosign"},
            "cache": "None",
            "platforms": ["linux/amd64", "linux/arm/v7"],
            "timeoutSeconds": 600,
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"ephemeral-storage": "1.5Gi"}},
            "privileged": True,
        },
        deploy={
            "cluster": "guest",
            "namespace": "web",
            "replicas": 2,
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "dns", "port": 80, "protocol": "UDP"}],
            "env": [
                {"name": "A", "value": ""},
                {"name": "B", "secretKeyRef": {"name": "s", "key": "k"}},
                {"name": "C", "configMapKeyRef": {"name": "s", "key": "k"}},
            ],
            "resources": {"limits": {"memory": "64Mi"}},
            "probes": {"readiness": {"path": "/ready"}, "liveness": {"port": 9000}, "startup": {"periodSeconds": 1}},
            "service": {"type": "NodePort"},
            "ingress": {"host": "shop.example", "className": "nginx", "port": "http", "tlsSecret": "tls"},
            "pullSecretRef": {"name": "pull"},
            "template": {"spec": {"imagePullSecrets": [{"name": "more"}]}},
            "rolloutSeconds": 30,
        },
        rollback=False,
        history=50,
        paused=True,
    ),
}
