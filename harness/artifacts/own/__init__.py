"""vmatrix itself as an image, made without a container engine: Debian, then locked wheels, then our own files."""
