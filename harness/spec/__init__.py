"""matrix/*.yml and vmatrix.yml as frozen models; every mistake reported at once, by file, line and field."""

from harness.spec.loader import load_spec
from harness.spec.models import Spec

__all__ = ["Spec", "load_spec"]
