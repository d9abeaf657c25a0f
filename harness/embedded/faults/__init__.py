"""Fault injection: what a real KubeVirt or CDI shows when it, its node or its storage fails.

Nothing in here happens unless an object asks for it by an annotation, or the instance's scenario file names the object.
The controllers ask at the points where the real thing would fail; what the API then shows is written by the same code
as always, so that it has the same shape.
"""

from harness.embedded.faults.catalogue import CATALOGUE, PREFIX, Fault, Faults

__all__ = ["CATALOGUE", "PREFIX", "Fault", "Faults"]
