"""Renews the agent's certificate for the hub."""

from typing import Annotated, Any

from karmada_vc_agent.config.settings import Fields
from karmada_vc_agent.kube.controller import ControllerSpec
from karmada_vc_agent.model.quantity import Duration
from karmada_vc_agent.model.virtual_cluster import CERT_ROTATION, Range
from karmada_vc_agent.runner.parts import Feature, Parts


class CertificateFields(Fields, frozen=True):
    """What the settings have of it."""

    cert_rotation_checking_interval: Annotated[Duration, Range(is_open=True)] = Duration(300)
    """How often certRotation checks whether the hub credential must be renewed."""
    cert_rotation_remaining_time_threshold: Annotated[
        float, Range(below=1, is_open=True, unit="fraction")
    ] = 0.2
    """Fraction of the hub credential's lifetime; certRotation renews it when less remains."""


def _setup(parts: Parts) -> ControllerSpec[Any] | None:
    if CERT_ROTATION not in parts.common.switches:
        return None
    from karmada_vc_agent.features.certificate import controller  # noqa: PLC0415 - few need it

    own = parts.common.config.of(CertificateFields)
    return controller.setup(
        parts, own.cert_rotation_checking_interval, own.cert_rotation_remaining_time_threshold
    )


FEATURE = Feature(
    "certificate",
    settings=CertificateFields,
    controllers=(_setup,),
    hub_roles={CERT_ROTATION: "features/certificate/hub-roles.yaml"},
)
