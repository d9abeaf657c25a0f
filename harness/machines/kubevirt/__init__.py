"""A machine of KubeVirt: its objects, and what is seen of it: whether it comes up, why not, whether it is another."""
