"""Decides which virtual clusters of the settings are registered, and which stay away."""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.cluster.hub_clusters import HubClusters, digest
from karmada_vc_agent.model.bounds import Bounds
from karmada_vc_agent.model.durations import Duration
from karmada_vc_agent.model.quantity import Size
from karmada_vc_agent.model.virtual_cluster import ApplyAs, DefaultPodSecurity, VirtualCluster

_FIRST_BYTES = 64 * 2**20
"""Default of `bounds.bytes` in the first versions: the present one has the same digest."""
_OF_WORKS = frozenset(("paused", "window", "window_passes"))


def settings_digest(vc: VirtualCluster) -> str:
    """Return a text that changes when any setting of a virtual cluster does.

    Settings at their default do not count, so that a new one in a later version changes nothing,
    nor does a level of Pod Security that the profile requires.
    Nor do a pause and windows, which say nothing of the Cluster.
    """
    defaults = VirtualCluster(vc.name, bounds=Bounds(bytes=Size(_FIRST_BYTES)))
    if vc.bounds.bytes == Bounds().bytes:
        vc = replace(vc, bounds=replace(vc.bounds, bytes=defaults.bounds.bytes))
    given = {
        name: value
        for name in vc.__struct_fields__
        if name not in _OF_WORKS
        and (value := getattr(vc, name)) != getattr(defaults, name)
        and not isinstance(value, DefaultPodSecurity)
    }
    return digest(_plain({"name": vc.name, **given}))


def _plain(value: object) -> object:
    if isinstance(value, ApplyAs):
        return {**msgspec.structs.asdict(value), "is_default": value.is_default}
    if isinstance(value, msgspec.Struct):
        return _plain(msgspec.structs.asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, frozenset):
        return sorted(value)
    return float(value) if isinstance(value, Duration) else value


class Registrations:
    """The virtual clusters whose Cluster was deleted, or left, while the settings stay.

    reregister: names that are to be registered again all the same.
    """

    def __init__(
        self,
        state: AgentState,
        clusters: HubClusters,
        virtual_clusters: Mapping[str, VirtualCluster],
        reregister: Iterable[str] = (),
    ) -> None:
        self._state = state
        self._clusters = clusters
        self._virtual_clusters = virtual_clusters
        self._reregister = set(reregister)
        self._troubles: dict[str, str] = {}

    def stays_away(self, name: str) -> bool:
        """Return True for a virtual cluster of the settings that is not to be registered."""
        record = self._state.cluster(name)
        if record is None or name in self._reregister or self._clusters.ours(name) is not None:
            return False
        vc = self._virtual_clusters.get(name)
        is_same = vc is not None and record.settings == settings_digest(vc)
        return record.has_left or (record.was_deleted and is_same)

    def note(self, name: str, trouble: str | None) -> None:
        """Record why a virtual cluster is not registered as in its settings, None where it is."""
        if trouble is None:
            self._troubles.pop(name, None)
        else:
            self._troubles[name] = trouble

    def trouble(self, name: str) -> str | None:
        """Return why a virtual cluster is not registered as in its settings, or None."""
        return self._troubles.get(name)

    def is_there(self, name: str) -> None:
        """Record that a Cluster exists: --reregister does not apply to later deletions."""
        self._reregister.discard(name)
