"""Names of Services that resolve to those of the own virtual cluster (ADR 15).

One ConfigMap, made from the claims of the virtual clusters whose settings enable it.
"""

import logging
from collections import defaultdict
from collections.abc import Container, Iterator
from functools import partial

from karmada_vc_agent.cluster.virtual_clusters import claims_in
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.controller import ControllerSpec, Enqueues, Requeue
from karmada_vc_agent.kube.errors import ForbiddenError, NotFoundError
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import (
    SERVICE_NAMES_NONE,
    HostNamespace,
    VirtualNamespace,
)
from karmada_vc_agent.model.vocabulary import AGENT_LABEL
from karmada_vc_agent.runner.parts import Feature, Parts
from karmada_vc_agent.translation.placement import rewrite_rules

_log = logging.getLogger(__name__)

SERVICE_NAMES = "rules"
"""The only key: there is one set of rules for CoreDNS."""
SETTLES_S = 0.2
RULES_KEY = "virtual-clusters.override"
"""Files of this ending are imported into the server block by the CoreDNS of k3s and AKS."""
_CHECK = Requeue(60.0)


def keys_of_namespace(
    virtual_clusters: Container[str], old: Object | None, new: Object | None
) -> Iterator[str]:
    """Yield the one key where a namespace of a virtual cluster changed."""
    if any(claim.cluster in virtual_clusters for claim in claims_in(old, new)):
        yield SERVICE_NAMES


class ServiceNamesController:
    """Keeps the ConfigMap `<agentName>-service-names` in the namespace of CoreDNS; sole writer."""

    def __init__(self, parts: Parts) -> None:
        common, config = parts.common, parts.common.config
        self._host, self._claims = common.clients.host, common.stores.claims
        self._virtual_clusters, self._has_written = common.virtual_clusters.everywhere, False
        self._config, self._name = config, f"{config.agent_name}-service-names"

    async def reconcile(self, _: str) -> Requeue | None:
        """Make the rules fit the claims; do nothing where no virtual cluster enables them."""
        vcs = self._virtual_clusters
        enabled = [name for name, vc in vcs.items() if vc.service_names != SERVICE_NAMES_NONE]
        if not enabled and not self._has_written:
            return None
        # Pods of a virtual cluster that is served no more still resolve what they did.
        left = (name for name in self._claims.clusters() if name not in vcs)
        claims: defaultdict[str, dict[VirtualNamespace, HostNamespace]] = defaultdict(dict)
        for name in (*left, *enabled):
            claims[vcs[name].name_on_host if name in vcs else name] |= self._claims.of(name)
        data = {RULES_KEY: rewrite_rules(self._config.cluster_domain, claims)}
        namespace = self._config.dns_namespace
        collection = f"/api/v1/namespaces/{namespace}/configmaps"
        path = f"{collection}/{self._name}"
        try:
            live = await self._host.get(path)
        except ForbiddenError:
            if enabled:
                raise
            return None  # `join` has taken back the right, which is not needed any more
        except NotFoundError:
            extra = {"namespace": namespace, "object": self._name}
            _log.info("Writing rewrite rules for CoreDNS", extra=extra)
            labels = {AGENT_LABEL: self._config.agent_name}
            metadata = {"name": self._name, "namespace": namespace, "labels": labels}
            made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            await self._host.create(collection, made)
            self._has_written = True
            return _CHECK
        if live.get("data") != data:
            await self._host.replace(path, {**live, "data": data})
        self._has_written = bool(enabled)
        return _CHECK if enabled else None


def setup(parts: Parts) -> ControllerSpec[str] | None:
    """Declare the controller, of one process of the agent; it has one key."""
    common, vcs = parts.common, parts.common.virtual_clusters
    if not vcs.serves(SERVICE_NAMES):
        return None
    changed = partial(keys_of_namespace, vcs.everywhere)
    return ControllerSpec(
        "service-names",
        common.queues.by_name(),
        ServiceNamesController(parts).reconcile,
        by_cluster=False,
        initial_keys=lambda: (SERVICE_NAMES,),
        sources=(Enqueues(common.stores.namespaces.add_handler, changed, SETTLES_S),),
        resync_keys=lambda _: (SERVICE_NAMES,),
    )


def _host_roles(config: AgentConfig) -> tuple[str, ...]:
    is_used = any(vc.service_names != SERVICE_NAMES_NONE for vc in config.virtual_clusters)
    return ("features/service_names/roles.yaml",) if is_used else ()


FEATURE = Feature("service_names", controllers=(setup,), host_roles=_host_roles)
