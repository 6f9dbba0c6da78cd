"""VirtualCluster objects of the host."""

from typing import Any

from karmada_vc_agent.access import templates
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.objects.definitions import ObjectsStart, describe, start
from karmada_vc_agent.kube.controller import ControllerSpec
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.runner.parts import Feature, Parts


def _setup(parts: Parts) -> ControllerSpec[Any] | None:
    started = parts.common.find(ObjectsStart)
    if started is None:
        return None
    # kopf costs 20 MB of memory.
    from karmada_vc_agent.features.objects.operator import setup  # noqa: PLC0415

    return setup(parts, started)


def _definitions(config: AgentConfig) -> tuple[Object, ...]:
    """Return the CRD, as `hack/update-manifests` generates it from the settings."""
    is_on = config.objects.enabled
    return (templates.document("features/objects/crd.yaml", {}),) if is_on else ()


def _host_roles(config: AgentConfig) -> tuple[str, ...]:
    return ("features/objects/roles.yaml",) if config.objects.enabled else ()


FEATURE = Feature(
    "objects",
    controllers=(_setup,),
    start=start,
    describe=describe,
    definitions=_definitions,
    host_roles=_host_roles,
)
