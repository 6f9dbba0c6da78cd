"""Maintains the ClusterRole that stands for `cluster-admin` inside virtual clusters.

It lists every namespaced resource of the host by name, so it is written again when the host starts
or stops serving one (rewriting-rules 5.2).
"""

import logging

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import ControllerSpec, Requeue
from karmada_vc_agent.kube.discovery import Discovery
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.kube.sources import Enqueues
from karmada_vc_agent.model.objects import Object, labels_of
from karmada_vc_agent.model.rbac_rule import NAMESPACE_ADMIN
from karmada_vc_agent.model.tenancy import STRICT
from karmada_vc_agent.model.well_known import RBAC_API
from karmada_vc_agent.parts.parts import Parts
from karmada_vc_agent.translation.rbac_rules import admin_rules

_log = logging.getLogger(__name__)

_PATH = f"/apis/{RBAC_API}/clusterroles"
_MANAGED_BY = {"app.kubernetes.io/managed-by": "karmada-vc-agent"}
ADMIN_ROLE = NAMESPACE_ADMIN
"""The only key, and the name of the ClusterRole."""
PERIOD = Requeue(60.0)
"""How often it is compared with what the host serves; discovery uses an ETag."""
DISCOVERY_MAX_AGE_S = 30.0


class AdminRoleController:
    """Writes one ClusterRole on the host; all agents of a host write the same.

    is_strict: the profile is Strict. It wins: an agent in Shared keeps what one in Strict wrote.
    """

    def __init__(self, host: ApiClient, discovery: Discovery, *, is_strict: bool = False) -> None:
        self._is_strict = is_strict
        self._host = host
        self._discovery = discovery

    async def reconcile(self, name: str) -> Requeue:
        """Align the ClusterRole with what the host serves now. Raises KubeError."""
        served = await self._discovery.refresh(DISCOVERY_MAX_AGE_S)
        strict = list(admin_rules(served.namespaced, is_strict=True))
        rules = strict if self._is_strict else list(admin_rules(served.namespaced))
        live = await self._get(name)
        if live is None:
            _log.info("Creating ClusterRole", extra={"cluster_role": name})
            await self._host.create(_PATH, _role(name, rules))
        elif not labels_of(live).items() >= _MANAGED_BY.items():
            _log.warning(
                "Not writing a ClusterRole of another owner; bindings to cluster-admin grant "
                "what it grants. Delete it to let the agent create its own",
                extra={"cluster_role": name},
            )
        elif live.get("rules") not in (rules, strict) and served.is_complete:
            _log.info("Updating ClusterRole", extra={"cluster_role": name})
            await self._host.replace(f"{_PATH}/{name}", {**live, "rules": rules})
        return PERIOD

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


def setup(parts: Parts) -> ControllerSpec[str]:
    """Declare the controller; it has one key."""
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
        initial_keys=lambda: (ADMIN_ROLE,),
        sources=(Enqueues(common.signals.admin_rules.subscribe, lambda: (ADMIN_ROLE,)),),
        resync_keys=lambda _: (ADMIN_ROLE,),
    )
