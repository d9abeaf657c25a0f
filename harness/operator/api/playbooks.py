"""Which playbooks the executors of a declared cluster run."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from harness.kube.kinds.models import ApiModel
from harness.operator.api.base import ObjectName

ImageName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@\[\]-]*$", max_length=512)]


class ProductSource(ApiModel):
    """Where the product file of playbooks is."""

    config_map: ObjectName = Field(description="ConfigMap in the same namespace, with the key product.yml.")


class ExecutorPlaybooks(ApiModel):
    """Which playbooks the executor runs."""

    image: ImageName | None = Field(
        default=None, description="Image with the playbooks; default: the one that the manager was given."
    )
    product: ProductSource | None = Field(
        default=None, description="Product file of playbooks of your own, which the image has; default: vmatrix's own."
    )
