"""The embedded infrastructure: a real control plane as processes of this host."""
