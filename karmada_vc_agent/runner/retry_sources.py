"""Sources that retry backed-off keys of any controller: what a virtual cluster may wait for."""

from typing import Any

from karmada_vc_agent.kube.sources import Retries
from karmada_vc_agent.runner.keys import itself
from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.work.affected_works import released_clusters


def retries(parts: Parts) -> tuple[Retries[Any], ...]:
    """Return sources that bring forward what backs off: Ready, and namespaces that went."""
    return (
        Retries(parts.works.registered.became.subscribe, itself),
        Retries(parts.common.judgements.changed.subscribe, itself),
        Retries(parts.common.stores.namespaces.add_handler, released_clusters),
    )
