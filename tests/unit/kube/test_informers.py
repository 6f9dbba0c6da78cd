"""InformerSet: what is told of, and what its writer knows already."""

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.informers import InformerSet
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import GroupVersionKind, Object

VERBS = frozenset(("get", "list", "watch"))
CONFIG_MAPS = Resource(GroupVersionKind("", "v1", "ConfigMap"), "configmaps", True, VERBS)


def obj(version: int) -> Object:
    metadata = {"name": "web", "namespace": "edge", "uid": "u1", "resourceVersion": str(version)}
    return {"kind": "ConfigMap", "metadata": metadata}


def new_store(client: ApiClient) -> tuple[Store[Object], list[Object | None]]:
    """Return a store of the set, and the objects that its listener is told of."""
    told: list[Object | None] = []
    informers = InformerSet(client, {}, lambda _, new: told.append(new))
    store = informers.store(CONFIG_MAPS)
    assert store is not None
    return store, told


async def test_what_its_writer_has_observed_is_not_told(client: ApiClient) -> None:
    store, told = new_store(client)
    store.observe(obj(1))
    store.apply(obj(1))
    assert told == []


async def test_what_comes_before_its_writer_observes_it_is_told(client: ApiClient) -> None:
    store, told = new_store(client)
    store.apply(obj(1))
    store.observe(obj(1))
    assert told == [obj(1)]


async def test_later_change_and_deletion_are_told(client: ApiClient) -> None:
    store, told = new_store(client)
    store.observe(obj(1))
    store.apply(obj(2))
    store.remove(obj(3))
    assert told == [obj(2), None]


async def test_resource_that_cannot_be_watched_has_no_store(client: ApiClient) -> None:
    resource = Resource(GroupVersionKind("", "v1", "Binding"), "bindings", True)
    assert InformerSet(client, {}, lambda _old, _new: None).store(resource) is None
