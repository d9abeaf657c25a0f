"""Objects with one mistake each, which the API server and the rules of the operator tell in the same words."""

from __future__ import annotations

from typing import Any

from tests.unit.operator.api.objects import SOURCE, deployment, wanted_set

Json = dict[str, Any]
CP = wanted_set("cp", "control-plane")


MADE: Json = {
    "image": {"url": "http://m/d.qcow2", "checksum": f"sha256:{'a' * 64}"},
    "memory": "2Gi",
    "disk": "20Gi",
}
S3: Json = {"bucket": "backups", "secretRef": {"name": "s3-keys"}}


def scheduled(schedule: str, **more: Any) -> Json:
    """Return an object whose etcd is backed up by a schedule."""
    return deployment(etcd={"backup": {"schedule": schedule, "destination": {"claim": "c"}, **more}})


def _sharing(**ref: str) -> Json:
    """Return an object that shares an EtcdCluster."""
    return deployment(etcd={"clusterRef": {"name": "store", **ref}})


ELSEWHERE = "are of the EtcdCluster that clusterRef names: set them there, and remove them here"
# What goes with no clusterRef: sets, fields of etcd, other fields, and what is said.
SHARED: tuple[tuple[str, tuple[Json, ...], Json, Json, str], ...] = (
    ("its own members", (CP, wanted_set("e", "etcd")), {}, {}, "both an EtcdCluster and a set of the cluster"),
    ("stacked members", (wanted_set("cp", "control-plane", "etcd"),), {}, {}, "remove the role etcd from machineSets"),
    ("a version of etcd", (), {}, {"components": {"etcd": "3.6.8"}}, ELSEWHERE),
    ("flags of etcd", (), {"extraArgs": {"quota-backend-bytes": "1"}}, {}, ELSEWHERE),
    ("a place for backups", (), {"backup": {"destination": {"claim": "c"}}}, {}, ELSEWHERE),
    ("backups", (), {"backup": {"destination": {"claim": "c"}, "beforeDisruption": True}}, {}, ELSEWHERE),
    ("a schedule", (), {"backup": {"destination": {"claim": "c"}, "schedule": "0 3 * * *"}}, {}, ELSEWHERE),
    ("a CA of etcd", (), {}, {"authority": {"etcdSecretRef": {"name": "own"}}}, ELSEWHERE),
    ("a share that is free", (), {}, {"maintenance": {"defragmentPercent": 20}}, ELSEWHERE),
    ("a size that is free", (), {}, {"maintenance": {"defragmentMebibytes": 20}}, ELSEWHERE),
    ("no keys on machines", (), {}, {"authority": {"keysOnMachines": False}}, "set authority.keysOnMachines to true"),
    (
        "other playbooks",
        (),
        {},
        {"playbooks": {"product": {"configMap": "own"}}},
        "other playbooks know no EtcdCluster",
    ),
    (
        "a flag of the prefix",
        (),
        {},
        {"kubernetes": {"apiServer": {"extraArgs": {"etcd-prefix": "/x"}}}},
        "remove the flag etcd-prefix",
    ),
)


# What only the rules of the operator tell: a definition knows no table of releases, and compares no names of sets.
JUDGED = {
    "feature gates twice, by a file",
    "unknown version",
    "a machine in two sets",
    "name of a variable",
    "variable of the operator",
    "an image without a name",
    "a misspelt variable",
    "a range that is backwards",
    "a range of two families",
    "a range of no address",
    "a range of a network with host bits",
    "a template in a flag",
    "a template in a setting of kubelets",
    "a comment of templates",
    "a variable of an add-on",
    "flags with dashes by a variable",
    "a negative setting of kubelets",
    "a negative setting of kubelets by a variable",
    "a schedule that never fires",
    "a drill that never fires",
    "a schedule with an hour too many",
    "a schedule that is backwards",
    "an unknown time zone",
    "the time zone of a host",
}
# case -> the object, the field, and words of the mistake or of its remedy
BAD: dict[str, tuple[Json, str, str]] = {
    "unknown version": (deployment(version="1.36.9"), "spec.version", "use 1.34.4, 1.35.4, 1.36.1, 1.36.3"),
    **{
        f"a range {what}": (
            deployment(network={"loadBalancerAddresses": ["192.0.2.1-192.0.2.9", text]}),
            "spec.network.loadBalancerAddresses[1]",
            said,
        )
        for what, text, said in (
            ("that is backwards", "192.0.2.9-192.0.2.1", "192.0.2.9-192.0.2.1 is not a network, nor a range"),
            ("of two families", "192.0.2.9-fd00::1", "of one IP family: write 192.0.2.0/28"),
            ("of no address", "192.0.2.1-192.0.2.999", "with the lower address first"),
            ("of a network with host bits", "192.0.2.1/24", "is not a network"),
            ("that is a word", "nowhere", "in body should match"),
            ("that is a template", "{{ x }}", "in body should match"),
            ("with one end", "192.0.2.1-", "in body should match"),
        )
    },
    **{
        f"{what} of an Ingress": (
            deployment(network={"ingress": {"address": text}}),
            "spec.network.ingress.address",
            "in body should match",
        )
        for what, text in (("a blank", " "), ("two lines", "a\nb"), ("a template", "{{ x }}"), ("a URL", "http://a"))
    },
    "a template in a flag": (
        deployment(kubernetes={"apiServer": {"extraArgs": {"v": "{{ level }}"}}}),
        "spec.kubernetes.apiServer.extraArgs.v",
        "begin templates, which no field has: write the value itself",
    ),
    "a template in a setting of kubelets": (
        deployment(kubernetes={"kubelet": {"config": {"a": {"b": ["{% if x %}"]}}}}),
        "spec.kubernetes.kubelet.config.a.b[0]",
        "begin templates",
    ),
    "a comment of templates": (
        deployment(kubernetes={"kubelet": {"config": {"a{# b": 1}}}),
        "spec.kubernetes.kubelet.config",
        "begin templates",
    ),
    **{
        f"the registry {text!r}": (
            deployment(source={**SOURCE, "registry": text}),
            "spec.source.registry",
            "in body should match",
        )
        for text in ("-", "..", "a:b", "a:", "a/", "a//b", "a/B", "http://a", "a b", "a_b:5000")
    },
    **{
        f"the image {text!r}": (
            deployment(source={**SOURCE, "images": {"coredns": text}}),
            "spec.source.images.coredns",
            "in body should match",
        )
        for text in ("-", "..", "a:", "a:-b", "a/B:1", "a@sha256:0", "https://a/b:1", "a/b:1:2", "/a:1")
    },
    "a label of a pool that no label can be": (
        deployment(wanted_set("cp", "control-plane", pool={"selector": {"matchLabels": {"a": "b c"}}})),
        "spec.machineSets[0].machines.pool.selector.matchLabels.a",
        "in body should match",
    ),
    "a failure domain that no label can be": (
        deployment({**CP, "failureDomains": {"domains": ["a/b"]}}),
        "spec.machineSets[0].failureDomains.domains[0]",
        "in body should match",
    ),
    "a CA for playbooks that make their own": (
        deployment(
            playbooks={"product": {"configMap": "product"}}, authority={"proxySecretRef": {"name": "corporate"}}
        ),
        "spec.authority",
        "has CAs of its own: remove the Secrets",
    ),
    "no keys for playbooks that make their own CAs": (
        deployment(playbooks={"product": {"configMap": "product"}}, authority={"keysOnMachines": False}),
        "spec.authority.keysOnMachines",
        "the operator has no keys of the CAs of a cluster that is adopted",
    ),
    "kubelets that ask where nobody signs": (
        deployment(authority={"keysOnMachines": False}, hardening={"kubeletCertificatesSigned": True}),
        "spec.hardening.kubeletCertificatesSigned",
        "nothing in the cluster signs what kubelets ask for: remove it, or set authority.keysOnMachines to true",
    ),
    **{
        f"a shared etcd beside {what}": (
            deployment(*sets, etcd={"clusterRef": {"name": "store"}, **etcd}, **spec),
            "spec.etcd.clusterRef",
            said,
        )
        for what, sets, etcd, spec, said in SHARED
    },
    "a prefix without a slash": (_sharing(prefix="a"), "spec.etcd.clusterRef.prefix", "in body should match"),
    "a prefix with a slash at its end": (_sharing(prefix="/a/"), "spec.etcd.clusterRef.prefix", "in body should match"),
    "a prefix that is all": (_sharing(prefix="/"), "spec.etcd.clusterRef.prefix", "in body should match"),
    "a prefix that goes up": (_sharing(prefix="/a/../b"), "spec.etcd.clusterRef.prefix", "in body should match"),
    "a shared etcd without a name": (
        deployment(etcd={"clusterRef": {"prefix": "/a"}}),
        "spec.etcd.clusterRef.name",
        "Required value",
    ),
    "keys of an own etcd": (
        deployment(deletion={"etcdKeys": "Delete"}),
        "spec.deletion.etcdKeys",
        "a cluster without etcd.clusterRef has no keys in another etcd: remove it",
    ),
    "the adoption of a cluster with a shared etcd": (
        deployment(
            wanted_set("cp", "control-plane", names=["m-0"]), adopt=True, etcd={"clusterRef": {"name": "store"}}
        ),
        "spec.adopt",
        "a cluster with external etcd cannot be adopted",
    ),
    "no version": (deployment(version="newest"), "spec.version", "spec.version in body should match"),
    "two stacked members": (
        deployment(wanted_set("cp", "control-plane", replicas=2)),
        "spec.machineSets",
        "two control planes would be two etcd members",
    ),
    "two stacked members in two sets": (
        deployment(wanted_set("a", "control-plane", "etcd"), wanted_set("b", "control-plane", "etcd")),
        "spec.machineSets",
        "use one or three control planes",
    ),
    "two external members": (
        deployment(CP, wanted_set("etcd", "etcd", replicas=2)),
        "spec.machineSets",
        "two etcd members stop when either one fails",
    ),
    "stacked and external": (
        deployment(wanted_set("cp", "control-plane", "etcd"), wanted_set("etcd", "etcd", replicas=3)),
        "spec.machineSets",
        "etcd is both stacked and external",
    ),
    "half stacked": (
        deployment(wanted_set("a", "control-plane", "etcd", replicas=2), wanted_set("b", "control-plane")),
        "spec.machineSets",
        "give the role etcd to all sets of control planes or to none",
    ),
    "no control plane": (deployment(wanted_set("w", "worker")), "spec.machineSets", "no machine is a control plane"),
    "the last control plane leaves": (
        deployment(wanted_set("cp", "control-plane", replicas=0), wanted_set("w", "worker")),
        "spec.machineSets",
        "give a set with at least one replica the role control-plane",
    ),
    "no external member": (
        deployment(CP, wanted_set("etcd", "etcd", replicas=0)),
        "spec.machineSets",
        "no machine is an etcd member",
    ),
    "etcd beside workers": (
        deployment(CP, wanted_set("etcd", "etcd", "worker")),
        "spec.machineSets[1].roles",
        "run only etcd",
    ),
    "networks overlap": (
        deployment(network={"pods": "10.64.0.0/10", "services": "10.96.0.0/12"}),
        "spec.network.services",
        "the networks of pods and services overlap",
    ),
    "no second network": (
        deployment(network={"ipv6Pods": "fd10::1/56", "ipv6Services": "fd11::/112"}),
        "spec.network.ipv6Pods",
        "not a network in CIDR notation: write one such as fd10:243::/56",
    ),
    "IPv6 before IPv4": (
        deployment(network={"ipFamilies": ["IPv6", "IPv4"], "pool": "flat"}),
        "spec.network.ipFamilies",
        "write [IPv4, IPv6], or one of them",
    ),
    "IPv6 before IPv4, with second networks": (
        deployment(
            network={
                "ipFamilies": ["IPv6", "IPv4"],
                "pool": "flat",
                "ipv6Pods": "fd10::/56",
                "ipv6Services": "fd11::/112",
            }
        ),
        "spec.network.ipFamilies",
        "write [IPv4, IPv6], or one of them",
    ),
    "a second network of one family": (
        deployment(network={"ipFamilies": ["IPv4"], "ipv6Pods": "fd10::/56", "ipv6Services": "fd11::/112"}),
        "spec.network.ipFamilies",
        "set ipFamilies to [IPv4, IPv6]",
    ),
    "a second network of IPv4": (
        deployment(network={"ipv6Pods": "10.8.0.0/16", "ipv6Services": "fd11::/112"}),
        "spec.network.ipv6Pods",
        "the network is not of IPv6",
    ),
    "a first network of IPv6 beside a second one": (
        deployment(network={"pods": "fd12::/56", "ipv6Pods": "fd10::/56", "ipv6Services": "fd11::/112"}),
        "spec.network.pods",
        "the network is not of IPv4: write one such as 10.243.0.0/16",
    ),
    "a network of IPv4 in a cluster of IPv6": (
        deployment(network={"ipFamilies": ["IPv6"], "services": "10.8.0.0/16"}),
        "spec.network.services",
        "the network is not of IPv6: write one such as fd10:95::/112",
    ),
    "second networks overlap": (
        deployment(network={"ipv6Pods": "fd10::/56", "ipv6Services": "fd10::/112"}),
        "spec.network.services",
        "choose networks that have no address in common",
    ),
    "CRI-O from its makers": (
        deployment(runtime={"name": "crio"}, source={"type": "Upstream", "registry": "r/x"}),
        "spec.runtime.name",
        "set source.type to Mirror, or runtime.name to containerd",
    ),
    "an unknown runtime": (
        deployment(runtime={"name": "docker"}),
        "spec.runtime.name",
        'Unsupported value: "docker": supported values: "containerd", "crio"',
    ),
    "a feature gate like a flag": (
        deployment(kubernetes={"featureGates": {"sidecar-containers": True}}),
        "spec.kubernetes.featureGates",
        "write names such as SidecarContainers",
    ),
    "feature gates twice, by a flag": (
        deployment(kubernetes={"featureGates": {"A": True}, "scheduler": {"extraArgs": {"feature-gates": "A=true"}}}),
        "spec.kubernetes.featureGates",
        "use featureGates alone",
    ),
    "feature gates twice, by a file": (
        deployment(kubernetes={"featureGates": {"A": True}, "kubelet": {"config": {"featureGates": {"A": True}}}}),
        "spec.kubernetes.featureGates",
        "use featureGates alone",
    ),
    "a volume that leads upwards": (
        deployment(
            kubernetes={"apiServer": {"extraVolumes": [{"name": "a", "hostPath": "/a/../etc", "mountPath": "/a"}]}}
        ),
        "spec.kubernetes.apiServer.extraVolumes[0].hostPath",
        "write paths without ..",
    ),
    "a volume without a path": (
        deployment(kubernetes={"scheduler": {"extraVolumes": [{"name": "a", "mountPath": "/a"}]}}),
        "spec.kubernetes.scheduler.extraVolumes[0].hostPath",
        "Required value: set it",
    ),
    "certificates outside of the folder of Kubernetes": (
        deployment(certificates={"folder": "/srv/ssl"}),
        "spec.certificates.folder",
        "should match",
    ),
    "certificates in the folder of static pods": (
        deployment(certificates={"folder": "/etc/kubernetes/manifests"}),
        "spec.certificates.folder",
        "use a folder of its own, such as /etc/kubernetes/ssl",
    ),
    "more machines than failure domains": (
        deployment(
            {
                **wanted_set("cp", "control-plane", replicas=3),
                "failureDomains": {"policy": "Required", "domains": ["a", "b"]},
            }
        ),
        "spec.machineSets[0].failureDomains",
        "lower replicas, add domains, or set policy to Preferred",
    ),
    "an unknown policy of failure domains": (
        deployment({**CP, "failureDomains": {"policy": "Always"}}),
        "spec.machineSets[0].failureDomains.policy",
        'supported values: "Required", "Preferred"',
    ),
    "a topology key that is not a label": (
        deployment({**CP, "failureDomains": {"topologyKey": "a zone"}}),
        "spec.machineSets[0].failureDomains.topologyKey",
        "should match",
    ),
    "zones and failure domains": (
        deployment(
            {
                **wanted_set("cp", "control-plane", kubevirt={**MADE, "zones": ["a"]}),
                "failureDomains": {"domains": ["a"]},
            }
        ),
        "spec.machineSets[0].machines.kubevirt.zones",
        "remove machines.kubevirt.zones, and name the zones in failureDomains.domains",
    ),
    "no network": (deployment(network={"pods": "10.0.0.1/8"}), "spec.network.pods", "not a network in CIDR notation"),
    "set names": (deployment(CP, wanted_set("cp", "worker")), "spec.machineSets[1]", 'Duplicate value: {"name":"cp"}'),
    "no source": (
        deployment({**CP, "machines": {}}),
        "spec.machineSets[0].machines",
        "set exactly one of pool, names and kubevirt",
    ),
    "two sources": (
        deployment(wanted_set("cp", "control-plane", pool={}, names=["a"])),
        "spec.machineSets[0].machines",
        "set exactly one of pool, names and kubevirt",
    ),
    "replicas and names": (
        deployment(wanted_set("cp", "control-plane", replicas=3, names=["a"])),
        "spec.machineSets[0].replicas",
        "set replicas to the number of machines",
    ),
    "unknown role": (
        deployment(wanted_set("cp", "control-plane", "boss")),
        "spec.machineSets[0].roles[1]",
        'Unsupported value: "boss": supported values: "control-plane", "etcd", "worker"',
    ),
    "a machine in two sets": (
        deployment(wanted_set("cp", "control-plane", names=["a"]), wanted_set("w", "worker", names=["a"])),
        "spec.machineSets[1].machines.names",
        "Machine a is in the sets cp and w",
    ),
    "no mirror": (
        deployment(source={"type": "Mirror", "registry": "r:5000"}),
        "spec.source.mirror",
        "type Mirror needs mirror",
    ),
    "no registry": (
        deployment(source={"mirror": "http://mirror"}),
        "spec.source.registry",
        "machines need a registry, with either type",
    ),
    "no registry upstream": (
        deployment(source={"type": "Upstream"}),
        "spec.source.registry",
        "set it to HOST:PORT, with a path if there is one",
    ),
    "an image without a name": (
        deployment(
            source={
                "type": "Upstream",
                "registry": "registry.k8s.io",
                "images": {"coredns": "registry.k8s.io/coredns/coredns:v1.14.2"},
            },
        ),
        "spec.source.images.networkPlugin",
        "registry.k8s.io has no image of the name",
    ),
    "no source of artifacts": (
        {**deployment(), "spec": {k: v for k, v in deployment()["spec"].items() if k != "source"}},
        "spec.source",
        "Required value: set it",
    ),
    "an unknown add-on": (
        deployment(addons=[{"name": "dashboard"}]),
        "spec.addons[0].name",
        "use metrics-server, local-path-provisioner, metallb, kube-router, traefik, or say with manifests",
    ),
    "an add-on of the playbooks with manifests": (
        deployment(addons=[{"name": "metrics-server", "manifests": {"configMap": "a"}}]),
        "spec.addons[0].name",
        "the playbooks have an add-on of this name",
    ),
    "an add-on twice": (
        deployment(addons=[{"name": "a", "manifests": {"configMap": name}} for name in ("x", "y")]),
        "spec.addons[1]",
        'Duplicate value: {"name":"a"}',
    ),
    "a version of manifests": (
        deployment(addons=[{"name": "a", "version": "1.0", "manifests": {"configMap": "a"}}]),
        "spec.addons[0].version",
        "remove version",
    ),
    "manifests by URL without a checksum": (
        deployment(addons=[{"name": "a", "manifests": {"url": "https://example.org/a.yml"}}]),
        "spec.addons[0].manifests.sha256",
        "set sha256 to the checksum of the file",
    ),
    "a checksum of a ConfigMap": (
        deployment(addons=[{"name": "a", "manifests": {"configMap": "a", "sha256": "0" * 64}}]),
        "spec.addons[0].manifests.sha256",
        "remove sha256, or set url",
    ),
    "manifests from two places": (
        deployment(addons=[{"name": "a", "manifests": {"configMap": "a", "url": "http://x/a", "sha256": "0" * 64}}]),
        "spec.addons[0].manifests",
        "set either configMap, or url with sha256",
    ),
    "manifests from nowhere": (
        deployment(addons=[{"name": "a", "manifests": {}}]),
        "spec.addons[0].manifests",
        "set either configMap, or url with sha256",
    ),
    "no checksum": (
        deployment(addons=[{"name": "a", "manifests": {"url": "http://x/a", "sha256": "abc"}}]),
        "spec.addons[0].manifests.sha256",
        "should match",
    ),
    "no product file": (
        deployment(playbooks={"product": {}}),
        "spec.playbooks.product.configMap",
        "Required value: set it",
    ),
    "flags with dashes": (
        deployment(etcd={"extraArgs": {"--quota": "1"}}),
        "spec.etcd.extraArgs",
        "write flags without dashes",
    ),
    "backups without a place": (
        deployment(etcd={"backup": {"beforeDisruption": True}}),
        "spec.etcd.backup.destination",
        "set destination.claim to the name of a PersistentVolumeClaim",
    ),
    "a schedule without a place": (
        deployment(etcd={"backup": {"schedule": "@daily"}}),
        "spec.etcd.backup.destination",
        "backups that the operator makes need a place: set destination.claim",
    ),
    "a schedule of four words": (scheduled("0 3 * *"), "spec.etcd.backup.schedule", "should match"),
    "a schedule with seconds": (scheduled("0 0 3 * * *"), "spec.etcd.backup.schedule", "should match"),
    "an unknown macro": (scheduled("@fortnightly"), "spec.etcd.backup.schedule", "should match"),
    "a schedule that never fires": (
        scheduled("0 0 31 2 *"),
        "spec.etcd.backup.schedule",
        "'0 0 31 2 *' is not a schedule that fires: bad day-of-month: write minute, hour, day of the month",
    ),
    "a schedule with an hour too many": (scheduled("0 24 * * *"), "spec.etcd.backup.schedule", "fires: bad hour"),
    "a schedule that is backwards": (scheduled("9-5 * * * *"), "spec.etcd.backup.schedule", "fires: bad minute"),
    "a drill without backups": (
        deployment(etcd={"backup": {"drill": "weekly", "destination": {"claim": "c"}}}),
        "spec.etcd.backup.drill",
        "a drill restores the newest backup, and nothing makes newer ones: set schedule, or remove drill",
    ),
    "a drill without a place": (
        deployment(etcd={"backup": {"schedule": "@daily", "drill": "weekly"}}),
        "spec.etcd.backup.destination",
        "backups that the operator makes need a place: set destination.claim",
    ),
    "a drill that never fires": (
        scheduled("@daily", drill="0 0 31 2 *"),
        "spec.etcd.backup.drill",
        "'0 0 31 2 *' is not a schedule that fires: bad day-of-month: write minute, hour, day of the month",
    ),
    "a drill at an unknown word": (scheduled("@daily", drill="yearly"), "spec.etcd.backup.drill", "should match"),
    "a word of drills as a schedule": (scheduled("weekly"), "spec.etcd.backup.schedule", "should match"),
    "an unknown time zone": (
        scheduled("@daily", timeZone="Europe/Nowhere"),
        "spec.etcd.backup.timeZone",
        'there is no time zone Europe/Nowhere: use a name such as "Etc/UTC"',
    ),
    "the time zone of a host": (
        scheduled("@daily", timeZone="Local"),
        "spec.etcd.backup.timeZone",
        "there is no time zone Local",
    ),
    "a time zone as an offset": (scheduled("@daily", timeZone="+02:00"), "spec.etcd.backup.timeZone", "should match"),
    "two places": (
        deployment(etcd={"backup": {"destination": {"claim": "c", "s3": S3}}}),
        "spec.etcd.backup.destination",
        "a snapshot is put into one place: set either claim or s3",
    ),
    "no place": (
        deployment(etcd={"backup": {"destination": {}}}),
        "spec.etcd.backup.destination",
        "set either claim or s3",
    ),
    "a bucket without a Secret": (
        deployment(etcd={"backup": {"destination": {"s3": {"bucket": "backups"}}}}),
        "spec.etcd.backup.destination.s3.secretRef",
        "Required value: set it",
    ),
    "a bucket with a capital": (
        deployment(etcd={"backup": {"destination": {"s3": {**S3, "bucket": "Backups"}}}}),
        "spec.etcd.backup.destination.s3.bucket",
        "should match",
    ),
    **{
        f"a way to the API: {name}": (deployment(endpoint=endpoint), f"spec.endpoint.{field}", words)
        for name, endpoint, field, words in (
            ("a host of Local", {"host": "a.example"}, "host", "an endpoint of this type has no host: remove it"),
            (
                "an address of an Ingress",
                {"type": "Ingress", "host": "a.example", "address": "192.0.2.5"},
                "address",
                "LoadBalancer or VIP",
            ),
            ("a port of a VIP", {"type": "VIP", "address": "192.0.2.5", "port": 443}, "port", "has no port"),
            (
                "a class of a Gateway",
                {"type": "Gateway", "host": "a.b", "gatewayRef": {"name": "g"}, "className": "c"},
                "className",
                "no className",
            ),
            (
                "annotations of a VIP",
                {"type": "VIP", "address": "192.0.2.5", "annotations": {"a": "b"}},
                "annotations",
                "no annotations",
            ),
            ("a Gateway of a Service", {"type": "Service", "gatewayRef": {"name": "g"}}, "gatewayRef", "no gatewayRef"),
            ("an Ingress without a host", {"type": "Ingress"}, "host", "of type Ingress needs host: set it"),
            (
                "a Gateway without a host",
                {"type": "Gateway", "gatewayRef": {"name": "g"}},
                "host",
                "of type Gateway needs host",
            ),
            (
                "no Gateway",
                {"type": "Gateway", "host": "a.example"},
                "gatewayRef",
                "needs gatewayRef: set it, such as {name",
            ),
            ("a VIP without an address", {"type": "VIP"}, "address", "of type VIP needs address: set it, such as 192"),
            ("an address as a host", {"type": "Ingress", "host": "192.0.2.5"}, "host", "host is an address"),
            ("half an address", {"type": "VIP", "address": "192.0.2"}, "address", "not an IP address: write one"),
            (
                "a key with a blank",
                {"type": "Service", "annotations": {"a b": "c"}},
                "annotations",
                "not one of annotations",
            ),
            ("an unknown type", {"type": "NodePort"}, "type", "Unsupported value"),
        )
    },
    **{
        f"isolation: {name}": (
            deployment(isolation={"enabled": True, "allowFrom": [peer]}),
            f"spec.isolation.allowFrom[0]{field}",
            words,
        )
        for name, peer, field, words in (
            ("a peer that names nobody", {"ports": [{"port": 80}]}, "", "the peer names nobody: set podSelector"),
            (
                "pods and addresses",
                {"podSelector": {}, "ipBlock": {"cidr": "192.0.2.0/24"}},
                ".ipBlock",
                "either pods or addresses: make two peers of it",
            ),
            ("host bits", {"ipBlock": {"cidr": "192.0.2.1/24"}}, ".ipBlock.cidr", "not a network in CIDR notation"),
            ("no network", {"ipBlock": {"cidr": "192.0.2.0/33"}}, ".ipBlock.cidr", "without host bits, such as"),
            (
                "a part that is not a network",
                {"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.0/40"]}},
                ".ipBlock.except",
                "not a network in CIDR notation",
            ),
            (
                "a part outside",
                {"ipBlock": {"cidr": "192.0.2.0/24", "except": ["198.51.100.0/25"]}},
                ".ipBlock.except",
                "not a part of the network: name parts of cidr",
            ),
            (
                "a part of the other family",
                {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["fd00::/8"]}},
                ".ipBlock.except",
                "not a part of the network",
            ),
            (
                "all of it left out",
                {"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.0/24"]}},
                ".ipBlock.except",
                "smaller than it",
            ),
            (
                "a range that is backwards",
                {"podSelector": {}, "ports": [{"port": 90, "endPort": 80}]},
                ".ports[0].endPort",
                "the range ends before it begins",
            ),
            (
                "a requirement without values",
                {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
                ".podSelector.matchExpressions[0].values",
                "In and NotIn need values",
            ),
        )
    },
    "two ways to the API": (
        deployment(endpoint={"type": "VIP", "address": "192.0.2.5"}, loadBalancer={"type": "Service"}),
        "spec.loadBalancer.type",
        "different ways to the API: remove loadBalancer",
    ),
    "a virtual address with playbooks of others": (
        deployment(endpoint={"type": "VIP", "address": "192.0.2.5"}, playbooks={"product": {"configMap": "ours"}}),
        "spec.endpoint.type",
        "choose another type",
    ),
    "an endpoint with a path": (
        deployment(etcd={"backup": {"destination": {"s3": {**S3, "endpoint": "https://s3.test/backups"}}}}),
        "spec.etcd.backup.destination.s3.endpoint",
        "should match",
    ),
    "a prefix that begins with a slash": (
        deployment(etcd={"backup": {"destination": {"s3": {**S3, "prefix": "/etcd"}}}}),
        "spec.etcd.backup.destination.s3.prefix",
        "should match",
    ),
    "a key of KMS without KMS": (
        deployment(etcd={"backup": {"destination": {"s3": {**S3, "kmsKeyId": "k"}}}}),
        "spec.etcd.backup.destination.s3.kmsKeyId",
        "set serverSideEncryption to aws:kms",
    ),
    "an age of nothing": (scheduled("@daily", maxAgeHours=0), "spec.etcd.backup.maxAgeHours", "greater than or equal"),
    "adopted machines of a pool": (
        deployment(adopt=True),
        "spec.machineSets",
        "name them in machines.names of every set",
    ),
    "adopted external etcd": (
        deployment(wanted_set("cp", "control-plane", names=["a"]), wanted_set("etcd", "etcd", names=["b"]), adopt=True),
        "spec.adopt",
        "a cluster with external etcd cannot be adopted",
    ),
    "name of a variable": (deployment(variables={"a-b": 1}), "spec.variables", "use letters, digits and '_'"),
    "a misspelt variable": (
        deployment(variables={"cluster_kubelet_confg": {}}),
        "spec.variables.cluster_kubelet_confg",
        "the playbooks have no such variable: did you mean 'cluster_kubelet_config'?",
    ),
    "a variable of an add-on": (
        deployment(variables={"cluster_metrics_server_version": "0.9.0"}),
        "spec.variables.cluster_metrics_server_version",
        "a field stands for this variable: remove it, and name the add-on in spec.addons",
    ),
    "flags with dashes by a variable": (
        deployment(variables={"cluster_etcd_extra_args": {"--quota": "1"}}),
        "spec.variables.cluster_etcd_extra_args",
        "write flags without dashes",
    ),
    "a negative setting of kubelets": (
        deployment(kubernetes={"kubelet": {"config": {"maxPods": -5}}}),
        "spec.kubernetes.kubelet.config.maxPods",
        "-5 is too small: use 0 or more",
    ),
    "a negative setting of kubelets by a variable": (
        deployment(variables={"cluster_kube_proxy_config": {"conntrack": {"min": -1}}}),
        "spec.variables.cluster_kube_proxy_config.conntrack.min",
        "-1 is too small: use 0 or more",
    ),
    "four control planes": (
        deployment(wanted_set("cp", "control-plane", replicas=4)),
        "spec.machineSets",
        "use an odd number of control planes",
    ),
    "four etcd members": (
        deployment(wanted_set("cp", "control-plane"), wanted_set("db", "etcd", replicas=4)),
        "spec.machineSets",
        "use an odd number of machines with the role etcd",
    ),
    "a label of the kubelet's": (
        deployment({**wanted_set("cp", "control-plane"), "labels": {"kubernetes.io/hostname": "a"}}),
        "spec.machineSets[0].labels",
        "Kubernetes itself gives nodes one of these labels",
    ),
    "a taint of the node controller's": (
        deployment(
            {
                **wanted_set("cp", "control-plane"),
                "taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}],
            }
        ),
        "spec.machineSets[0].taints[0].key",
        "Kubernetes itself sets and removes this taint",
    ),
    "variable of the operator": (
        deployment(variables={"cluster_hosts": []}),
        "spec.variables.cluster_hosts",
        "the operator sets this variable itself: remove it",
    ),
    "unknown field": (deployment(versoin="1.36.3"), "spec.versoin", "unknown field: remove it, or correct its name"),
    "long name": (deployment(name="c" * 31), "metadata.name", "use at most 30"),
}
