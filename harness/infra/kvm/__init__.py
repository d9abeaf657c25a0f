"""Whether this host's KVM runs virtual machines, and whether it is used: found out by running a small one."""
