"""Create or change objects so that they have the desired fields, by server-side apply."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from karmada_vc_agent.install.changes import Changes, differences, without_fields
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import ConflictError, NotFoundError
from karmada_vc_agent.kube.permissions import Need
from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.objects import Object, ObjectKey, dig, key_of

MANAGER = "karmada-vc-agent-join"
_CONTAINERS = tuple(
    f'.spec.template.spec.containers[name="{name}"]' for name in ("agent", "gateway")
)
_REPLICAS = ".spec.replicas"
IMAGE_FIELDS = tuple(f"{container}.image" for container in _CONTAINERS)
_RESOURCES = tuple(f"{container}.resources." for container in _CONTAINERS)
_CONFLICT_WITH_US = f'"{MANAGER}"'


def path_of(obj: Object) -> str:
    """Return the URL path of an object of a built-in kind."""
    key = key_of(obj)
    return _resource_of(key).path(key.namespace, key.name)


def _resource_of(key: ObjectKey) -> Resource:
    return Resource(key.gvk, kinds.plural(key.gvk.group_kind), namespaced=bool(key.namespace))


def needs_of(objects: Iterable[Object]) -> list[Need]:
    """Return the rights that it takes to apply objects."""
    places = dict.fromkeys(
        (key.gvk.group, kinds.plural(key.gvk.group_kind), key.namespace)
        for key in map(key_of, objects)
    )
    return [Need(verb, *place) for place in places for verb in ("get", "create", "patch")]


async def find(client: ApiClient, path: str) -> Object | None:
    """GET an object; None if it does not exist. Raises KubeError, also while it is not served."""
    try:
        return await client.get(path)
    except NotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class _Step:
    """One write. body: what is to be applied; is_new: the object does not exist yet.

    is_ending: it exists and is being deleted, so that nothing can be applied to it.
    """

    body: Object
    is_new: bool
    details: tuple[str, ...] = ()
    is_ending: bool = False


async def apply_all(
    client: ApiClient,
    objects: Iterable[Object],
    changes: Changes,
    forced: Collection[str] = (),
) -> None:
    """Create or change objects, in the given order, so that they have the fields of these.

    Server-side apply: fields that are not named stay as they are, and so does what other writers
    set of replicas, image and resources of the agent, but for the fields of `forced`. All
    differences are reported before the first write. Raises KubeError.
    """
    steps = [step for obj in objects if (step := await _plan(client, obj, forced)) is not None]
    for step in steps:
        verb = "create" if step.is_new else "change"
        changes.report(f"{client.name}: {verb} {key_of(step.body)}", step.details)
    for step in () if changes.is_dry else steps:
        if step.is_ending:  # the server refuses it, and says why
            key = key_of(step.body)
            await client.create(_resource_of(key).path(key.namespace), step.body)
        else:
            await _send(client, step.body)


async def _plan(client: ApiClient, desired: Object, forced: Collection[str]) -> _Step | None:
    """Return what is to be written, None where everything is there already."""
    live = await find(client, path_of(desired))
    if live is None or dig(live, "metadata", "deletionTimestamp") is not None:
        return _Step(desired, is_new=True, is_ending=live is not None)
    if _holds(live, desired):
        return None
    body = desired
    try:
        answer = await _send(client, body, is_dry=True, is_forced=False)
    except ConflictError as conflict:
        body = without_fields(desired, _tuned(conflict, forced))
        answer = await _send(client, body, is_dry=True)
    details = differences(live, answer)
    return _Step(body, is_new=False, details=tuple(details)) if details else None


async def _send(
    client: ApiClient, body: Object, *, is_dry: bool = False, is_forced: bool = True
) -> Object:
    return await client.server_side_apply(
        path_of(body), body, MANAGER, is_dry=is_dry, is_forced=is_forced
    )


def _tuned(conflict: ConflictError, forced: Collection[str]) -> frozenset[str]:
    """Return the fields that another writer set and may keep."""
    return frozenset(
        field
        for field, message in conflict.fields
        if field not in forced
        and _CONFLICT_WITH_US not in message
        and (field in (_REPLICAS, *IMAGE_FIELDS) or field.startswith(_RESOURCES))
    )


def _holds(live: Any, desired: Any) -> bool:
    """Return whether `live` contains all of `desired`; lists must agree element by element."""
    if isinstance(desired, dict):
        if not isinstance(live, dict):
            return False
        return all(_holds(live.get(key), value) for key, value in desired.items())
    if isinstance(desired, list):
        if not isinstance(live, list) or len(live) != len(desired):
            return False
        return all(map(_holds, live, desired))
    return bool(live == desired)
