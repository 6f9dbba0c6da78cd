"""Everything that an API server has, of every kind that it lists."""

from collections.abc import Callable, Iterator

from e2e.lab.api import Api, ApiError, Object

_NEVER = frozenset(("events", "componentstatuses"))
"""Events come and go by themselves; component statuses are made when they are asked for."""

_AWAY = (404, 503)
"""A kind of another test that went meanwhile, or whose server went."""


def everything(api: Api) -> Iterator[tuple[str, Object]]:
    """Yield path and object of all there is; a kind that is gone again is passed over."""
    for group_version, plural in _listed(api):
        root = _root(group_version)
        try:
            found = api.list(f"{root}/{plural}")
        except ApiError as error:
            if error.code in _AWAY:
                continue
            raise
        for obj in found:
            metadata = obj["metadata"]
            scope = f"/namespaces/{metadata['namespace']}" if metadata.get("namespace") else ""
            yield f"{root}{scope}/{plural}/{metadata['name']}", obj


def chosen(api: Api, wants: Callable[[str, Object], bool]) -> dict[str, Object]:
    """Return what is wanted of all there is, by path."""
    return {path: obj for path, obj in everything(api) if wants(path, obj)}


def _listed(api: Api) -> list[tuple[str, str]]:
    """Return (group version, plural) of each kind once, in its preferred version if it has one."""
    versions = ["v1"]
    for group in api.get("/apis")["groups"]:
        if group["name"] == "metrics.k8s.io":
            continue  # measured now, and served as long as another story wants it
        preferred = group["preferredVersion"]["groupVersion"]
        versions += [preferred, *(v["groupVersion"] for v in group["versions"])]
    found: dict[tuple[str, str], str] = {}
    for version in dict.fromkeys(versions):
        try:
            resources = api.get(_root(version))["resources"]
        except ApiError as error:
            if error.code in _AWAY:
                continue
            raise
        for resource in resources:
            if "list" in resource["verbs"] and resource["name"] not in _NEVER:
                found.setdefault((version.rpartition("/")[0], resource["name"]), version)
    return [(version, plural) for (_, plural), version in found.items()]


def _root(group_version: str) -> str:
    return f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
