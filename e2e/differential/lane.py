"""One of the two clusters that are compared, and what can be read of it.

Both lanes have the same hub; each has a host, a Cluster and a namespace of its own, so that
nothing of the one shows up in the status of the other's templates.
"""

from dataclasses import dataclass, field

from e2e.lab.api import Api, ApiError, Object, collection, collection_of
from e2e.lab.works import execution_namespace, works_path

NODE_COUNT = 2


class View:
    """Lists of one API server, each read once until `look_again`."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._lists: dict[str, list[Object]] = {}

    def look_again(self) -> None:
        """Forget what was read."""
        self._lists.clear()

    def list(self, path: str) -> list[Object]:
        """Return the objects of a collection; none where the server has no such kind."""
        if path not in self._lists:
            try:
                self._lists[path] = self._api.list(path)
            except ApiError as error:
                if error.code != 404:
                    raise
                self._lists[path] = []
        return self._lists[path]

    def find(self, obj: Object) -> Object | None:
        """Return the object of this kind, namespace and name as it is now."""
        name = obj["metadata"]["name"]
        kind = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}  # items of lists have none
        found = self.list(collection_of(obj))
        return next((kind | one for one in found if one["metadata"]["name"] == name), None)


@dataclass(frozen=True)
class Lane:
    """A Cluster, its host, and the agent that serves it.

    tag: also the name of the namespace on the hub that the cases share.
    rival: the Cluster of the other lane; Namespaces go to both.
    selector: the labels of its nodes; what our agent adds to pods.
    is_mapped: whether the host has names of its own, as with our agent.
    """

    title: str
    tag: str
    rival: str
    hub: Api
    host: Api
    selector: dict[str, str]
    is_mapped: bool
    on_hub: View = field(init=False)
    on_host: View = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "on_hub", View(self.hub))
        object.__setattr__(self, "on_host", View(self.host))

    @property
    def cluster(self) -> str:
        return cluster_of(self.tag)

    @property
    def execution_namespace(self) -> str:
        return execution_namespace(self.cluster)

    def look_again(self) -> None:
        """Forget what was read of hub and host."""
        self.on_hub.look_again()
        self.on_host.look_again()

    def host_name(self, name: str) -> str:
        """Return what the host calls a namespace, or an object without namespace."""
        return f"{name}-v-{self.cluster}" if self.is_mapped and name else name

    def host_identity(self, obj: Object) -> Object:
        """Return kind, namespace and name of the host object of a template."""
        metadata, kind = obj["metadata"], obj["kind"]
        namespace = metadata.get("namespace") or ""
        identity: Object = {"apiVersion": obj["apiVersion"], "kind": kind}
        if namespace:
            names = {"namespace": self.host_name(namespace), "name": metadata.get("name")}
        else:
            is_shared = kind in SHARED_KINDS
            names = {"name": metadata["name"] if is_shared else self.host_name(metadata["name"])}
        return identity | {"metadata": names}

    def find_on_host(self, obj: Object) -> Object | None:
        """Return the host object of a template."""
        return self.on_host.find(self.host_identity(obj))

    def works(self) -> list[Object]:
        """Return all Works of the Cluster."""
        return self.on_hub.list(works_path(self.cluster))

    def works_of(self, obj: Object) -> list[Object]:
        """Return the Works with a manifest of this kind, namespace and name."""
        return [work for work in self.works() if any(is_same(m, obj) for m in manifests(work))]

    def events(self, namespace: str) -> list[Object]:
        return self.on_hub.list(collection("v1", "Event", namespace or "default"))


def cluster_of(tag: str) -> str:
    """Return the name of a lane's Cluster."""
    return f"{tag}-member"


SHARED_KINDS = frozenset(
    ("CustomResourceDefinition", "StorageClass", "IngressClass", "PriorityClass", "RuntimeClass")
)
"""Kinds whose objects keep their names on a host of several virtual clusters."""


def manifests(work: Object) -> list[Object]:
    """Return the manifests of a Work."""
    found: list[Object] = (work["spec"].get("workload") or {}).get("manifests") or []
    return found


def is_same(one: Object, other: Object) -> bool:
    """Whether both have the same kind, namespace and name."""
    return _identity(one) == _identity(other)


def _identity(obj: Object) -> tuple[str, str, str, str]:
    metadata = obj.get("metadata") or {}
    return (
        str(obj.get("apiVersion")),
        str(obj.get("kind")),
        str(metadata.get("namespace") or ""),
        str(metadata.get("name") or ""),
    )
