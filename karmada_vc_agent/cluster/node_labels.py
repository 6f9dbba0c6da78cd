"""Ends the membership label of nodes together with its virtual cluster."""

from contextlib import suppress

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.model.domain import MEMBERSHIP_LABEL

_NODES = "/api/v1/nodes"


async def unlabel_nodes(host: ApiClient, value: str) -> int:
    """Remove the label from the nodes that have it with a value; return from how many.

    value: the name of a virtual cluster on the host. Raises KubeError.
    """
    labelled = await host.get(_NODES, {"labelSelector": f"{MEMBERSHIP_LABEL}={value}"})
    names = [node["metadata"]["name"] for node in labelled.get("items") or ()]
    for name in names:
        with suppress(NotFoundError):
            patch = {"metadata": {"labels": {MEMBERSHIP_LABEL: None}}}
            await host.merge_patch(f"{_NODES}/{name}", patch)
    return len(names)
