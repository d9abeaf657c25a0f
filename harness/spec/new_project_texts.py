"""The comments and fixed texts in the files of a new project."""

from __future__ import annotations

HEAD = "# yaml-language-server: $schema=../docs/schemas/{name}.json\n"
IGNORE, PIPELINE = ".gitignore", ".gitlab-ci.yml"

IGNORED = "# Results of `vmatrix run`, and the JSON Schemas that `vmatrix schema` writes.\nruns/\ndocs/schemas/\n"
SETTINGS_TEXT = """\
# Settings of vmatrix; `vmatrix config` lists all of them. This file marks the project, so keep it even if it is empty.
# timeout_scale: 2
"""
PRODUCT_TEXT = """\
# The deployment code under test, with the playbook of each phase. Paths are relative to the project's folder.
# A playbook gets the inventory groups control_plane, etcd and node, and variables that say what to deploy:
# `vmatrix explain CELL` shows both.
"""
TIERS_TEXT = """\
# Which cells run together. One cell: one control plane and one worker. Add cells to `pinned`, or `cover` to plan some;
# after that, run `vmatrix plan --write`.
"""
PIPELINE_TEXT = """\
# Runs cells for merge requests and at night; vmatrix's docs/gitlab.md explains the inputs.
include:
  - project: {gitlab}
    file: templates/vmatrix.yml
    ref: main
    inputs:
      vmatrix_project: {gitlab}
{inputs}stages: [lint, plan, smoke, matrix, report]
"""
OWN_INPUTS = """\
      tier: smoke
      nightly_tier: smoke
"""
