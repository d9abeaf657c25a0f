"""A product file as another team writes it."""

from __future__ import annotations

from harness.operator.decide.product_file import KnownProduct, read_product

GOOD = """\
product:
  name: their playbooks
  directory: deploy
  groups: {control_plane: kube_control_plane, etcd: [], node: [kube_node, workers]}
  ansible: {config: ansible.cfg, become: true, args: [--diff]}
  phases:
    deploy: {playbook: site.yml, vars: {first: true}}
    scale-out: {playbook: grow.yml, args: [--tags, nodes]}
    remove-node: {playbook: shrink.yml}
    reset: {playbook: wipe.yml}
  vars: {kube_proxy_mode: ipvs, cluster_dns_domain: cluster.local}
  variables: {cluster_pod_cidr: pods, cluster_kubeconfig_path: kubeconfig_file}
"""


def known(text: str = GOOD) -> KnownProduct:
    """Return what a product file says."""
    product, mistakes = read_product(text, "theirs")
    assert product is not None, mistakes
    return product
