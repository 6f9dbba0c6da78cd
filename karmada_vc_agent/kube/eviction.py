"""Evictions of pods: the API server deletes them as far as PodDisruptionBudgets allow."""

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.objects import Object


async def evict(client: ApiClient, pod_path: str, pod: Object) -> None:
    """Evict this very pod, and none that has its name by then.

    Raises TooManyRequestsError at once while a PodDisruptionBudget forbids it, ConflictError where
    the pod is another one, ApiError, UnreachableError.
    """
    metadata = pod["metadata"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "deleteOptions": {"preconditions": {"uid": metadata["uid"]}},
    }
    await client.request("POST", f"{pod_path}/eviction", body=body, is_patient=False)
