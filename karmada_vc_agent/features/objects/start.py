"""VirtualCluster objects before they are watched: at the start, and for `join`."""

import logging

from karmada_vc_agent.access.policy_owner import group_labels
from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.cluster.live_settings import LiveSettings
from karmada_vc_agent.cluster.virtual_cluster_sources import (
    VirtualClusterSource,
    VirtualClusterSources,
)
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.objects.reading import Definition, definitions_on
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.runner.feature import Described

_log = logging.getLogger(__name__)


class ObjectsStart:
    """The source of what objects describe, filled before they are watched.

    preserved: those whose removal an earlier process may have begun, while the objects of their
    Works stay.
    """

    reads = "list VirtualCluster objects on the host"

    def __init__(self, source: VirtualClusterSource) -> None:
        self.source = source
        self.preserved: frozenset[str] = frozenset()

    async def read(self, host: ApiClient, live: LiveSettings, state: AgentState) -> None:
        """Fill the source with what was in use when the last process ended. Raises KubeError.

        So that nothing counts as deleted before it is watched, and a removal continues as it began.
        """
        definitions = await definitions_on(host, live.config)
        if definitions is None:
            _log.warning(
                "Waiting for the CRD of VirtualCluster objects; apply manifests/base/crd.yaml"
            )
        used = [each for each in definitions or () if _was_in_use(each, state)]
        self.source.replace_all([vc for each in used if (vc := each.virtual_cluster) is not None])
        self.preserved = frozenset(
            each.name for each in used if each.is_deleting and each.is_preserved
        )


def _was_in_use(definition: Definition, state: AgentState) -> bool:
    """Return whether it was served; the phase of a new one may not be written yet."""
    phase = definition.status.get("phase")
    was_served = phase != "Refused" if phase else state.cluster(definition.name) is not None
    return was_served and definition.virtual_cluster is not None


def start(sources: VirtualClusterSources, config: AgentConfig) -> ObjectsStart | None:
    """Add the source of what objects describe, None where they are off."""
    return ObjectsStart(sources.add("another object")) if config.objects.enabled else None


async def describe(host: ApiClient, config: AgentConfig) -> Described:
    """Return what objects describe now. Raises KubeError."""
    if not config.objects.enabled:
        return Described()
    definitions = await definitions_on(host, config) or ()
    vcs = tuple(vc for each in definitions if (vc := each.virtual_cluster) is not None)
    return Described(frozenset(key for vc in vcs for key in group_labels(vc)), vcs, vcs)
