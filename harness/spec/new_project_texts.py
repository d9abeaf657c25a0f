"""The comments and fixed texts in the files of a new project."""

from __future__ import annotations

HEAD = "# yaml-language-server: $schema=../docs/schemas/{name}.json\n"
IGNORE, PIPELINE = ".gitignore", ".gitlab-ci.yml"
GITLAB = "platform/vmatrix"  # stands for where vmatrix is on a GitLab, until somebody says so

IGNORED = "# Results of `vmatrix run`.\nruns/\n"
SETTINGS_TEXT = """\
# Settings of vmatrix; `vmatrix config` lists all of them. This file marks the project, so keep it even if it is empty.
# timeout_scale: 2
"""
PRODUCT_TEXT = """\
# The deployment code under test: its folder in the project, and how to call what is in it.
product:
  name: {name}
  directory: {directory}
"""
GROUPS_TEXT = """\
  # What your plays call the groups of vmatrix. Machines are in the groups of both names.
  groups: {groups}
"""
WITHOUT_ETCD_TEXT = """\
  # No play names a group of machines for etcd: topologies that have such machines are left out of the plan.
"""
GUESSED_TEXT = """\
  # No play names control planes and nodes as others do. Say here which of these groups have which machines:
{guessed}
"""
OTHERS_TEXT = """\
  # Your plays also name these groups, in which vmatrix puts no machine:
{others}
"""
ANSIBLE_TEXT = """\
  # How Ansible is called. vmatrix installs what `install` and `requirements` name, once.
  ansible: {ansible}
"""
PHASES_TEXT = """\
  # The playbook of each phase of a cluster's life. Scenarios with other phases are left out of the plan.
  phases:
"""
HAND_OUT = "vmatrix-deploy.yml"
HAND_OUT_TEXT = """\
---
# Runs your playbook, then does what vmatrix asks of a deployment: it writes the kubeconfig of the cluster's admin to a
# path on the host that runs vmatrix, with an address at which that host reaches the control plane.
- name: Deploy
  ansible.builtin.import_playbook: {playbook}

- name: Hand out the kubeconfig
  hosts: control_plane[0]
  gather_facts: false
  become: true
  tasks:
    - name: Look for it where kubeadm, k3s, RKE2 and k0s leave it; add your own place
      ansible.builtin.stat:
        path: "{{{{ item }}}}"
      loop:
        - /etc/kubernetes/admin.conf
        - /etc/rancher/k3s/k3s.yaml
        - /etc/rancher/rke2/rke2.yaml
        - /var/lib/k0s/pki/admin.conf
      register: vmatrix_places

    - name: Read it
      ansible.builtin.slurp:
        path: "{{{{ (vmatrix_places.results | selectattr('stat.exists') | first).item }}}}"
      register: vmatrix_kubeconfig

    - name: Write it with the control plane's address
      ansible.builtin.copy:
        content: "{{{{ vmatrix_kubeconfig.content | b64decode | regex_replace(server, 'https://' ~ address) }}}}"
        dest: "{{{{ cluster_kubeconfig_path }}}}"
        mode: "0600"
      vars:
        server: 'https://(\\[[^]]*\\]|[^:/\\s]+)'
        address: "{{{{ '[' ~ ansible_host ~ ']' if ':' in ansible_host else ansible_host }}}}"
      delegate_to: localhost
      connection: local
      become: false
"""
VARS_TEXT = """\
  # Variables of every cell. The values of a cell add more, such as cluster_kubernetes_version: `vmatrix explain CELL`
  # shows all of them.
  vars:
"""
TIERS_TEXT = """\
# Which cells run together. This cell has one control plane and one worker. `vmatrix list --origin` shows the values
# that there are. For a cell on a KubeVirt cluster, replace debian-13 by debian-13-cloud. Add cells to `pinned`, or add
# `cover` to plan cells for every pair of values; then run `vmatrix plan --write`.
"""
PIPELINE_TEXT = """\
# Runs cells for merge requests and at night; vmatrix's docs/gitlab.md explains the inputs.
include:
  - project: {gitlab} # where vmatrix is on your GitLab
    file: templates/vmatrix.yml
    ref: main
    inputs:
      vmatrix_project: {gitlab}
{inputs}stages: [lint, plan, smoke, matrix, report]
"""
OWN_INPUTS = """\
      smoke_tier: {tier}
      tier: {tier}
      nightly_tier: {tier}
"""
