"""The live object of a manifest, and the write that aligns it.

    live -> merge -> retain -> assert placement -> decide -> write

Reads are of an informer of our labelled objects, else of the server. What was written is remembered
with its version, so that an object that is as we left it costs no write.
"""

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Container, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Protocol
from urllib.parse import quote

from cachetools import LRUCache

from karmada_vc_agent.cluster.hub_clusters import digest
from karmada_vc_agent.cluster.virtual_clusters import HeldError, Scopes
from karmada_vc_agent.interpretation.interpreter import BUILT_IN, Interpreter
from karmada_vc_agent.kube import errors
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.flows import retry_on_conflict
from karmada_vc_agent.kube.store import Store, is_echo
from karmada_vc_agent.kube.transport import ANSWER_BYTES
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import (
    GroupKind,
    Object,
    ObjectKey,
    annotations_of,
    bytes_of,
    drop,
    gvk_of,
    key_of,
    labels_of,
    maps_at,
    text_at,
    uid_of,
)
from karmada_vc_agent.translation import rbac_rules
from karmada_vc_agent.translation.context import Notice
from karmada_vc_agent.translation.rbac_rules import Allow
from karmada_vc_agent.work.memory_bounds import ObjectIdentity
from karmada_vc_agent.work.rules import apply_plan
from karmada_vc_agent.work.rules.ownership import may_delete

_log = logging.getLogger(__name__)

_RESERVED = ("vc:", "vc-")
"""No Work may contain a role with such a name, so none is prepared for one either."""
BOUND = frozenset((vocabulary.ROLE, vocabulary.CLUSTER_ROLE))
_LABELS = (vocabulary.CLUSTER_LABEL, vocabulary.NAMESPACE_LABEL)
_ANNOTATIONS = frozenset((vocabulary.STAND_IN_ANNOTATION, vocabulary.WORK_ANNOTATION))
BINDINGS = frozenset({vocabulary.ROLE_BINDING})
"""Kinds whose objects refer to a role."""

Write = Callable[[], Awaitable[Object]]


async def write_binding(
    host: ApiClient, obj: Object, as_user: str, write: Write, allow: Allow = None
) -> Object:
    """Write an object of any kind, with an empty role meanwhile if it binds a missing one (ADR 24).

    Works have no order, and a server refuses a binding to a missing role to who may not `bind`.
    as_user: "" = the agent itself. allow: in profile Strict. Raises KubeError, RetryError if the
    role grants too much.
    """
    role = _stand_in(obj)
    if role is None:
        return await write()
    is_namespaced = role["kind"] == vocabulary.ROLE.kind
    where, plural = f"/apis/{vocabulary.RBAC_API}", "clusterroles"
    if is_namespaced:
        where, plural = f"{where}/namespaces/{obj['metadata']['namespace']}", "roles"
    collection, user = f"{where}/{plural}", as_user if is_namespaced else ""
    # The server accepts "?" and "#" in the name of a role, and a tenant chooses it.
    path = f"{collection}/{quote(role['metadata']['name'], safe='')}"
    await _judge(host, path, allow)
    try:
        return await write()
    except errors.NotFoundError as error:
        # kube-apiserver 1.34.4 says `rolebindings… "<name of the role>" not found`.
        name, missing = role["metadata"]["name"], error
        text = f'.{vocabulary.RBAC_GROUP} "{name}" not found'
        if name.startswith(_RESERVED) or text not in str(error):
            raise
    try:
        made = await host.create(collection, role, user)
    except (errors.ForbiddenError, errors.InvalidError, errors.NotFoundError):
        raise missing from None
    try:
        await _judge(host, path, allow)
        return await write()
    finally:
        await remove_stand_in(host, path, made, user)


async def _judge(host: ApiClient, path: str, allow: Allow) -> None:
    """Deny a role that no Work could have created so: the server denies only what we may not."""
    role = await host.find(path) or {}
    for rule in maps_at(role, "rules"):
        for excess in rbac_rules.excess(rule, allow):
            text = (
                f'{gvk_of(role).kind} "{role["metadata"]["name"]}" of the host is not bound: it '
                f"allows {excess}, which no virtual cluster may"
            )
            raise RetryError(text)


def _stand_in(binding: Object) -> Object | None:
    if gvk_of(binding).group_kind not in BINDINGS:
        return None  # the common case, on each write
    kind, name = text_at(binding, "roleRef", "kind"), text_at(binding, "roleRef", "name")
    is_role, marks = kind == vocabulary.ROLE.kind, labels_of(binding)
    if not name or "/" in name or GroupKind(vocabulary.RBAC_GROUP, kind) not in BOUND:
        return None  # the server knows no role with such a name
    if not is_role and name in vocabulary.TENANT_ROLES.values():
        return None
    copied = _LABELS if is_role else (vocabulary.CLUSTER_LABEL,)
    labels = {key: marks[key] for key in copied if key in marks}
    metadata: Object = {"name": name, "labels": labels | {vocabulary.MANAGED_LABEL: "true"}}
    if is_role:
        metadata["namespace"] = binding["metadata"]["namespace"]
    metadata["annotations"] = {vocabulary.STAND_IN_ANNOTATION: "true"}
    if work := annotations_of(binding).get(vocabulary.WORK_ANNOTATION):
        metadata["annotations"][vocabulary.WORK_ANNOTATION] = work
    return {"apiVersion": vocabulary.RBAC_API, "kind": kind, "metadata": metadata, "rules": []}


def is_stand_in(obj: Object) -> bool:
    """Return whether an object is an unmodified empty role, which each attempt makes."""
    marks = annotations_of(obj)
    return (
        vocabulary.STAND_IN_ANNOTATION in marks
        and marks.keys() <= _ANNOTATIONS
        and gvk_of(obj).group_kind in BOUND
        and not obj.get("rules")
        and "aggregationRule" not in obj
        and labels_of(obj).keys() <= {vocabulary.MANAGED_LABEL, *_LABELS}
    )


async def remove_stand_in(host: ApiClient, path: str, live: Object, as_user: str = "") -> None:
    """Delete a stand-in unless another writer changed it: the Work of the role may have it now."""
    try:
        await host.delete_same(path, live, as_user, is_unchanged=True)
    except (errors.ConflictError, errors.NotFoundError):
        pass
    except errors.KubeError as error:
        _log.warning("Leaving an empty role for now", extra={"path": path, "reason": str(error)})


StoreOf = Callable[[Resource], Store[Object] | None]
"""The informer store of a resource, or None if it has none."""

_most_bytes: ContextVar[int] = ContextVar("most_bytes", default=ANSWER_BYTES)


@contextmanager
def reading_at_most(most_bytes: int) -> Iterator[None]:
    """Have reads of objects that hold more raise TooLargeError."""
    token = _most_bytes.set(most_bytes)
    try:
        yield
    finally:
        _most_bytes.reset(token)


@dataclass(eq=False)
class LiveObjects:
    """Reads host objects, and stores our own writes in the informers."""

    host: ApiClient
    store_of: StoreOf

    def cached(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return an object if the informer has it whole; sends no request."""
        stored = self._stored(resource, namespace, name)
        return None if isinstance(stored, ObjectIdentity) else stored

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return an object; what a synced informer lacks does not exist, or is not ours."""
        stored, store = self._stored(resource, namespace, name), self.store_of(resource)
        if stored is None and store is not None and store.is_synced:
            return None
        return await self.live(resource, namespace, name)

    async def live(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return an object; requests from the server what the informer lacks."""
        cached = self.cached(resource, namespace, name)
        if cached is not None:
            return cached
        live = await self.fresh(resource, namespace, name)
        store = self.store_of(resource)
        # A later version is left to the watch: handlers would take it for an echo then.
        if live is not None and store is not None and is_echo(store.get(namespace, name), live):
            store.complete(store.codec.trim(live))
        return live

    def _stored(self, resource: Resource, namespace: str, name: str) -> Object | None:
        store = self.store_of(resource)
        return store.get(namespace, name) if store is not None else None

    async def fresh(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return an object from the server. Raises KubeError, see `reading_at_most`."""
        most = _most_bytes.get()
        live = await self.host.find(resource.path(namespace, name), most)
        if live is None:
            return None
        live["metadata"].pop("managedFields", None)
        if most < ANSWER_BYTES and bytes_of(live) > most:
            raise errors.TooLargeError(
                f"{resource.path(namespace, name)} holds more than {most} bytes"
            )
        return live

    def observe(self, resource: Resource, answer: Object) -> None:
        """Store an object from an answer of the server."""
        answer["metadata"].pop("managedFields", None)
        store = self.store_of(resource)
        if store is not None:
            store.observe(answer)


REMEMBERED = 50_000
"""Writes of one virtual cluster, 590 bytes each: as many as its default bounds let it have
manifests of 1.3 KB. An object that is forgotten is compared as after a start."""

Check = Callable[[Object, Object | None], Object]
"""(retained object, live) -> the object to write; asserts the rules once more after Retain."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The host object; is_settled: as its manifest says, else it is compared in full again."""

    live: Object
    was_written: bool
    was_recreated: bool = False
    notices: tuple[Notice, ...] = ()
    is_settled: bool = True


_Written = tuple[str, str, str]
"""What was written last: a digest of what was desired, uid and version. The version alone would
look unchanged for another object under that name: its generation starts at 1 again."""


class RecreationError(Exception):
    """An object that was deleted on the host could not be recreated; has the host's error."""


class PlacementKeeper(Protocol):
    """Decides which adopted workloads keep the placement of their pods."""

    async def settle(
        self, resource: Resource, checked: Object, live: Object, as_user: str
    ) -> tuple[Object, bool]:
        """Return what to write, and whether it keeps the live placement. Raises KubeError."""

    def gone(self, desired: Object) -> None:
        """Take note of an object that is removed or released."""


@dataclass(eq=False)
class HostObjects(LiveObjects):
    """Reads and writes host objects.

    allow_of: in profile Strict, `allow` of a virtual cluster. former_names: its earlier names,
    whose objects are its own. adoptions: which workloads keep their placement; None = none.
    """

    interpreter: Interpreter = BUILT_IN
    _: KW_ONLY
    allow_of: Callable[[str], Allow] = lambda _: None
    former_names: Callable[[str], Container[str]] = lambda _: ()
    adoptions: PlacementKeeper | None = None
    scopes: Scopes

    def __post_init__(self) -> None:
        self._memory: defaultdict[str, LRUCache[ObjectKey, _Written]] = self.scopes.keep_each(
            lambda: LRUCache(REMEMBERED)
        )

    async def apply(
        self, resource: Resource, desired: Object, check: Check, as_user: str = ""
    ) -> Applied:
        """Align the live object with the manifest.

        desired: the rewritten manifest. as_user: whose rights to use; "" = the agent's. Raises
        KubeError, RetryError, ForeignError, RecreationError, InterpretationError, and as `check`.
        """
        key = key_of(desired)
        live = await self.get(resource, key.namespace, key.name)
        content = _content(desired)
        memory = self._memory[cluster_of(desired)]
        written = memory.get(key)
        if (
            live is not None
            and written is not None
            and written[:2] == (content, uid_of(live))
            and not apply_plan.needs_update(desired, live, written[2])
            and _has_our_marks(desired, live)
        ):
            return Applied(live, was_written=False)
        sync = partial(self._sync, resource, desired, check, as_user, content, written is None)

        async def write(live: Object | None) -> Applied:
            is_recreation = live is None and written is not None
            try:
                answer = await sync(live)
            except (errors.AlreadyExistsError, errors.ConflictError, HeldError):
                raise
            except errors.ApiError as error:
                if is_recreation:
                    raise RecreationError(str(error)) from error
                raise
            if answer.is_settled:
                memory[key] = content, uid_of(answer.live), apply_plan.version_of(answer.live)
            else:
                memory.pop(key, None)
            return replace(answer, was_recreated=is_recreation)

        fresh = partial(self.fresh, resource, key.namespace, key.name)
        return await retry_on_conflict(live, write, fresh)

    def is_settled(self, live: Object) -> bool:
        """Return whether the last sync of an object left nothing to be decided at the next one."""
        memory = self._memory.get(cluster_of(live))
        written = memory.get(key_of(live)) if memory is not None else None
        return written is not None and written[1:] == (uid_of(live), apply_plan.version_of(live))

    def wrote(self, desired: Object) -> bool:
        """Return whether this process wrote just this, or read it as it is, at its last sync."""
        written = self._memory[cluster_of(desired)].get(key_of(desired))
        return written is not None and written[0] == _content(desired)

    async def differs(self, desired: Object, live: Object, check: Check) -> bool:
        """Return whether applying would change more than the mark. Raises as `check`."""
        try:
            merged = apply_plan.merge(desired, live, self.former_names(cluster_of(desired)))
        except apply_plan.ForeignError:
            return False
        checked = check(await self._retain(merged, live), live)
        return apply_plan.decide(_unmarked(checked), _unmarked(live)) is not None

    def forget_all(self) -> None:
        """Forget what was written: the host went back in time, so generations start over."""
        self._memory.clear()

    async def remove(self, resource: Resource, desired: Object, as_user: str = "") -> None:
        """Delete the live object in the background, if it is ours. Raises KubeError."""
        place = key_of(desired)[1:]

        async def delete(live: Object | None) -> None:
            if live is not None and may_delete(desired, live):
                await self.host.delete_same(resource.path(*place), live, as_user)

        live = await self.live(resource, *place)
        live = live and {key: live[key] for key in _DECIDES_DELETION if key in live}
        self._forget(desired)
        await retry_on_conflict(live, delete, partial(self.fresh, resource, *place))

    async def release(self, resource: Resource, desired: Object, as_user: str = "") -> None:
        """Remove our and Karmada's marks from the live object, if it is ours. Raises KubeError."""
        place = key_of(desired)[1:]

        async def write(live: Object | None) -> None:
            if live is None:
                return
            try:
                merged = apply_plan.merge_released(desired, live)
            except apply_plan.ForeignError:
                return
            obj = apply_plan.decide_released(await self._retain(merged, live), live)
            if obj is not None:
                put = partial(self.host.replace, resource.path(*place), obj, as_user)
                await self._write(live, as_user, put)
            self._forget(desired)

        fresh = partial(self.fresh, resource, *place)
        await retry_on_conflict(await fresh(), write, fresh)

    def _forget(self, desired: Object) -> None:
        if self.adoptions is not None:
            self.adoptions.gone(desired)
        cluster = cluster_of(desired)
        memory = self._memory.get(cluster)
        if memory is None:
            return
        memory.pop(key_of(desired), None)
        if not memory:
            del self._memory[cluster]

    async def _sync(
        self,
        resource: Resource,
        desired: Object,
        check: Check,
        as_user: str,
        mark: str,
        trusts_mark: bool,  # noqa: FBT001 - given by partial()
        live: Object | None,
    ) -> Applied:
        """Write once, if needed. mark: a digest of what is desired. See apply_plan.decide()."""
        merged = apply_plan.merge(desired, live, self.former_names(cluster_of(desired)))
        retained = merged if live is None else await self._retain(merged, live)
        checked, is_kept = check(retained, live), False
        if live is not None and self.adoptions is not None:
            checked, is_kept = await self.adoptions.settle(resource, checked, live, as_user)
        obj = apply_plan.decide(checked, live, "" if is_kept else mark, trusts_mark=trusts_mark)
        if obj is None:
            assert live is not None  # noqa: S101 - only a live object can be kept
            store = self.store_of(resource)
            if store is not None and not store.is_synced:
                self.observe(resource, live)  # a first list that lacks it is a change then
            return Applied(live, was_written=False, is_settled=not is_kept)
        _, namespace, name = key_of(desired)
        if live is None:
            write = partial(self.host.create, resource.path(namespace), obj, as_user)
        else:
            write = partial(self.host.replace, resource.path(namespace, name), obj, as_user)
        answer = await self._write(checked, as_user, write)
        self.observe(resource, answer)
        return Applied(answer, was_written=True, is_settled=not is_kept)

    async def _write(self, obj: Object, as_user: str, write: Write) -> Object:
        return await write_binding(self.host, obj, as_user, write, self.allow_of(cluster_of(obj)))

    async def _retain(self, merged: Object, live: Object) -> Object:
        return await self.interpreter.retain(cluster_of(merged), merged, live)


_DECIDES_DELETION = ("apiVersion", "kind", "metadata")
"""The rest may be large, and is dropped while the deletion waits."""


def cluster_of(desired: Object) -> str:
    return labels_of(desired).get(vocabulary.CLUSTER_LABEL, "")


def _content(desired: Object) -> str:
    return digest(_unmarked(desired))


def _unmarked(obj: Object) -> Object:
    return drop(obj, "metadata", "annotations", vocabulary.APPLIED_ANNOTATION)


def _has_our_marks(desired: Object, live: Object) -> bool:
    """Return whether our annotations are unmodified; they affect neither generation nor labels."""
    live_marks = annotations_of(live)
    desired_marks = annotations_of(desired).items()
    return all(
        live_marks.get(key) == value for key, value in desired_marks if vocabulary.is_ours(key)
    )
