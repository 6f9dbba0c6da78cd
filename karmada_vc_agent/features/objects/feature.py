"""VirtualCluster objects of the host."""

from typing import Any

from karmada_vc_agent.kube.controller import ControllerSpec
from karmada_vc_agent.runner.feature import Feature
from karmada_vc_agent.runner.parts import Parts


def _setup(parts: Parts) -> ControllerSpec[Any] | None:
    if parts.common.objects is None:
        return None
    # kopf costs 20 MB of memory.
    from karmada_vc_agent.features.objects.setup import setup  # noqa: PLC0415

    return setup(parts, parts.common.objects)


FEATURE = Feature("objects", controllers=(_setup,))
