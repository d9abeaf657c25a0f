"""Node images for kind from our own artifacts, for engines that reach no registry; see docs/decisions/kind.md."""
