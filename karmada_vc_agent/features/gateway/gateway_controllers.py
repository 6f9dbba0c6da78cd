"""Controllers: the access to Clusters, and the roles bound inside them.

Those roles list namespaced resources of the host by name, so they are written again when the host
starts or stops serving one, or changes its own roles (rewriting-rules 5.2).
"""

import logging
from collections.abc import Callable, Container, Iterator
from functools import partial

from karmada_vc_agent.access.hub_objects import HubAccess
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH, version_of
from karmada_vc_agent.features.gateway.cluster_access import (
    ClusterAccess,
    changes,
    is_marked,
    withdrawal,
)
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import ControllerSpec, Enqueues, Requeue, RetryError, same
from karmada_vc_agent.kube.discovery import Discovery
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.kube.tasks import LogOnce
from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.domain import CLUSTER_LABEL, DOMAIN
from karmada_vc_agent.model.kinds import BUILT_INS, NAMESPACE_ADMIN, RBAC_API
from karmada_vc_agent.model.objects import Object, dig, gvk_of, labels_of, maps_at
from karmada_vc_agent.model.virtual_cluster import STRICT, VirtualCluster
from karmada_vc_agent.runner.common import FEW_WORKERS, Common
from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.translation.kind_policy import RefusedError
from karmada_vc_agent.translation.rbac_rules import admin_rules, cut

_log = logging.getLogger(__name__)

ACCESS_PERIOD = Requeue(300.0)
"""How often Secrets, certificates and the endpoint are looked at."""
ACCESS_SOON = Requeue(5.0)
"""Until the gateway answers, or Karmada has sent whom it lets impersonate."""
_REQUESTED_ANNOTATION = f"{DOMAIN}/asked-at"


def keys_of_cluster(
    virtual_clusters: Container[str], old: Object | None, new: Object | None
) -> Iterator[str]:
    """Yield the virtual cluster of a changed Cluster, if it is served."""
    name = ((new or old) or {"metadata": {"name": ""}})["metadata"]["name"]
    if name in virtual_clusters:
        yield name


def keys_of_role(
    virtual_clusters: Container[str], old: Object | None, new: Object | None
) -> Iterator[str]:
    """Yield the virtual cluster of a changed ClusterRole: it may say who is to be impersonated."""
    obj = new or old or {}
    cluster = labels_of(obj).get(CLUSTER_LABEL, "")
    if cluster in virtual_clusters and gvk_of(obj).group_kind == kinds.CLUSTER_ROLE:
        yield cluster


class ClusterAccessController:
    """Sole writer of the fields of a Cluster by which the hub reaches it.

    on_probed: takes a virtual cluster, and whether its endpoint answered.
    """

    def __init__(
        self, common: Common, access: ClusterAccess, on_probed: Callable[[str, bool], None]
    ) -> None:
        self._common = common
        self._hub = common.clients.hub
        self._clusters = common.stores.clusters
        self._access = access
        self._on_probed = on_probed
        self._once = LogOnce(_log)

    async def reconcile(self, name: str) -> Requeue | None:
        """Publish or withdraw the access to one virtual cluster. Raises RetryError, KubeError."""
        vc = self._common.virtual_clusters.get(name)
        if vc is None:
            return None
        cluster = self._clusters.ours(name)
        if cluster is None:
            if self._access.is_on and self._common.registrations.stays_away(name):
                await self._access.take_away(vc)
            return None  # registration prepares it
        if not self._access.is_on:
            await self._withdraw(vc, cluster)
            return None
        if cluster["metadata"].get("deletionTimestamp"):
            await self._access.take_away(vc)
            return None
        return await self._publish(vc, cluster)

    async def _publish(self, vc: VirtualCluster, cluster: Object) -> Requeue:
        try:
            endpoint = await self._access.prepare(vc)
        except RefusedError as error:
            raise RetryError(error.refusal.detail) from error
        cluster = await self._patch(cluster, changes(cluster, self._access.first_fields(vc.name)))
        problem = await self._access.ask(endpoint)
        self._on_probed(vc.name, problem is None)
        if problem is None:
            self._once.ended(vc.name)
        else:
            message = "The gateway does not answer"
            self._once.warning(message, about=vc.name, virtual_cluster=vc.name, reason=problem)
        is_published = bool(dig(cluster, "spec", "apiEndpoint"))
        if problem is None or is_published:
            # What was published stays: a tunnel that is cut is no reason to change the Cluster.
            await self._patch(cluster, changes(cluster, self._access.all_fields(vc.name)))
        if not self._access.has_rules_of_karmada(vc):
            await self._ask_for_rules()
            return ACCESS_SOON
        return ACCESS_PERIOD if problem is None else ACCESS_SOON

    async def _withdraw(self, vc: VirtualCluster, cluster: Object) -> None:
        if not is_marked(cluster):
            return
        _log.info("Withdrawing access", extra={"virtual_cluster": vc.name})
        spec_only = {"spec": withdrawal(cluster)["spec"]}
        cluster = await self._patch(cluster, spec_only)
        await self._access.take_away(vc)
        await self._patch(cluster, {"metadata": withdrawal(cluster)["metadata"]})

    async def _patch(self, cluster: Object, patch: Object) -> Object:
        """Write to a Cluster; return it as it is then."""
        if not patch.get("spec") and not patch.get("metadata"):
            return cluster
        name, version = cluster["metadata"]["name"], version_of(cluster)
        body = {**patch, "metadata": {**patch.get("metadata", {}), "resourceVersion": version}}
        answer = await self._hub.merge_patch(f"{CLUSTERS_PATH}/{name}", body)
        self._clusters.store.observe(answer)
        return answer

    async def _ask_for_rules(self) -> None:
        """Have Karmada send its rules: for existing Clusters it does so when the role changes."""
        role = HubAccess(self._common.config.agent_name, ()).auth_role
        path = f"/apis/{RBAC_API}/clusterroles/{role}"
        patch = {"metadata": {"annotations": {_REQUESTED_ANNOTATION: self._common.clock.now()}}}
        try:
            await self._hub.merge_patch(path, patch)
        except NotFoundError as error:
            problem = f"ClusterRole {role} is missing on the hub"
            raise RetryError(f"{problem}: run karmada-vc-agent join") from error


def setup_cluster_access(parts: Parts) -> ControllerSpec[str]:
    """Declare the controller; off, it takes back what it published before."""
    common, vcs = parts.common, parts.common.virtual_clusters
    access = common.part(ClusterAccess)
    controller = ClusterAccessController(common, access, parts.collector.endpoint_probed)
    is_on = access.is_on
    sources = [Enqueues(common.stores.clusters.store.add_handler, partial(keys_of_cluster, vcs))]
    if is_on and (roles := access.roles()) is not None:
        # The store itself: signals leave out what the agent wrote, as it does these roles.
        sources.append(Enqueues(roles.add_handler, partial(keys_of_role, vcs), after_s=0.2))
    return ControllerSpec(
        "cluster-access",
        common.queues.by_name(),
        controller.reconcile,
        FEW_WORKERS,
        initial_keys=parts.names,
        sources=tuple(sources) if is_on else (),
        resync_keys=same,
    )


_PATH = f"/apis/{RBAC_API}/clusterroles"
_MANAGED_BY = {"app.kubernetes.io/managed-by": "karmada-vc-agent"}
ROLES_PERIOD = Requeue(60.0)
"""How often it is compared with what the host serves; discovery uses an ETag."""
DISCOVERY_MAX_AGE_S = 30.0


class AdminRoleController:
    """Writes these ClusterRoles on the host; all agents of a host write the same.

    is_strict: the profile is Strict. It wins: an agent in Shared keeps what one in Strict wrote.
    """

    def __init__(self, host: ApiClient, discovery: Discovery, *, is_strict: bool = False) -> None:
        self._is_strict = is_strict
        self._host = host
        self._discovery = discovery

    async def reconcile(self, name: str) -> Requeue:
        """Align a ClusterRole with what the host serves and grants now. Raises KubeError."""
        served = await self._discovery.refresh(DISCOVERY_MAX_AGE_S)
        of_the_host = maps_at(await self._get(BUILT_INS[name]) or {}, "rules")
        strict, shared = (
            list(most if name == NAMESPACE_ADMIN else cut(of_the_host, most))
            for is_strict in (True, False)
            for most in (admin_rules(served.namespaced, is_strict=is_strict),)
        )
        rules = strict if self._is_strict else shared
        live = await self._get(name)
        if live is None:
            _log.info("Creating ClusterRole", extra={"cluster_role": name})
            await self._host.create(_PATH, _role(name, rules))
        elif not labels_of(live).items() >= _MANAGED_BY.items():
            _log.warning(
                "Not writing a ClusterRole of another owner; bindings of Works grant what it "
                "grants. Delete it to let the agent create its own",
                extra={"cluster_role": name},
            )
        elif live.get("rules") not in (rules, strict) and served.is_complete:
            _log.info("Updating ClusterRole", extra={"cluster_role": name})
            await self._host.replace(f"{_PATH}/{name}", {**live, "rules": rules})
        return ROLES_PERIOD

    async def _get(self, name: str) -> Object | None:
        try:
            return await self._host.get(f"{_PATH}/{name}")
        except NotFoundError:
            return None


def _role(name: str, rules: list[Object]) -> Object:
    return {
        "apiVersion": RBAC_API,
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": dict(_MANAGED_BY)},
        "rules": rules,
    }


def setup_admin_role(parts: Parts) -> ControllerSpec[str]:
    """Declare the controller; its keys are names of ClusterRoles."""
    common = parts.common
    is_strict = common.config.tenancy == STRICT
    controller = AdminRoleController(
        common.clients.host, common.discoveries.host, is_strict=is_strict
    )
    return ControllerSpec(
        "admin-role",
        common.queues.by_name(),
        controller.reconcile,
        by_cluster=False,
        initial_keys=lambda: tuple(BUILT_INS),
        sources=(Enqueues(common.signals.admin_rules.subscribe, lambda: tuple(BUILT_INS)),),
        resync_keys=lambda _: tuple(BUILT_INS),
    )
