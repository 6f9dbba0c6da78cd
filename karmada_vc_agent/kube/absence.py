"""Kinds that are absent according to an API server, not merely unanswered.

A path that is not served is answered by 404 without a Status: by the API server, by a proxy that
has lost it, and by an API server whose APIService is away for a moment. Only discovery tells these
apart: an API server lists what it serves.
"""

from typing import NamedTuple

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import KubeError, NotServedError, UnreadableError
from karmada_vc_agent.model.objects import Object, maps_at

GROUPS_PATH = "/apis"


class _Place(NamedTuple):
    """The group, version and plural that the path of a collection or an object names."""

    group: str
    version: str
    plural: str

    @classmethod
    def of(cls, path: str) -> "_Place | None":
        """Return them; None for the core group, which every API server serves."""
        parts = path.strip("/").split("/")
        if parts[0] != "apis":
            return None
        _, group, version, *rest = parts
        is_in_namespace = rest[0] == "namespaces" and len(rest) > 2
        return cls(group, version, rest[2] if is_in_namespace else rest[0])


async def is_absent(client: ApiClient, path: str) -> bool:
    """Return whether the API server does not serve the kind at a path, according to discovery.

    False if no API server says so: that says nothing about its objects.
    """
    place = _Place.of(path)
    if place is None:
        return False
    try:
        return await _is_absent(client, place)
    except KubeError:
        return False


async def items_unless_absent(client: ApiClient, path: str) -> list[Object] | None:
    """Return the items of a collection, None if the API server says it does not serve it.

    Raises KubeError, and UnreadableError for a response that is no list.
    """
    try:
        answer = await client.get(path)
    except NotServedError:
        if await is_absent(client, path):
            return None
        raise
    if not isinstance(answer.get("items"), list):
        raise UnreadableError(f"the response to {path} is not a list")
    return maps_at(answer, "items")


async def never() -> bool:
    """Return False: the default of what is requested about a kind."""
    return False


async def _is_absent(client: ApiClient, place: _Place) -> bool:
    groups = await _document(client, GROUPS_PATH, "APIGroupList", "groups")
    versions = {
        version.get("version")
        for group in groups
        if group.get("name") == place.group
        for version in maps_at(group, "versions")
    }
    if place.version not in versions:
        return True
    path = f"{GROUPS_PATH}/{place.group}/{place.version}"
    resources = await _document(client, path, "APIResourceList", "resources")
    return all(resource.get("name") != place.plural for resource in resources)


async def _document(client: ApiClient, path: str, kind: str, field: str) -> list[Object]:
    """Return the entries of a discovery document, of which there are always some."""
    document = await client.get(path)
    entries = list(maps_at(document, field))
    if document.get("kind") != kind or not entries:
        raise UnreadableError(f"{path} is no {kind}")
    return entries
