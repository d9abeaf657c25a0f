"""One playbook, run to its end: how Ansible is called, what it says, and who is to blame for a failure."""
