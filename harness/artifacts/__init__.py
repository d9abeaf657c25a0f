"""Artifacts: programs, container images, disk images and node images; how they are obtained, cached and served."""
