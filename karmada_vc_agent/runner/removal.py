"""Puts together what takes virtual clusters from hub and host."""

from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.work.removal import Belongings, Removal


def removal_of(parts: Parts) -> Removal:
    """Return what takes virtual clusters away."""
    common, stores, works = parts.common, parts.common.stores, parts.works
    has = Belongings(
        clusters=stores.clusters,
        works=works.watches.works,
        claims=stores.claims,
        release=works.namespace_writer.release,
        preserve=works.finalizer.preserve,
        state=common.state,
    )
    return Removal(common.clients.hub, common.clients.host, has)
