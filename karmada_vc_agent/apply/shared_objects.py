"""Cluster-scoped host objects that virtual clusters share, with their owners counted.

A shared object names no Work, so who wants it is remembered here, and looked at again when
the object changes: an owner that left or agreed may be what others wait for.
"""

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress

from karmada_vc_agent.apply.host_objects import Applied, Check
from karmada_vc_agent.interpretation.interpreter import BUILT_IN, Interpreter
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
)
from karmada_vc_agent.model.domain import CLUSTER_LABEL
from karmada_vc_agent.model.karmada import execution_namespace
from karmada_vc_agent.model.objects import Object, dig, gvk_of
from karmada_vc_agent.planning.apply_plan import Create, Keep, Replace
from karmada_vc_agent.planning.share_plan import (
    Change,
    Differs,
    Remove,
    difference,
    is_shared,
    owners_of,
    plan_leave,
    plan_share,
    with_owners,
)
from karmada_vc_agent.translation.kind_policy import DEFINE_KINDS
from karmada_vc_agent.translation.refusal import Code, RefusedError
from karmada_vc_agent.views.live_objects import LiveObjects, StoreOf

ATTEMPTS = 5
"""How often a write that met a newer object is planned again; owners come and go at once."""


class SharedObjects:
    """Joins and leaves shared objects for virtual clusters.

    store_of: the informer store of shared objects of a resource, or None where it has none.
    enqueue: called with the Works (`<execution namespace>/<work>`) to look at again.
    """

    def __init__(
        self,
        host: ApiClient,
        store_of: StoreOf,
        enqueue: Callable[[str], None],
        interpreter: Interpreter = BUILT_IN,
    ) -> None:
        self._host = host
        self._interpreter = interpreter
        self._objects = LiveObjects(host, store_of)
        self._enqueue = enqueue
        self._users: defaultdict[tuple[str, str], set[str]] = defaultdict(set)

    def follow(self, old: Object | None, new: Object | None) -> None:
        """Have all look again who want an object that changed."""
        obj = new or old
        if obj is not None:
            for work in self._users.get(_key(obj), ()):
                self._enqueue(work)

    def cached(self, resource: Resource, name: str) -> Object | None:
        """Return the live object if the informer has it; costs no request."""
        return self._objects.cached(resource, "", name)

    async def apply(
        self,
        resource: Resource,
        desired: Object,
        cluster: str,
        work: str,
        check: Check,
        as_user: str = "",
    ) -> Applied:
        """Join an object, or change it where all its owners agree.

        check: asserts the rules of what was retained. as_user: with whose rights it is made or
        changed; empty = the agent's. Raises RefusedError (SharedObjectConflict), RetryError
        while it is being deleted, KubeError, InterpretationError.
        """
        self._users[_key(desired)].add(work)
        name = desired["metadata"]["name"]
        live = await self._objects.live(resource, "", name)
        for _ in range(ATTEMPTS):
            _wait_for_deletion(live)
            try:
                match await self._plan(desired, live, cluster, check):
                    case Keep():
                        assert live is not None  # noqa: S101 - only a live object can be kept
                        return Applied(live, was_written=False)
                    case Create(obj):
                        answer = await self._host.create(resource.path(), obj, as_user)
                    case Replace(obj):
                        await self._refuse_under_others(obj, live)
                        answer = await self._host.replace(resource.path(name=name), obj, as_user)
                    case Differs(path, wish):
                        if wish is not None:
                            answer = await self._host.replace(resource.path(name=name), wish)
                            self._observe(resource, answer, work)
                        raise _conflict(path, live)
            except (AlreadyExistsError, ConflictError, NotFoundError) as error:
                if live is None and isinstance(error, NotFoundError):
                    raise  # the resource is missing, not the object
                conflict = error
                live = await self._objects.fresh(resource, "", name)
                continue
            self._observe(resource, answer, work)
            return Applied(answer, was_written=True)
        raise conflict

    async def _plan(
        self, desired: Object, live: Object | None, cluster: str, check: Check
    ) -> Create | Replace | Keep | Differs:
        plan = plan_share(desired, live, cluster)
        if not isinstance(plan, Change):
            return plan
        assert live is not None  # noqa: S101 - only a live object can be changed
        retained = await self._interpreter.retain(cluster, plan.merged, live)
        return Replace(with_owners(check(retained, live), plan.owners))

    async def leave(
        self, resource: Resource, name: str, cluster: str, work: str, *, preserve: bool
    ) -> None:
        """Give up an object; the last owner deletes it, a CRD only if it has no objects.

        One that somebody wrote to meanwhile, as who joins does, is looked at once more.
        """
        live = await self._objects.live(resource, "", name)
        for _ in range(ATTEMPTS):
            if live is None:
                break
            try:
                match plan_leave(live, cluster):
                    case Keep():
                        break
                    case Replace(obj):
                        answer = await self._host.replace(resource.path(name=name), obj)
                        self._observe(resource, answer, work)
                        break
                    case Remove(otherwise):
                        path = resource.path(name=name)
                        if preserve or await self._has_objects(live):
                            answer = await self._host.replace(path, otherwise)
                            self._observe(resource, answer, work)
                        else:
                            await self._host.delete_same(path, live, is_unchanged=True)
                        break
            except (ConflictError, NotFoundError) as error:
                conflict = error
                live = await self._objects.fresh(resource, "", name)
        else:
            raise conflict
        self._forget_users(lambda user: user == work)

    def _observe(self, resource: Resource, answer: Object, work: str) -> None:
        """Know what a Work wrote; the others look at once, as the watch tells no more of it."""
        self._objects.observe(resource, answer)
        for user in self._users.get(_key(answer), set()) - {work}:
            self._enqueue(user)

    def forget_cluster(self, cluster: str) -> None:
        """Forget the Works of a Cluster that is gone; its votes on the host are not touched."""
        own = f"{execution_namespace(cluster)}/"
        self._forget_users(lambda user: user.startswith(own))

    def _forget_users(self, goes: Callable[[str], bool]) -> None:
        for key, users in list(self._users.items()):
            users -= {user for user in users if goes(user)}
            if not users:
                del self._users[key]

    async def _refuse_under_others(self, wanted: Object, live: Object | None) -> None:
        """Refuse to change a definition of which others than its owners have objects.

        A schema that no longer knows a field empties it, in their objects too.
        """
        path = difference(wanted.get("spec"), dig(live, "spec"), "spec") or _lost(wanted, live)
        if live is None or path is None:
            return
        owners = ",".join(sorted(owners_of(wanted)))
        if await self._has_objects(live, f"{CLUSTER_LABEL} notin ({owners})"):
            detail = (
                f"differs at {path} from the definition on the host, and others have objects of "
                "it; the agent applies it once they bring the same definition or have no objects"
            )
            kind = f"{dig(live, 'spec', 'group')}/{dig(live, 'spec', 'names', 'kind')}"
            raise RefusedError(Code.SHARED_OBJECT_CONFLICT, path, detail, kind)

    async def _has_objects(self, live: Object, selector: str = "") -> bool:
        """Whether a CustomResourceDefinition has objects, those that a selector finds."""
        if gvk_of(live).group_kind not in DEFINE_KINDS:
            return False
        query = {"limit": "1"} | ({"labelSelector": selector} if selector else {})
        group, plural = dig(live, "spec", "group"), dig(live, "spec", "names", "plural")
        for version in dig(live, "spec", "versions") or ():
            if version.get("served"):
                path = f"/apis/{group}/{version['name']}/{plural}"
                try:
                    answer = await self._host.get(path, query)
                except NotFoundError:
                    return False  # not established: nothing could be made
                except ForbiddenError:
                    # It came after `join`: only claimed namespaces can be looked into.
                    below = f"/apis/{group}/{version['name']}", plural
                    return not selector or await self._has_objects_in_claimed(*below, selector)
                return bool(answer.get("items"))
        return True  # nothing is served, so nobody can look

    async def _has_objects_in_claimed(self, api: str, plural: str, selector: str) -> bool:
        """Whether namespaces of the virtual clusters that a selector finds have objects."""
        namespaces = await self._host.get(
            "/api/v1/namespaces", {"labelSelector": f"{CLUSTER_LABEL},{selector}"}
        )
        for namespace in namespaces.get("items") or ():
            path = f"{api}/namespaces/{namespace['metadata']['name']}/{plural}"
            with suppress(ForbiddenError, NotFoundError):  # no rights, so nothing was made there
                if (await self._host.get(path, {"limit": "1"})).get("items"):
                    return True
        return False


def _lost(wanted: Object, live: Object | None) -> str | None:
    """Return where a schema no longer says what it says now; the host adds nothing to one."""
    pairs = zip(
        dig(wanted, "spec", "versions") or (), dig(live, "spec", "versions") or (), strict=False
    )
    for index, (new, old) in enumerate(pairs):
        path = difference(dig(old, "schema"), dig(new, "schema"), f"spec.versions[{index}].schema")
        if path is not None:
            return path
    return None


def _wait_for_deletion(live: Object | None) -> None:
    if live is not None and dig(live, "metadata", "deletionTimestamp"):
        kind, name = gvk_of(live).kind, live["metadata"]["name"]
        raise RetryError(f'{kind} "{name}" is being deleted on the host')


def _key(obj: Object) -> tuple[str, str]:
    """Return kind (without version) and name."""
    gvk = gvk_of(obj)
    return f"{gvk.group}/{gvk.kind}", obj["metadata"]["name"]


def _conflict(path: str, live: Object | None) -> RefusedError:
    owner = "owned by other virtual clusters" if live and is_shared(live) else "of the host"
    return RefusedError(
        Code.SHARED_OBJECT_CONFLICT, path, f"differs from the object {owner} at {path}"
    )
