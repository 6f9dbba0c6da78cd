"""Writes the status of a Work, even if it is too large or cannot be encoded."""

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ApiError, InvalidError, UnwritableError
from karmada_vc_agent.model.objects import Object, maps_at
from karmada_vc_agent.work.works import work_path

_TOO_LARGE = "too large"
"""Messages of an API server, and of etcd, that reject a body."""


_IDENTITY = ("name", "namespace", "uid", "resourceVersion")


async def put_status(hub: ApiClient, work: Object, status: Object) -> Object:
    """PUT a status and return the Work as it is then. Raises KubeError.

    The hub takes only the status, so it is sent nothing else, and returns nothing but the new
    metadata: a link may be thin. If the hub rejects the reflected statuses, the conditions are
    sent without them: they must never be outdated.
    """
    path = work_path(work["metadata"]["namespace"], work["metadata"]["name"], "status")
    metadata = {key: work["metadata"][key] for key in _IDENTITY if key in work["metadata"]}
    named = {"apiVersion": work["apiVersion"], "kind": work["kind"], "metadata": metadata}
    try:
        answer = await hub.replace_tersely(path, {**named, "status": status})
    except (UnwritableError, ApiError) as error:
        if isinstance(error, ApiError) and not _is_about_content(error):
            raise
        status = without_reflected(status)
        answer = await hub.replace_tersely(path, {**named, "status": status})
    return {**work, "metadata": answer["metadata"], "status": status}


def _is_about_content(error: ApiError) -> bool:
    is_too_large = error.status == 413 or _TOO_LARGE in str(error)
    return is_too_large or isinstance(error, InvalidError)


def without_reflected(status: Object) -> Object:
    """Return a status with only the health of each manifest."""
    entries = [
        {key: value for key, value in entry.items() if key != "status"}
        for entry in maps_at(status, "manifestStatuses")
    ]
    return {**status, "manifestStatuses": entries} if entries else status
