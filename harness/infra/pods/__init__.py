"""The machine that runs an embedded infra cluster's own pods: real kubelet, containerd and kube-proxy, on its KubeVirt.

It is a virtual machine like any other of the cluster, so that what sweeps those sweeps it, in a network that reaches
the API as well. Nothing here imitates a kubelet: this host's own Node runs machines and nothing else.
"""
