"""Admission policies of the host: whether they are installed and enforced."""

from karmada_vc_agent.features.policies import policy_status
from karmada_vc_agent.features.policies.policy_status import CONDITIONS, PlacementState
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.parts import Feature


def _prepare(common: Common) -> None:
    placement = PlacementState()
    common.provide(placement)
    common.hooks.writes_ready.append(placement.wait_settled)


FEATURE = Feature(
    "policies", prepare=_prepare, controllers=(policy_status.setup,), conditions=CONDITIONS
)
