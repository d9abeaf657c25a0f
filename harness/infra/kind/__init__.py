"""The provider `kind`: a cluster in a container of this host, with KubeVirt and CDI in it."""
