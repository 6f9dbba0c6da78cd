"""The agent's own rights in the namespaces that it claims, granted by RoleBindings it creates.

Everywhere else it may only read, except Secrets. The roles are created by `join`, which lets the
agent bind just these; an agent with broader rights creates no bindings.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from cachetools import LRUCache

from karmada_vc_agent.cluster.held_namespaces import HeldError
from karmada_vc_agent.kube.absence import is_absent
from karmada_vc_agent.kube.access_review import may
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import (
    AlreadyExistsError,
    ForbiddenError,
    InvalidError,
    NotServedError,
)
from karmada_vc_agent.kube.identity import SELF_REVIEWS_PATH, user_name
from karmada_vc_agent.kube.permissions import Need
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.domain import AGENT_LABEL, CLUSTER_LABEL, NAMESPACE_LABEL
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.model.rbac_rule import NAMESPACE_ADMIN, namespace_role
from karmada_vc_agent.model.service_accounts import account_of
from karmada_vc_agent.model.texts import JOIN_OF_THIS_VERSION
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualNamespace
from karmada_vc_agent.model.well_known import RBAC_API, RBAC_GROUP
from karmada_vc_agent.work.live_objects import StoreOf

_log = logging.getLogger(__name__)

HELD_WITHIN_S = 5.0
"""A server honours a new binding, and new labels in policies, after some milliseconds."""
ASK_AGAIN_S = 0.05
REMEMBERED = 16_384
"""Namespaces whose rights are recorded; one that is forgotten costs its next claim three reviews.
"""
_GVK = GroupVersionKind(RBAC_GROUP, "v1", "RoleBinding")
BINDINGS = Resource(_GVK, "rolebindings", namespaced=True, verbs=frozenset(("list", "watch")))
_PROOFS = (
    Need("delete", "", "configmaps"),
    Need("create", RBAC_GROUP, "rolebindings"),
    Need("get", "", "secrets"),
)
"""A right that only the agent's role in a namespace grants."""


class NamespaceRights:
    """Sole writer of the bindings. store_of: the informer store of a resource."""

    def __init__(
        self,
        host: ApiClient,
        store_of: StoreOf,
        agent: str,
        *,
        follows_kinds: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._store_of = store_of
        self._agent = agent
        of_kinds, own = own_bindings(agent)
        self._roles = {own: namespace_role(agent)}
        if follows_kinds:
            self._roles[of_kinds] = NAMESPACE_ADMIN
        self._clock = clock
        self._account = ""
        self._held: LRUCache[HostNamespace, tuple[str, bool | None]] = LRUCache(REMEMBERED)
        """Namespace -> its uid, and whether our bindings give the rights; None = not listed yet."""

    async def ensure(
        self, cluster: str, virtual: VirtualNamespace, host: HostNamespace, uid: str
    ) -> None:
        """Acquire our rights in a claimed namespace. Raises RetryError, KubeError.

        uid: of the Namespace; a recreated one has none of the old bindings.
        """
        recorded_uid, was_bound = self._held.get(host, ("", None))
        is_current = recorded_uid == uid != "" and (
            was_bound is not None or self._bindings() is None
        )
        if is_current and (not was_bound or self._is_bound(host)):
            return
        if not is_current and await self._has_rights(host):
            self._held[host] = (uid, await self._has_them_by_bindings(host))
            return
        account = await self._name_us()
        deadline = self._clock() + HELD_WITHIN_S
        for name, role in self._roles.items():
            await self._bind(_binding(name, role, account, (cluster, virtual), host), deadline)
        while not await self._has_rights(host):
            if self._clock() > deadline:
                raise RetryError(
                    f"the agent lacks its rights in namespace {virtual}: {JOIN_OF_THIS_VERSION}"
                )
            await asyncio.sleep(ASK_AGAIN_S)
        self._held[host] = (uid, True)

    def forget(self, host: HostNamespace) -> None:
        """Forget the rights in a namespace that is released."""
        self._held.pop(host, None)

    async def _name_us(self) -> str:
        """Return the account that the host has for us; requested once. Raises KubeError."""
        self._account = self._account or await user_name(self._host)
        return self._account

    def _bindings(self) -> Store[Object] | None:
        """Return the bindings of the host; None while they are not listed."""
        store = self._store_of(BINDINGS)
        return store if store is not None and store.is_synced else None

    async def _has_them_by_bindings(self, host: HostNamespace) -> bool | None:
        """Return whether our rights come from our bindings; an administrator needs none."""
        store = self._bindings()
        if store is None:
            return None
        if not all(store.get(host, name) for name in self._roles):
            return False
        try:
            await self._name_us()
        except NotServedError:
            if not await is_absent(self._host, SELF_REVIEWS_PATH):
                raise
            # Before Kubernetes 1.28: subjects are not compared.
        return self._is_bound(host)

    def _is_bound(self, host: HostNamespace) -> bool:
        store = self._bindings()
        if store is None:
            return True
        for name, role in self._roles.items():
            live = store.get(host, name)
            desired: Object = {"roleRef": _role_ref(role)}
            if self._account:
                desired["subjects"] = [_subject(self._account)]
            if live is None or any(live.get(part) != desired[part] for part in desired):
                return False
        return True

    async def _has_rights(self, host: HostNamespace) -> bool:
        for need in _PROOFS:
            review = Need(need.verb, need.group, need.resource, host)
            if not await may(self._host, review):
                return False
        return True

    async def _bind(self, desired: Object, deadline: float) -> None:
        """Create one binding; retry until the server has seen the claim, as the policy needs."""
        namespace, name = desired["metadata"]["namespace"], desired["metadata"]["name"]
        while True:
            try:
                live = await self._host.create(BINDINGS.path(namespace), desired)
            except AlreadyExistsError:
                path = BINDINGS.path(namespace, name)
                live = await self._host.get(path)
                content = {part: desired[part] for part in ("roleRef", "subjects")}
                if content != {part: live.get(part) for part in content}:
                    _log.info("Correcting own rights", extra={"namespace": namespace})
                    live = await self._host.replace(path, {**live, **content})
            except HeldError:
                raise
            except (ForbiddenError, InvalidError):
                if self._clock() > deadline:
                    raise
                await asyncio.sleep(ASK_AGAIN_S)
                continue
            store = self._store_of(BINDINGS)
            if store is not None:
                store.observe(live)
            return


def own_bindings(agent: str) -> tuple[str, str]:
    """Return the names of all that an agent may have there; the last one lets it delete them."""
    return f"vc-agent:{agent}:kinds", f"vc-agent:{agent}"


def _binding(
    name: str,
    role: str,
    account: str,
    claim: tuple[str, VirtualNamespace],
    host: HostNamespace,
) -> Object:
    labels = dict(zip((CLUSTER_LABEL, NAMESPACE_LABEL), claim, strict=True))
    return {
        "apiVersion": RBAC_API,
        "kind": "RoleBinding",
        "metadata": {
            "name": name,
            "namespace": host,
            "labels": labels | {AGENT_LABEL: name.split(":")[1]},
        },
        "roleRef": _role_ref(role),
        "subjects": [_subject(account)],
    }


def _role_ref(role: str) -> Object:
    return {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role}


def _subject(user: str) -> Object:
    account = account_of(user)
    if account is None:
        return {"apiGroup": RBAC_GROUP, "kind": "User", "name": user}
    namespace, name = account
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}
