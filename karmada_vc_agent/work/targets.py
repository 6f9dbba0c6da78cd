"""A manifest, translated: its strategy, or its failure and what ends that."""

import logging
import re
from collections.abc import Awaitable, Hashable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from karmada_vc_agent.interpretation.user_hooks import InterpretationError
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import ForbiddenError, KubeError, NotServedError
from karmada_vc_agent.kube.tasks import LogOnce
from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.objects import GroupKind, GroupVersionKind, Object, key_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.windows import WindowState
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.draft import Notice
from karmada_vc_agent.translation.kind_policy import CONTENT_REFUSALS, Code, Refusal, RefusedError
from karmada_vc_agent.translation.restore import assert_placement
from karmada_vc_agent.translation.translate import Converted, HostObject, Skipped
from karmada_vc_agent.work.host_objects import Applied, Check
from karmada_vc_agent.work.rules.ownership import conflict_text

Dependency = str | tuple[Hashable, ...]
"""What may change: a virtual cluster, by its name; `(name,)` of a host namespace, NodeGroup, shared
host or kind (group/version/Kind, or group/Kind for its objects). No change reports these two:
`(virtual cluster, hook)`, a script or webhook that does not answer; `(kind, virtual namespace)`, in
which it may not be written.
"""


def kind_dependency(gvk: GroupVersionKind) -> Dependency:
    """Return the dependency on a kind that is served."""
    return ("/".join(gvk),)


def hook_dependency(cluster: str, error: InterpretationError) -> Dependency | None:
    """Return what an interpreter's error depends on; None if it is specific to the object."""
    return (cluster, error.hook) if error.hook is not None else None


_RBAC_DENIAL = re.compile(r' cannot \w+ resource "')


def dependency_of(
    cluster: str, kind: GroupVersionKind, namespace: str, error: Exception
) -> Dependency | None:
    """Return what an error depends on; None if it is specific to the object."""
    if isinstance(error, InterpretationError):
        return hook_dependency(cluster, error)
    if isinstance(error, NotServedError):
        return kind_dependency(kind)
    # Quotas and policies also answer 403, but for one object and not another.
    if isinstance(error, ForbiddenError) and _RBAC_DENIAL.search(str(error)):
        return kind, namespace
    return None


@dataclass(frozen=True, slots=True)
class Failure:
    """A manifest that could not be applied; code: of a refusal, else None.

    is_recreation: its object was deleted by another writer. waits_for: what ends it; empty = only
    something of this manifest. is_final: not retried after a delay.
    """

    text: str
    code: Code | None = None
    is_recreation: bool = False
    waits_for: tuple[Dependency, ...] = ()
    is_final: bool = False
    is_unserved: bool = False


def refused(vc: VirtualCluster, manifest: Object, refusal: Refusal) -> Failure:
    """Return the failure of a refused manifest, in virtual names."""
    key, code = key_of(manifest), refusal.code
    text = refusal.text(vc.name, key.gvk.kind, key.namespace, key.name)
    named = ((refusal.about,),) if refusal.about else ()
    if code is Code.SHARED_OBJECT_CONFLICT:
        # Not all objects of a kind are watched; malformed ones have no certain identity.
        return Failure(text, code, waits_for=named, is_final=not named)
    waits_for = named if code in CONTENT_REFUSALS else (vc.name, *named)
    return Failure(text, code, waits_for=waits_for, is_final=True)


def not_served(gvk: GroupVersionKind, text: str = "") -> Failure:
    """Return the failure of a kind that the host does not serve."""
    text = text or f'no matches for kind "{gvk.kind}" in version "{gvk.api_version}"'
    return Failure(text, waits_for=(kind_dependency(gvk),), is_unserved=True)


def conflict(vc: VirtualCluster, manifest: Object) -> Failure:
    """Return the failure of a manifest whose object belongs to another owner (contract 5.5)."""
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace") or ""
    return Failure(conflict_text(manifest["kind"], namespace, metadata["name"], vc.name))


class Strategy(Enum):
    """How manifests of one sort are applied and removed (work/manifests.py)."""

    OBJECT = "Writes an object of a single Work"
    SERVICE = "Writes a Service; lets the host choose in place of fixed node ports that are taken"
    NAMESPACE = "Passes manifests to the only writer of namespaces, which claims them"
    SHARED = "Joins and leaves the one host object, which several virtual clusters own"
    BINDINGS = "Writes the RoleBindings that represent a ClusterRoleBinding"

    @property
    def waits_for_window(self) -> bool:
        """New generations wait for the window of their virtual cluster."""
        return self in (Strategy.OBJECT, Strategy.SERVICE)


OF_KIND: Mapping[GroupKind, Strategy] = {
    kinds.NAMESPACE: Strategy.NAMESPACE,
    kinds.SERVICE: Strategy.SERVICE,
}
"""Kinds with a strategy of their own."""


def strategy_of(translated: HostObject | Converted) -> Strategy:
    """Return the strategy for the result of a translation."""
    if isinstance(translated, Converted):
        return Strategy.BINDINGS
    if translated.is_shared:
        return Strategy.SHARED
    return OF_KIND.get(translated.host_key.gvk.group_kind, Strategy.OBJECT)


@dataclass(frozen=True, slots=True)
class Target:
    """The result of translating a manifest, and everything that is needed to apply it.

    objects: one, but any number for a converted manifest. resource: of their kind.
    """

    strategy: Strategy
    vc: VirtualCluster
    manifest: Object
    context: TranslationContext
    resource: Resource
    objects: tuple[HostObject, ...]
    depends_on_claims: bool = False
    notices: tuple[Notice, ...] = ()

    @property
    def object(self) -> HostObject:
        """The object of a manifest that was not converted."""
        return self.objects[0]

    @property
    def work(self) -> str:
        """`<execution namespace>/<work>` of the manifest."""
        return self.context.work

    def as_user(self, translated: HostObject) -> str:
        """Return the user whose rights an object is written with; "" = the agent itself."""
        account = self.vc.apply_as
        if account is None or translated.is_system:
            return ""
        if account.is_default and not translated.host_key.namespace:
            return ""
        return account.user

    def check_of(self, translated: HostObject) -> Check:
        """Return the function that asserts the rules on an object again after Retain."""

        def check(retained: Object, live: Object | None) -> Object:
            asserted = assert_placement(retained, translated, live, self.context)
            if isinstance(asserted, Refusal):
                raise RefusedError(asserted.code, asserted.path, asserted.detail)
            return asserted.obj

        return check


@dataclass(slots=True)
class WorkManifest:
    """One manifest of a Work in one reconcile; work: `<execution namespace>/<work>`.

    ordinal: of the first manifest in it for the same object. is_known: whether the hub has that all
    of this generation was applied. translation: None before the only translation.
    """

    vc: VirtualCluster
    manifest: Object
    work: str
    ordinal: int = 0
    is_known: bool = False
    translation: Target | Failure | Skipped | None = None


Done = Applied | Failure | None
"""How a manifest was applied; None if it counts as applied without an object."""


class WindowGate:
    """Decides which manifests wait for a window, and remembers those that were applied.

    Without the feature of windows nothing waits, and nothing is remembered.
    """

    def marked(self, target: Target) -> Target:
        """Return a target whose object says which manifest it is from, if that may ever wait."""
        return target

    async def closed_for(self, target: Target, *, is_known: bool) -> WindowState | None:  # noqa: ARG002
        """Return the window that a manifest waits for; None if it may be applied now.

        is_known: see WorkManifest. Raises KubeError, and what the rules raise.
        """
        return None

    def note(self, item: WorkManifest) -> None:
        """Record that a manifest was applied."""

    def former(self, item: WorkManifest) -> WorkManifest | None:  # noqa: ARG002
        """Return the manifest that was applied for the same object, None if it is not recorded."""
        return None

    def forget_work(self, work: str) -> None:
        """Drop a deleted Work, as `<execution namespace>/<name>`."""


_log = logging.getLogger(__name__)

_once = LogOnce(_log, 1000)

R = TypeVar("R")


def note_bug(where: str, error: Exception) -> str:
    """Log a bug once; return the message for the tenant.

    where: what triggered it, for the log: the Work, and which of its manifests.
    """
    _once.bug("Failed to handle a manifest", error, about=where, where=where)
    return f"internal error ({type(error).__name__}): see the log of the agent"


async def unless_bug(item: WorkManifest, call: Awaitable[R]) -> R | Failure:
    """Return the result of a call about one manifest, for a bug a Failure.

    Raises KubeError, RetryError.
    """
    try:
        return await call
    except (KubeError, RetryError):
        raise
    except Exception as error:  # noqa: BLE001 - a bug at one manifest is a failure of that alone
        return Failure(note_bug(f"{item.work} {key_of(item.manifest)}", error))
