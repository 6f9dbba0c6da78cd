"""Maintains the ClusterRoles that are bound in place of the host's own inside virtual clusters.

They list namespaced resources of the host by name, so they are written again when the host starts
or stops serving one, or changes its own roles (rewriting-rules 5.2).
"""

import logging

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import ControllerSpec, Requeue
from karmada_vc_agent.kube.discovery import Discovery
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.kube.sources import Enqueues
from karmada_vc_agent.model.objects import Object, labels_of, maps_at
from karmada_vc_agent.model.rbac_rule import BUILT_INS, NAMESPACE_ADMIN
from karmada_vc_agent.model.tenancy import STRICT
from karmada_vc_agent.model.well_known import RBAC_API
from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.translation.rbac_rules import admin_rules, cut

_log = logging.getLogger(__name__)

_PATH = f"/apis/{RBAC_API}/clusterroles"
_MANAGED_BY = {"app.kubernetes.io/managed-by": "karmada-vc-agent"}
PERIOD = Requeue(60.0)
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
