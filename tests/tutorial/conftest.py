"""The tutorial is read by somebody who has vmatrix from its wheel."""

from tests.package.conftest import built, installed

__all__ = ["built", "installed"]
