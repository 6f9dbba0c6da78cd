"""Controllers: the access to Clusters, and the roles bound inside them.

Those roles list namespaced resources of the host by name, so they are written again when the host
starts or stops serving one, or changes its own roles (rewriting-rules 5.2).
"""

import logging
from collections.abc import Container, Iterator
from functools import partial

from karmada_vc_agent.features.gateway.cluster_access import (
    ClusterAccess,
)
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import ControllerSpec, Enqueues, Requeue, same
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.domain import CLUSTER_LABEL
from karmada_vc_agent.model.kinds import BUILT_INS, NAMESPACE_ADMIN, RBAC_API
from karmada_vc_agent.model.objects import Object, gvk_of, labels_of, maps_at
from karmada_vc_agent.model.virtual_cluster import STRICT
from karmada_vc_agent.runner.common import FEW_WORKERS, Common
from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.translation.rbac_rules import admin_rules, cut

_log = logging.getLogger(__name__)


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


def setup_cluster_access(parts: Parts) -> ControllerSpec[str]:
    """Declare the controller; off, it takes back what it published before."""
    common, vcs = parts.common, parts.common.virtual_clusters
    access = common.part(ClusterAccess)
    access.on_probed = parts.collector.endpoint_probed
    is_on = access.is_on
    sources = [Enqueues(common.stores.clusters.store.add_handler, partial(keys_of_cluster, vcs))]
    if is_on and (roles := access.roles()) is not None:
        # The store itself: signals leave out what the agent wrote, as it does these roles.
        sources.append(Enqueues(roles.add_handler, partial(keys_of_role, vcs), after_s=0.2))
    return ControllerSpec(
        "cluster-access",
        common.queues.by_name(),
        access.reconcile,
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


async def align_role(common: Common, name: str) -> Requeue:
    """Align a ClusterRole with what the host serves and grants now. Raises KubeError.

    All agents of a host write the same. Strict wins: an agent in Shared keeps what one in Strict
    wrote.
    """
    host = common.clients.host
    served = await common.discoveries.host.refresh(DISCOVERY_MAX_AGE_S)
    of_the_host = maps_at(await _role(host, BUILT_INS[name]) or {}, "rules")
    strict, shared = (
        list(most if name == NAMESPACE_ADMIN else cut(of_the_host, most))
        for is_strict in (True, False)
        for most in (admin_rules(served.namespaced, is_strict=is_strict),)
    )
    rules = strict if common.config.tenancy == STRICT else shared
    live = await _role(host, name)
    if live is None:
        _log.info("Creating ClusterRole", extra={"cluster_role": name})
        metadata = {"name": name, "labels": _MANAGED_BY}
        role = {"apiVersion": RBAC_API, "kind": "ClusterRole", "metadata": metadata, "rules": rules}
        await host.create(_PATH, role)
    elif not labels_of(live).items() >= _MANAGED_BY.items():
        _log.warning(
            "Not writing a ClusterRole of another owner; bindings of Works grant what it "
            "grants. Delete it to let the agent create its own",
            extra={"cluster_role": name},
        )
    elif live.get("rules") not in (rules, strict) and served.is_complete:
        _log.info("Updating ClusterRole", extra={"cluster_role": name})
        await host.replace(f"{_PATH}/{name}", {**live, "rules": rules})
    return ROLES_PERIOD


async def _role(host: ApiClient, name: str) -> Object | None:
    try:
        return await host.get(f"{_PATH}/{name}")
    except NotFoundError:
        return None


def setup_admin_role(parts: Parts) -> ControllerSpec[str]:
    """Declare the controller; its keys are names of ClusterRoles."""
    common = parts.common
    return ControllerSpec(
        "admin-role",
        common.queues.by_name(),
        partial(align_role, common),
        by_cluster=False,
        initial_keys=lambda: tuple(BUILT_INS),
        sources=(Enqueues(common.signals.admin_rules.subscribe, lambda: tuple(BUILT_INS)),),
        resync_keys=lambda _: tuple(BUILT_INS),
    )
