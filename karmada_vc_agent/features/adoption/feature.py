"""Adopts workloads that run, without restarting their pods (ADR 35)."""

from karmada_vc_agent.features.adoption.adoptions import Adoptions
from karmada_vc_agent.features.adoption.conditions import CONDITIONS
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.feature import Feature


def _prepare(common: Common) -> None:
    def owns_node(cluster: str, node: str) -> bool:
        return common.stores.membership.owner_of(node) == cluster

    common.hooks.placement_keeper = lambda kept: Adoptions(common.clients.host, kept, owns_node)


FEATURE = Feature("adoption", prepare=_prepare, conditions=CONDITIONS)
