"""VirtualCluster objects of the host."""

from typing import Any

from karmada_vc_agent.access import templates
from karmada_vc_agent.features.objects.definitions import ObjectsStart, describe, purge, start
from karmada_vc_agent.kube.controller import ControllerSpec
from karmada_vc_agent.runner.parts import Feature, Parts


def _setup(parts: Parts) -> ControllerSpec[Any] | None:
    started = parts.common.find(ObjectsStart)
    if started is None:
        return None
    # kopf costs 20 MB of memory.
    from karmada_vc_agent.features.objects.operator import setup  # noqa: PLC0415

    return setup(parts, started)


FEATURE = Feature(
    "objects",
    controllers=(_setup,),
    start=start,
    describe=describe,
    purge=purge,
    # The CRD is as `hack/update-manifests` generates it from the settings.
    definitions=lambda config: (
        (templates.document("features/objects/crd.yaml", {}),) if config.objects.enabled else ()
    ),
    host_roles=lambda config: ("features/objects/roles.yaml",) if config.objects.enabled else (),
    # They read files with VirtualCluster objects.
    commands={name: f"karmada_vc_agent.diagnosis.{name}" for name in ("check", "plan")},
)
