"""A manifest, translated: its strategy, or its failure and what ends that.

What fails for anything but its own content is retried when its virtual cluster changes, or a kind,
host namespace or NodeGroup that it names.

Of a bug the tenant gets a message that names nothing of the host; the traceback is logged once, and
the caller continues with the other manifests.
"""

import logging
import re
from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import NamedTuple, Self

from karmada_vc_agent.interpretation.user_hooks import InterpretationError
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import ForbiddenError, KubeError, NotServedError
from karmada_vc_agent.kube.tasks import LogOnce
from karmada_vc_agent.model.objects import GroupVersionKind, Object, key_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.windows import WindowState
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.draft import Notice
from karmada_vc_agent.translation.kind_policy import CONTENT_REFUSALS, Code, Refusal, RefusedError
from karmada_vc_agent.translation.restore import assert_placement
from karmada_vc_agent.translation.translate import HostObject, Skipped
from karmada_vc_agent.work.host_objects import Applied, Check
from karmada_vc_agent.work.rules.ownership import conflict_text


class Named(NamedTuple):
    """A host namespace, NodeGroup or kind: group/version/Kind, or group/Kind for its objects."""

    name: str


class HookDependency(NamedTuple):
    """A script or webhook that does not answer a virtual cluster; no change reports it."""

    cluster: str
    hook: Hashable


class Right(NamedTuple):
    """A kind that may not be written in a virtual namespace; no change reports a grant."""

    kind: GroupVersionKind
    namespace: str


Dependency = str | Named | HookDependency | Right
"""What may change; str: a virtual cluster."""


def kind_dependency(gvk: GroupVersionKind) -> Named:
    """Return the dependency on a kind that is served."""
    return Named("/".join(gvk))


def hook_dependency(cluster: str, error: InterpretationError) -> HookDependency | None:
    """Return what an interpreter's error depends on; None if it is specific to the object."""
    return HookDependency(cluster, error.hook) if error.hook is not None else None


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
        return Right(kind, namespace)
    return None


@dataclass(frozen=True, slots=True)
class Failure:
    """A manifest that could not be applied; code: of a refusal, else None.

    is_recreation: its object existed and was deleted by another writer. waits_for: what ends it;
    empty = only something of this manifest. is_final: it is not retried after a delay. is_unserved:
    its kind is not served.
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
    named = (Named(refusal.about),) if refusal.about else ()
    if code is Code.SHARED_OBJECT_CONFLICT:
        # Not all objects of a kind are watched; malformed ones have no certain identity.
        return Failure(text, code, waits_for=named, is_final=not named)
    waits_for = () if code in CONTENT_REFUSALS else (vc.name, *named)
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
    """How manifests of one sort are applied and removed (work/strategies.py)."""

    OBJECT = "Writes an object of a single Work"
    SERVICE = "Writes a Service; lets the host choose in place of fixed node ports that are taken"
    NAMESPACE = "Passes manifests to the only writer of namespaces, which claims them"
    SHARED = "Joins and leaves the one host object, which several virtual clusters own"
    BINDINGS = "Writes the RoleBindings that represent a ClusterRoleBinding"

    @property
    def waits_for_window(self) -> bool:
        """New generations wait for the window of their virtual cluster."""
        return self in (Strategy.OBJECT, Strategy.SERVICE)


@dataclass(frozen=True, slots=True)
class Target:
    """The result of translating a manifest, and everything that is needed to apply it.

    objects: the host objects; one, but any number for a converted manifest. resource: of their
    kind. depends_on_claims, notices: see HostObject.
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
    """One manifest of a Work in one reconcile.

    work: `<execution namespace>/<work>`. ordinal: of the first manifest in it for the same object.
    is_known: whether the hub has that all of this generation of the Work was applied.
    translation: its result or the reason why there is none, None before the only translation
    (work/manifests.py).
    """

    vc: VirtualCluster
    manifest: Object
    work: str
    ordinal: int = 0
    is_known: bool = False
    translation: Target | Failure | Skipped | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A manifest that waits for a window; kept: the result of its predecessor, if recorded."""

    window: WindowState
    kept: Applied | Failure | None = None


class WindowGate:
    """Decides which manifests wait for a window, and remembers those that were applied.

    Without the feature of windows nothing waits, and nothing is remembered.
    """

    def marked(self, target: Target) -> Target:
        """Return a target whose object says which manifest it is from, if that may ever wait."""
        return target

    async def closed_for(self, target: Target, *, is_known: bool) -> WindowState | None:  # noqa: ARG002
        """Return the window that a manifest waits for; None if it may be applied now.

        is_known: the hub has that all of this generation was applied. Raises KubeError, and what
        the rules raise.
        """
        return None

    def note(self, item: WorkManifest) -> None:
        """Record that a manifest was applied."""

    def former(self, item: WorkManifest) -> WorkManifest | None:  # noqa: ARG002
        """Return the manifest that was applied for the same object, None if it is not recorded."""
        return None

    def forget(self, item: WorkManifest) -> None:
        """Drop a manifest whose object is removed."""

    def forget_work(self, work: str) -> None:
        """Drop a deleted Work, as `<execution namespace>/<name>`."""


_log = logging.getLogger(__name__)

_REMEMBERED = 1000


class Bugs:
    """Remembers which bugs were logged."""

    def __init__(self) -> None:
        self._once = LogOnce(_log, _REMEMBERED)

    def note(self, where: str, error: Exception) -> str:
        """Log a bug once; return the message for the tenant.

        where: what triggered it, for the log: the Work, and which of its manifests.
        """
        self._once.bug("Failed to handle a manifest", error, about=where, where=where)
        return f"internal error ({type(error).__name__}): see the log of the agent"

    def guard(self, work: str, manifest: Object) -> "_Guard":
        """Return a context that catches bugs at one manifest: `with bugs.guard(…) as guard:`."""
        return _Guard(self, work, manifest)


class _Guard:
    """Lets errors of servers and retries pass; problem: the bug that it caught, or ""."""

    def __init__(self, bugs: Bugs, work: str, manifest: Object) -> None:
        self.problem = ""
        self._bugs = bugs
        self._work = work
        self._manifest = manifest

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception) or isinstance(error, KubeError | RetryError):
            return False
        self.problem = self._bugs.note(f"{self._work} {key_of(self._manifest)}", error)
        return True
