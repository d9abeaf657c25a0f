"""Disk images: the catalogue, building them from recipes, downloading published ones, the cache of both."""

from __future__ import annotations

from harness.artifacts.disk.cache import CachedImage, ImageCache
from harness.artifacts.disk.catalogue import ImageCatalogue, load
from harness.artifacts.disk.prune import prune

__all__ = ["CachedImage", "ImageCache", "ImageCatalogue", "load", "prune"]
