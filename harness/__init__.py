"""vmatrix: real Kubernetes clusters for every combination of your deployment code that matters."""

__version__ = "0.1.0.dev0"
