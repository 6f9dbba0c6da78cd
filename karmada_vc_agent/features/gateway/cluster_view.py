"""The View of one virtual cluster for one request (mapping/exchange.py)."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from karmada_vc_agent.features.gateway.host_state import HostState
from karmada_vc_agent.features.gateway.mapping.continue_tokens import Sealer
from karmada_vc_agent.features.gateway.mapping.exchange import KindInfo, Unknown, View
from karmada_vc_agent.kube.discovery import ServedApis
from karmada_vc_agent.model.claimed_namespaces import ClaimedNamespaces
from karmada_vc_agent.model.generated_names import random_suffix
from karmada_vc_agent.model.objects import Object, parse_api_version
from karmada_vc_agent.model.virtual_cluster import VirtualCluster, VirtualNamespace
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.names import ANCHOR_NAMESPACE, host_namespace


class ServedResources:
    """What the host serves, by group; made again when the host serves others.

    Used by the loop and by threads: what they see is whole.
    """

    def __init__(self) -> None:
        self._cached: tuple[ServedApis | None, dict[str, dict[tuple[str, str], KindInfo]]]
        self._cached = None, {}

    def of_group(self, served: ServedApis, group: str) -> dict[tuple[str, str], KindInfo]:
        """Return (version, plural) -> kind."""
        last, by_group = self._cached
        if last is not served:
            by_group = {}
            for info in _kinds(served):
                by_group.setdefault(info.group, {})[info.version, info.plural] = info
            self._cached = served, by_group
        return by_group.get(group, {})


def _kinds(served: ServedApis) -> Iterator[KindInfo]:
    for listed in served.lists:
        group, version, _ = parse_api_version(listed["groupVersion"], "")
        for entry in listed["resources"]:
            plural = entry["name"]
            yield KindInfo(
                group,
                version,
                plural,
                entry["kind"],
                bool(entry["namespaced"]),
                frozenset(entry.get("verbs") or ()),
                served.subresources.get((group, version, plural), frozenset()),
            )


class ClusterView(View):
    """The View (mapping/exchange.py) of one request, over caches.

    missed_kind: whether it named a kind that the host did not serve. absent: host namespaces
    that were read for the value at hand and do not exist. has_past: whether what was in a namespace
    counts that is deleted, as for the last events of its objects.
    """

    def __init__(
        self,
        state: HostState,
        resources: ServedResources,
        sealer: Sealer,
        vc: VirtualCluster,
        *,
        host_is_alive: bool,
    ) -> None:
        self._state = state
        self._resources = resources
        self._sealer = sealer
        self._vc = vc
        self._host_is_alive = host_is_alive
        self._context: tuple[object, TranslationContext] | None = None
        self._pinned: TranslationContext | None = None
        self.missed_kind = False
        self.absent: set[str] = set()
        self.has_past = False

    @property
    def name(self) -> str:
        return self._vc.name

    @property
    def anchor(self) -> str:
        claimed = self._state.claims.of(self.name).get(ANCHOR_NAMESPACE)
        template = self._state.settings.namespace_template
        return claimed or host_namespace(template, ANCHOR_NAMESPACE, self._vc.name_on_host)

    def host_namespace(self, virtual: str) -> str | None:
        if virtual == ANCHOR_NAMESPACE:
            return None
        return self._state.claims.of(self.name).get(VirtualNamespace(virtual))

    def claims(self) -> ClaimedNamespaces:
        """Return the claims, but that on the anchor."""
        claims = ClaimedNamespaces(self._state.claims.of(self.name))
        claims.pop(ANCHOR_NAMESPACE, None)
        return claims

    def virtual_namespace(self, host: str) -> str | Unknown | None:
        claim = self._state.claims.holder_of(host)
        if claim is None and self._state.namespaces.get("", host) is None:
            claim = self._state.released(host) if self.has_past else None
            if claim is None and host not in self.absent:
                return Unknown(frozenset({host}))
        if claim is None or claim.cluster != self.name or claim.namespace == ANCHOR_NAMESPACE:
            return None
        return claim.namespace

    def is_foreign(self, host: str) -> bool:
        if self._state.namespaces.get("", host) is None:
            return False
        claim = self._state.claims.holder_of(host)
        return claim is None or claim.cluster != self.name

    def is_others(self, host: str) -> bool:
        claim = self._state.claims.on(host)
        return claim is not None and claim.cluster != self.name

    def namespace_object(self, host: str) -> Object | None:
        return self._state.namespaces.get("", host)

    def resource(self, group: str, version: str, plural: str) -> KindInfo | None:
        served = self._resources.of_group(self._state.discovery.served, group)
        info = served.get((version, plural))
        self.missed_kind = self.missed_kind or info is None
        return info

    def resources(self, group: str) -> Iterable[KindInfo]:
        served = self._resources.of_group(self._state.discovery.served, group)
        self.missed_kind = self.missed_kind or not served
        return served.values()

    def node_selector(self) -> str:
        return ",".join(f"{key}={value}" for key, value in self._vc.required_selector.items())

    def has_node(self, labels: dict[str, str]) -> bool:
        return self._vc.required_selector.items() <= labels.items()

    def owns_node(self, name: str) -> bool:
        return self._state.membership.owner_of(name) == self.name

    def context(self) -> TranslationContext:
        if self._pinned is not None:
            return self._pinned
        now = (self._state.version, id(self._state.discovery.served))
        if self._context is None or self._context[0] != now:
            context = self._state.contexts.context_for(self._vc, "")
            self._context = now, replace(context, claims=self.claims())
        return self._context[1]

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Keep these facts for a while: a thread must not put them together."""
        self._pinned = self.context()
        try:
            yield
        finally:
            self._pinned = None

    def suffix(self) -> str:
        return random_suffix()

    def sealer(self) -> Sealer:
        return self._sealer

    def host_is_alive(self) -> bool:
        return self._host_is_alive
