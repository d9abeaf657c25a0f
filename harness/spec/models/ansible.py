"""How the playbooks of a product of kind `ansible` are called, and where its sources come from."""

from __future__ import annotations

from pydantic import model_validator

from harness.spec.base import Model, Text


class AnsibleOptions(Model):
    """Which Ansible runs the playbooks, and how. Paths are relative to the product's directory.

    path: folder with the ansible-playbook to run; without it and `install`, vmatrix's own Ansible.
    install: requirements file of Python packages, with ansible-core. vmatrix installs them once, in an environment
    in its cache.
    requirements: requirements file of ansible-galaxy. vmatrix installs its collections and roles once, in its cache.
    offline: folder with the archives of all `requirements`; nothing is then asked of a Galaxy server.
    config: the ansible.cfg to use; default: the one beside each phase's playbook.
    inventories: more inventories, without machines, or folders group_vars and host_vars; vmatrix's inventory wins.
    args: more arguments of ansible-playbook, in every phase.
    become: run the playbooks with --become.
    """

    path: Text | None = None
    install: Text | None = None
    requirements: Text | None = None
    offline: Text | None = None
    config: Text | None = None
    inventories: tuple[Text, ...] = ()
    args: tuple[Text, ...] = ()
    become: bool = False

    @model_validator(mode="after")
    def _agree(self) -> AnsibleOptions:
        if self.path is not None and self.install is not None:
            raise ValueError("has both `path` and `install`; one of them says which Ansible is used")
        if self.offline is not None and self.requirements is None:
            raise ValueError("has `offline` without `requirements`, whose archives it would hold")
        return self


class Sources(Model):
    """Where the sources of a product are that lie outside of the project.

    git: address of a Git repository, as `git clone` takes it.
    revision: a tag, or a commit by its full id, of the Git repository.
    path: folder with the sources, relative to the project.
    """

    git: Text | None = None
    revision: Text | None = None
    path: Text | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Sources:
        if (self.git is None) == (self.path is None):
            raise ValueError("needs either `git` and `revision`, or `path`")
        if (self.git is None) != (self.revision is None):
            raise ValueError("needs `git` and `revision` together: a run tells which revision was tested")
        return self
