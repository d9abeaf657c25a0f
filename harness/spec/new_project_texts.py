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
