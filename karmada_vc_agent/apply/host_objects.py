"""The host side of a manifest: what is there, and the write that makes it right.

    live -> merge -> retain -> assert placement -> decide -> write

One order, whatever is decided; only retaining and writing wait for anybody. Reads come from an
informer of our own labelled objects where it is synced, otherwise from the server. What was
written, and in which version the server answered, is remembered, so that an event about an
object that is as we left it costs no write.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from karmada_vc_agent.apply.bound_roles import BoundRoles
from karmada_vc_agent.interpretation.interpreter import BUILT_IN, Interpreter
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError
from karmada_vc_agent.model.domain import CLUSTER_LABEL, is_ours
from karmada_vc_agent.model.objects import (
    Object,
    ObjectKey,
    annotations_of,
    key_of,
    labels_of,
    uid_of,
)
from karmada_vc_agent.planning import apply_plan
from karmada_vc_agent.planning.apply_plan import (
    Create,
    Foreign,
    Keep,
    Replace,
    needs_update,
    version_of,
)
from karmada_vc_agent.planning.ownership import may_delete
from karmada_vc_agent.translation.notices import Notice
from karmada_vc_agent.views.hub_clusters import digest
from karmada_vc_agent.views.live_objects import LiveObjects, StoreOf

ATTEMPTS = 5
"""How often a write that met a newer object is planned again, as Karmada does."""

Check = Callable[[Object, Object | None], Object]
"""(retained object, live) -> the object to write: asserts the rules once more after Retain."""

_MET_ANOTHER = (AlreadyExistsError, ConflictError, NotFoundError)


@dataclass(frozen=True, slots=True)
class Applied:
    """The host object as it is now; was_written: it was created or changed just now.

    notices: what a user should know of it.
    """

    live: Object
    was_written: bool
    was_recreated: bool = False
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class _Memory:
    """What was written last; of an object that somebody made anew under its name it says nothing.

    Its generation starts at 1 again, so that a version alone would call it as we left it.
    """

    cluster: str
    desired: str
    uid: str
    version: str


class RecreationError(Exception):
    """An object that somebody deleted could not be made again; says what the host answered."""


class HostObjects:
    """Reads and writes host objects.

    store_of: the informer store of a resource, or None where it has none. is_strict: whether the
    profile is Strict.
    """

    def __init__(
        self,
        host: ApiClient,
        store_of: StoreOf,
        interpreter: Interpreter = BUILT_IN,
        *,
        is_strict: bool = False,
    ) -> None:
        self._host = host
        self._objects = LiveObjects(host, store_of)
        self._bound_roles = BoundRoles(host, is_strict=is_strict)
        self._interpreter = interpreter
        self._memory: dict[ObjectKey, _Memory] = {}

    async def live(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return the live object, from the informer if it has it, else from the server."""
        return await self._objects.live(resource, namespace, name)

    def cached(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return the live object if the informer has it; costs no request."""
        return self._objects.cached(resource, namespace, name)

    async def apply(
        self, resource: Resource, desired: Object, check: Check, as_user: str = ""
    ) -> Applied | Foreign:
        """Make the live object what the manifest wants.

        desired: the rewritten manifest. as_user: with whose rights; empty = the agent's. Raises
        KubeError, RetryError, RecreationError, InterpretationError, and whatever `check` raises.
        """
        key = key_of(desired)
        live = await self._objects.known(resource, key.namespace, key.name)
        wanted = digest(desired)
        known = self._memory.get(key)
        was_there = known is not None
        for _ in range(ATTEMPTS):
            is_as_left = (
                live is not None
                and known is not None
                and known.desired == wanted
                and known.uid == uid_of(live)
                and not needs_update(desired, live, known.version)
                and _has_our_marks(desired, live)
            )
            if live is not None and is_as_left:
                return Applied(live, was_written=False)
            try:
                answer = await self._sync(resource, desired, live, check, as_user)
            except ApiError as error:
                is_missing = live is None and isinstance(error, NotFoundError)
                if is_missing or not isinstance(error, _MET_ANOTHER):
                    if live is None and was_there:
                        raise RecreationError(str(error)) from error
                    raise  # also where the resource or the namespace is missing, not the object
                conflict = error
                live = await self._objects.fresh(resource, key.namespace, key.name)
                known = None
                continue
            if isinstance(answer, Applied):
                self._memory[key] = _Memory(
                    labels_of(desired).get(CLUSTER_LABEL, ""),
                    wanted,
                    uid_of(answer.live),
                    version_of(answer.live),
                )
                was_recreated = live is None and was_there
                return Applied(answer.live, answer.was_written, was_recreated)
            return answer
        raise conflict

    def forget_cluster(self, cluster: str) -> None:
        """Forget what was written for a Cluster that is gone."""
        self._memory = {
            key: known for key, known in self._memory.items() if known.cluster != cluster
        }

    def forget_all(self) -> None:
        """Forget what was written: the host went back in time, and its generations count anew."""
        self._memory.clear()

    async def remove(self, resource: Resource, desired: Object, as_user: str = "") -> None:
        """Delete the live object in the background, if it is ours to delete."""
        key = key_of(desired)
        live = await self.live(resource, key.namespace, key.name)
        self._memory.pop(key, None)
        if live is None or not may_delete(desired, live):
            return
        try:
            await self._host.delete_same(resource.path(key.namespace, key.name), live, as_user)
        except (NotFoundError, ConflictError):
            return  # gone, or another object of that name

    async def release(
        self, resource: Resource, desired: Object, as_user: str = ""
    ) -> Foreign | None:
        """Take our and Karmada's marks off the live object and leave it; missing is fine.

        Karmada blocks for ever on a missing one (contract 5.8); we do not. Raises KubeError,
        InterpretationError.
        """
        key = key_of(desired)
        for _ in range(ATTEMPTS):
            live = await self._objects.fresh(resource, key.namespace, key.name)
            if live is None:
                return None
            merged = apply_plan.merge_released(desired, live)
            if isinstance(merged, Foreign):
                return merged
            match apply_plan.decide_released(await self._retain(merged, live), live):
                case Keep():
                    break
                case Replace(obj):
                    try:
                        path = resource.path(key.namespace, key.name)
                        await self._host.replace(path, obj, as_user)
                    except (ConflictError, NotFoundError) as error:
                        conflict = error
                        continue
                    break
        else:
            raise conflict
        self._memory.pop(key, None)
        return None

    async def _sync(
        self,
        resource: Resource,
        desired: Object,
        live: Object | None,
        check: Check,
        as_user: str,
    ) -> Applied | Foreign:
        """Write once what makes the live object right, if anything has to be written."""
        merged = apply_plan.merge(desired, live)
        if isinstance(merged, Foreign):
            return merged
        retained = merged if live is None else await self._retain(merged, live)
        wanted = check(retained, live)
        match apply_plan.decide(wanted, live):
            case Create():
                path = resource.path(desired["metadata"].get("namespace") or "")
                write = partial(self._host.create, path, wanted, as_user)
            case Replace():
                key = key_of(desired)
                path = resource.path(key.namespace, key.name)
                write = partial(self._host.replace, path, wanted, as_user)
            case Keep():
                assert live is not None  # noqa: S101 - only a live object can be kept
                return Applied(live, was_written=False)
        answer = await self._bound_roles.writing(wanted, as_user, write)
        self._objects.observe(resource, answer)
        return Applied(answer, was_written=True)

    async def _retain(self, merged: Object, live: Object) -> Object:
        cluster = labels_of(merged).get(CLUSTER_LABEL, "")
        return await self._interpreter.retain(cluster, merged, live)


def _has_our_marks(desired: Object, live: Object) -> bool:
    """Whether our annotations are as we left them; they change neither generation nor labels."""
    found = annotations_of(live)
    wanted = annotations_of(desired).items()
    return all(found.get(key) == value for key, value in wanted if is_ours(key))
