"""Which kinds another server has behind the API server, by aggregation (APIService).

Built-in kinds and those of CustomResourceDefinitions lie in the etcd of the API server itself.
A server behind it has an etcd of its own, or only its memory: it counts its versions by itself.
"""

from karmada_vc_agent.kube.built_in_groups import is_built_in
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import NotFoundError

DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_METADATA_OF_ONE = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


async def is_aggregated(client: ApiClient, resource: Resource) -> bool:
    """Whether a kind is of a server behind the API server; asked anew each time it matters.

    Raises KubeError where that cannot be told.
    """
    group = resource.gvk.group
    if is_built_in(group):
        return False
    path = f"{DEFINITIONS_PATH}/{resource.plural}.{group}"
    try:
        await client.request("GET", path, accept=_METADATA_OF_ONE)
    except NotFoundError:
        return True
    return False


async def never() -> bool:
    """Say so of a kind that is known to be of the API server itself."""
    return False
