"""Kinds that an aggregated API server (APIService) serves behind the API server.

Built-in kinds and those of CustomResourceDefinitions are stored in the etcd of the API server
itself. An aggregated server has a storage and resourceVersions of its own.
"""

from karmada_vc_agent.kube.built_in_groups import is_built_in
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import NotFoundError

DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_METADATA_OF_ONE = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


async def is_aggregated(client: ApiClient, resource: Resource) -> bool:
    """Return whether a kind is served by an aggregated API server; one request each time.

    Raises KubeError if that cannot be determined.
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
