"""Writes the status of a Work, also where it cannot be sent or taken as it is."""

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ApiError, InvalidError, UnwritableError
from karmada_vc_agent.model.objects import Object, maps_at
from karmada_vc_agent.views.works import work_path

_TOO_LARGE = "too large"
"""How an API server, and its etcd, refuse a body."""


async def put_status(hub: ApiClient, work: Object, status: Object) -> Object:
    """PUT a status and return the answer. Raises KubeError.

    The hub takes nothing but the status from it, so a Work with a manifest that is nested too
    deep to be written goes without its manifests. Where the hub refuses what was reflected of
    the objects, the conditions go without that: they must never stay as they were.
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
    """Return a status that says of each manifest only how healthy its object is."""
    entries = [
        {key: value for key, value in entry.items() if key != "status"}
        for entry in maps_at(status, "manifestStatuses")
    ]
    return {**status, "manifestStatuses": entries} if entries else status
