"""Several processes of one agent that share its virtual clusters, each by their names.

A shard serves those whose names hash to it, with a leader and standbys of its own. All see the
virtual clusters, nodes and Clusters of all, so that who has a node or a name is the same for each.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from karmada_vc_agent.cluster.hub_clusters import AgentState
from karmada_vc_agent.cluster.virtual_clusters import Claims, VirtualClusters
from karmada_vc_agent.config.settings import AgentConfig, Fields
from karmada_vc_agent.features.shards import division
from karmada_vc_agent.features.shards.election import ShardElection, term_of
from karmada_vc_agent.features.shards.record import ShardState
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import ControllerSpec, Requeue
from karmada_vc_agent.kube.errors import ForbiddenError, KubeError, NotFoundError
from karmada_vc_agent.model.virtual_cluster import SHARED
from karmada_vc_agent.model.vocabulary import cluster_of_execution_namespace
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.parts import Feature, Parts, Say, Serving

_log = logging.getLogger(__name__)

END_CHANGE_S = 10.0
"""How often it is checked whether processes of the count before are left, or others serve."""
RECORD_S = 60.0
"""How often it is checked whether the agent's record was made again."""


class ShardFields(Fields, frozen=True):
    """What the settings have of it."""

    shard: str = ""
    """Which part of the virtual clusters this process serves: I/N, part I of N, counted from 0, or
    auto/N, the first part that no process serves ([scale](scale.md)). Empty = all of them."""

    def problem(self, config: AgentConfig) -> tuple[str, str] | None:
        """Return what is wrong, also of settings that need all virtual clusters in one process."""
        try:
            _, count = division.parse(self.shard)
        except ValueError as error:
            return "shard", str(error)
        if count == 1:
            return None
        checkpoint, labels = (getattr(config, name, None) for name in ("checkpoint", "discover"))
        for needs, is_met in (
            ("leaderElect", config.leader_elect),
            ("checkpoint.enabled: false", checkpoint is None or not checkpoint.enabled),
            ("tenancy: Shared", config.tenancy == SHARED),
            ("refuseSharedHosts: false", not config.refuse_shared_hosts),
            ("no discover.nodeLabel", labels is None or not labels.is_used),
        ):
            if not is_met:
                return "shard", f'"{self.shard}" needs {needs} (docs/scale.md)'
        return None


class OfAnotherShardError(ForbiddenError):
    """A write to what another process of the agent serves; nothing was sent."""

    is_intended = True

    def __init__(self, cluster: str) -> None:
        super().__init__(403, "OfAnotherShard", f"another shard serves virtual cluster {cluster}")


def serving(config: AgentConfig) -> Serving:
    """Return the registry of the shard, its election and its record."""
    shards = division.ShardClusters(*division.parse(config.of(ShardFields).shard))
    record: Callable[..., AgentState] = AgentState
    if shards.count > 1:
        record = partial(ShardState, serves=shards.serves)
    return shards, partial(ShardElection, shards=shards), record


def confined(vcs: VirtualClusters, spec: ControllerSpec[Any]) -> ControllerSpec[Any]:
    """Return a controller that does nothing for virtual clusters of other shards."""

    async def reconcile(key: Any) -> Requeue | None:
        cluster = spec.queue.group_of(key)
        return await spec.reconcile(key) if not cluster or vcs.serves(str(cluster)) else None

    is_confined = spec.by_cluster and not spec.of_all
    return replace(spec, reconcile=reconcile) if is_confined else spec


_NAMESPACE = re.compile(r"/namespaces/([^/?]+)")
_CLUSTER = re.compile(r"/(?:clusters|namespaces/karmada-cluster/leases)/([^/?]+)")


def refusal_on_host(
    vcs: VirtualClusters,
    claims: Claims,
    others: Callable[[str], ForbiddenError | None],
    path: str,
) -> ForbiddenError | None:
    """Return the error of a write to a namespace that another shard serves, else of `others`."""
    match = _NAMESPACE.search(path)
    return _refusal(vcs, claims.cluster_on(match[1]) if match else "") or others(path)


def refusal_on_hub(vcs: VirtualClusters, path: str) -> ForbiddenError | None:
    """Return the error of a write to Cluster, Lease or Works that another shard serves."""
    cluster, place = _CLUSTER.search(path), _NAMESPACE.search(path)
    named = cluster[1] if cluster else ""
    return _refusal(vcs, named or cluster_of_execution_namespace(place[1] if place else "") or "")


def _refusal(vcs: VirtualClusters, cluster: str) -> ForbiddenError | None:
    # One that is defined no more is left to the shard that takes its namespaces over.
    is_anothers = cluster in vcs.everywhere and not vcs.serves(cluster)
    return OfAnotherShardError(cluster) if is_anothers else None


def _prepare(common: Common) -> None:
    vcs, claims = common.virtual_clusters, common.stores.claims
    if vcs.everywhere is vcs:
        return
    common.hooks.confined = partial(confined, vcs)
    for client in common.clients.of_host():
        client.refusal = partial(refusal_on_host, vcs, claims, client.refusal)
    for client in common.clients.of_hub():
        client.refusal = partial(refusal_on_hub, vcs)


def _connect(parts: Parts) -> None:
    state, election = parts.common.state, parts.common.fence.election
    if isinstance(state, ShardState):
        parts.keeps["record of the shard"] = partial(_keep_record, state)
    if isinstance(election, ShardElection):
        runs = parts.ends if election.shards.count == 1 else parts.runs
        runs["change of shards"] = partial(_end_change, election)


async def _keep_record(state: ShardState) -> None:
    while True:
        await asyncio.sleep(RECORD_S)
        with suppress(KubeError):
            await state.restore()


async def _end_change(election: ShardElection) -> None:
    has_ended = False
    while not has_ended:
        with suppress(KubeError):
            has_ended = await election.end_change()
        await asyncio.sleep(0 if has_ended else END_CHANGE_S)


async def _leases_of(host: ApiClient, namespace: str, agent: str, cluster: str) -> list[str]:
    """Return the Leases of the shards, or of that of a virtual cluster. Raises KubeError."""
    count = term_of(await host.find(_lease_path(namespace, agent))).count
    indexes = [division.shard_of(cluster, count)] if cluster else range(count)
    return [division.lease_name(agent, index, count) for index in indexes]


async def _purge(host: ApiClient, namespace: str, agent: str, say: Say) -> None:
    leases = (await host.get(_lease_path(namespace, "")[:-1])).get("items") or ()
    for name in sorted(
        {each["metadata"]["name"] for each in leases} & {*division.lease_names(agent)}
    ):
        with suppress(NotFoundError):
            await host.delete(_lease_path(namespace, name))
            say(f"host: deleted lease {namespace}/{name}")


def _lease_path(namespace: str, name: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"


FEATURE = Feature(
    "shards",
    settings=ShardFields,
    serving=serving,
    leases=_leases_of,
    prepare=_prepare,
    connect=_connect,
    host_roles=lambda _: ("features/shards/roles.yaml",),
    purge=_purge,
)
