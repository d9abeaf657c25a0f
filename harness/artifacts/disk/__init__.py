"""Disk images: the catalogue, building them from recipes, downloading published ones, the cache of both."""

from __future__ import annotations

from harness.artifacts.disk.cache import CachedImage, ImageCache, prune
from harness.artifacts.disk.catalogue import ImageCatalogue, load

__all__ = ["CachedImage", "ImageCache", "ImageCatalogue", "load", "prune"]
