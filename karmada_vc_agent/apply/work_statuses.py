"""Writes the status of a Work, even if it is too large or cannot be encoded."""

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ApiError, InvalidError, UnwritableError
from karmada_vc_agent.model.objects import Object, maps_at
from karmada_vc_agent.views.works import work_path

_TOO_LARGE = "too large"
"""Messages of an API server, and of etcd, that reject a body."""


async def put_status(hub: ApiClient, work: Object, status: Object) -> Object:
    """PUT a status and return the answer. Raises KubeError.

    The hub takes only the status from it, so a Work with a manifest that is nested too deep to be
    encoded is sent without manifests. If the hub rejects the reflected statuses, the conditions are
    sent without them: they must never be outdated.
    """
    path = work_path(work["metadata"]["namespace"], work["metadata"]["name"], "status")
    try:
        return await hub.replace(path, {**work, "status": status})
    except UnwritableError:
        work = {key: work[key] for key in ("apiVersion", "kind", "metadata") if key in work}
    except ApiError as error:
        if not _is_about_content(error):
            raise
        status = _without_reflected(status)
    try:
        return await hub.replace(path, {**work, "status": status})
    except (UnwritableError, ApiError) as error:
        if isinstance(error, ApiError) and not _is_about_content(error):
            raise
        return await hub.replace(path, {**work, "status": _without_reflected(status)})


def _is_about_content(error: ApiError) -> bool:
    is_too_large = error.status == 413 or _TOO_LARGE in str(error)
    return is_too_large or isinstance(error, InvalidError)


def _without_reflected(status: Object) -> Object:
    """Return a status with only the health of each manifest."""
    entries = [
        {key: value for key, value in entry.items() if key != "status"}
        for entry in maps_at(status, "manifestStatuses")
    ]
    return {**status, "manifestStatuses": entries} if entries else status
