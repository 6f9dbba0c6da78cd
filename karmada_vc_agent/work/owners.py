"""Which Work, and which manifest of it, an object of the host is from.

Objects name their Work in an annotation, and those made for them are traced up their owners. A
tenant with rights in a namespace may have written either: the Work has to be one of the same
virtual cluster, and what counts as its object has to be among its manifests.
"""

from typing import NamedTuple

from cachetools import LRUCache

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery, Resource
from karmada_vc_agent.model.objects import (
    Object,
    annotations_of,
    gvk_of,
    key_of,
    parse_api_version,
    uid_of,
)
from karmada_vc_agent.model.vocabulary import WORK_ANNOTATION, execution_namespace
from karmada_vc_agent.translation.context import NAMES_ANNOTATION
from karmada_vc_agent.work.rules.apply_plan import object_id
from karmada_vc_agent.work.works import Works, manifests_of

OWNERS_AT_MOST = 6
"""How far up a chain of owners to search for a Work; Pod, ReplicaSet, Deployment are three."""
REMEMBERED = 4096
NAMES_AT_MOST = 8192
"""Characters of recorded names that are remembered of an object: a tenant may write many."""


class Place(NamedTuple):
    """A namespace of a virtual cluster, by its names on host and hub."""

    cluster: str
    host: str
    virtual: str


class ObjectOrigin(NamedTuple):
    """The Work of an object; root: identity and recorded names of what it was made into."""

    work: str
    root: Object


_Id = tuple[Place, str, str]
"""Where an object is, its name and UID: who asks by a UID alone may have invented it."""


class Owners:
    """Finds the Work of host objects; the result is remembered by their UIDs."""

    def __init__(self, host: ApiClient, discovery: Discovery, works: Works) -> None:
        self._host = host
        self._discovery = discovery
        self._works = works
        self._origins: LRUCache[_Id, ObjectOrigin] = LRUCache(REMEMBERED)

    async def origin(
        self, place: Place, resource: Resource, name: str, uid: str = ""
    ) -> ObjectOrigin | None:
        """Return the origin of an object, None if no Work is named on the way up.

        That is the first object made from a manifest of the Work it names, otherwise the first one
        that names a Work: controllers copy annotations. uid: of the object, if given.
        """
        cached = self._origins.get((place, name, uid)) if uid else None
        if cached is not None:
            return cached
        walked: list[_Id] = []
        named: ObjectOrigin | None = None
        obj = await self._get(resource, place.host, name)
        if obj is not None and uid and uid_of(obj) != uid:
            return None
        for _ in range(OWNERS_AT_MOST):
            if obj is None:
                break
            walked.append((place, obj["metadata"]["name"], uid_of(obj)))
            origin = self._origins.get(walked[-1]) or self._named(place.cluster, obj)
            if origin is not None and self._is_made_from(place, origin):
                self._origins.update(dict.fromkeys(walked, origin))
                return origin
            named = named or origin
            obj = await self._owner_of(obj, place.host)
        return named

    def _is_made_from(self, place: Place, origin: ObjectOrigin) -> bool:
        work = self.work(place.cluster, origin)
        return work is not None and manifest_of(work, origin.root, place.virtual) is not None

    def work(self, cluster: str, origin: ObjectOrigin) -> Object | None:
        """Return the Work of an origin, if it is still there."""
        return self._works.get(cluster, origin.work)

    def _named(self, cluster: str, obj: Object) -> ObjectOrigin | None:
        """Return the Work that an object names; a tenant may have written that of another."""
        namespace, _, name = annotations_of(obj).get(WORK_ANNOTATION, "").partition("/")
        if namespace != execution_namespace(cluster) or self._works.get(cluster, name) is None:
            return None
        return ObjectOrigin(name, _without_content(obj))

    async def _owner_of(self, obj: Object, namespace: str) -> Object | None:
        references = obj["metadata"].get("ownerReferences") or []
        reference = next((r for r in references if r.get("controller")), None)
        if reference is None:
            return None
        resource = await self._discovery.find(
            parse_api_version(reference["apiVersion"], reference["kind"])
        )
        if resource is None or not resource.namespaced:
            return None
        owner = await self._get(resource, namespace, reference["name"])
        return owner if owner and uid_of(owner) == reference["uid"] else None

    async def _get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return an object; a tenant may have written its kind and name, whatever they are."""
        return await self._host.look_up(resource.path(namespace, name))


def _without_content(obj: Object) -> Object:
    """Return what of an object is remembered."""
    recorded = annotations_of(obj).get(NAMES_ANNOTATION, "")
    metadata = {key: obj["metadata"][key] for key in ("namespace", "name")}
    is_kept = 0 < len(recorded) <= NAMES_AT_MOST
    metadata["annotations"] = {NAMES_ANNOTATION: recorded} if is_kept else {}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}


def manifest_of(work: Object, root: Object, namespace: str) -> Object | None:
    """Return the manifest of a Work that an object in a virtual namespace was made from."""
    desired = gvk_of(root).group_kind, namespace, key_of(root).name
    return next((each for each in manifests_of(work) if object_id(each) == desired), None)
