"""Everything on the host with the label of a virtual cluster, of all kinds."""

from collections.abc import AsyncIterator, Callable, Collection

from karmada_vc_agent.kube.access_reviews import is_allowed
from karmada_vc_agent.kube.client import METADATA_ONLY, ApiClient
from karmada_vc_agent.kube.codec import split_page
from karmada_vc_agent.kube.discovery import (
    Resource,
    ServedApis,
    is_absent,
    is_aggregated,
    is_built_in,
)
from karmada_vc_agent.kube.errors import (
    ApiError,
    ForbiddenError,
    Need,
    NotServedError,
    PageError,
    UnauthorizedError,
    UnreadableError,
)
from karmada_vc_agent.kube.reflector import PageSize, read_page
from karmada_vc_agent.kube.transport import check_version, decode_object
from karmada_vc_agent.model.objects import Object, dig, parse_api_version

_UNAVAILABLE = 503
_OF_NO_KIND = (PageError, UnauthorizedError)
"""Errors that an API server does not write about one kind alone."""
_NEVER = frozenset(("events", "componentstatuses", "bindings"))


def listed_resources(served: ServedApis) -> list[Resource]:
    """Return each kind that can be listed and deleted once, in its preferred version."""
    resources: dict[tuple[str, str], Resource] = {}
    for group_version in served.lists:
        for entry in group_version["resources"]:
            gvk = parse_api_version(group_version["groupVersion"], entry["kind"])
            verbs = frozenset(entry.get("verbs") or ())
            if entry["name"] not in _NEVER and verbs >= {"list", "delete"}:
                resource = Resource(gvk, entry["name"], bool(entry["namespaced"]), verbs)
                resources.setdefault((gvk.group, entry["name"]), resource)
    return list(resources.values())


async def labelled_objects(
    host: ApiClient,
    served: ServedApis,
    selector: str,
    namespaces: Collection[str] | None = None,
    wants: Callable[[Resource], bool] = lambda _: True,
) -> AsyncIterator[tuple[Resource, Object]]:
    """Yield resource and metadata of every object that matches a label selector.

    One list for each kind that the host serves, some sixty requests: for rare operations.
    A kind that the host says it no longer serves, or whose aggregated server is unavailable, is
    skipped; any other failure is raised, for callers that need everything. With `namespaces`, what
    may not be listed cluster-wide is listed in these, and what the API server refuses is skipped.
    wants: which kinds to list. Raises KubeError, also for a page in place of a list.
    """
    query = {"labelSelector": selector}
    for resource in filter(wants, listed_resources(served)):
        paths = [resource.path()]
        if namespaces is not None and not await _may_list(host, resource):
            paths = [resource.path(name) for name in namespaces] if resource.namespaced else []
        for path in paths:
            try:
                async for item in _listed(host, resource, path, query):
                    yield resource, item
            except ApiError as error:
                is_skipped = namespaces is not None and not isinstance(error, _OF_NO_KIND)
                if not is_skipped and not await _is_away(host, resource, error):
                    raise


async def _is_away(host: ApiClient, resource: Resource, error: ApiError) -> bool:
    """Return True for a kind that is not served now, or by an unavailable aggregated server."""
    if isinstance(error, NotServedError):
        return await is_absent(host, resource.path())
    return error.status == _UNAVAILABLE and await _is_of_another_server(host, resource)


async def _is_of_another_server(host: ApiClient, resource: Resource) -> bool:
    """Return True for a kind of an aggregated server, which may be away alone, and say less."""
    try:
        return await is_aggregated(host, resource)
    except ForbiddenError:
        return not is_built_in(resource.gvk.group)


async def _may_list(host: ApiClient, resource: Resource) -> bool:
    return await is_allowed(host, Need("list", resource.gvk.group, resource.plural))


async def objects_in(
    host: ApiClient, served: ServedApis, namespace: str
) -> AsyncIterator[tuple[Resource, Object]]:
    """Yield resource and metadata of every object in a namespace.

    Raises KubeError even if a single kind cannot be listed: for callers that need everything.
    """
    for resource in listed_resources(served):
        if not resource.namespaced:
            continue
        try:
            async for item in _listed(host, resource, resource.path(namespace), {}):
                yield resource, item
        except NotServedError:
            if not await is_absent(host, resource.path()):
                raise
            # The kind was removed meanwhile, and its objects with it.


async def _listed(
    host: ApiClient, resource: Resource, path: str, query: dict[str, str]
) -> AsyncIterator[Object]:
    """Yield each object of a list. Raises ExpiredError if it expires between two pages.

    Only a page is in memory, and decoded one object of it: annotations may be large.
    """
    size, token = PageSize(), ""
    while True:
        page = {**query, **({"continue": token} if token else {})}
        content = await read_page(host, path, page, size, METADATA_ONLY)
        try:
            head, items = split_page(content)
        except ValueError as error:
            raise UnreadableError(f"the response is not a list: {error}") from error
        try:
            check_version(dig(head, "metadata", "resourceVersion"))
        except UnreadableError:
            if not await _is_of_another_server(host, resource):
                raise
        size.received(len(items), len(content))
        for item in items:
            yield decode_object(bytes(item))
        token = str(dig(head, "metadata", "continue") or "")
        if not token:
            return
