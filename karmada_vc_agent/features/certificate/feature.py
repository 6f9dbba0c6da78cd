"""Renews the agent's certificate for the hub."""

from typing import Any

from karmada_vc_agent.kube.controller import ControllerSpec
from karmada_vc_agent.model.setting import CERT_ROTATION
from karmada_vc_agent.runner.parts import Feature, Parts


def _setup(parts: Parts) -> ControllerSpec[Any] | None:
    if CERT_ROTATION not in parts.common.switches:
        return None
    # Key generation costs 8 MB of memory, and few agents need it.
    from karmada_vc_agent.features.certificate import controller  # noqa: PLC0415

    return controller.setup(parts)


FEATURE = Feature(
    "certificate",
    controllers=(_setup,),
    hub_roles={CERT_ROTATION: "features/certificate/hub-roles.yaml"},
)
