"""Puts together what takes virtual clusters from hub and host."""

from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.work.removal import Removal


def removal_of(parts: Parts) -> Removal:
    """Return what takes virtual clusters away."""
    common, stores, works = parts.common, parts.common.stores, parts.works
    return Removal(
        common.clients.hub,
        common.clients.host,
        stores.clusters,
        works.watches.works,
        stores.claims,
        works.namespace_writer,
        works.finalizer,
        common.state,
    )
