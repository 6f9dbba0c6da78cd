"""SharedNames: what counts as taken beside Ingresses, and which informers are asked."""

import pytest

from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.discovery import Discovery, Resource, ServedApis
from karmada_vc_agent.kube.informers import InformerSet
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import GroupVersionKind, Object, parse_api_version
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL
from karmada_vc_agent.translation.guards import shared_names
from karmada_vc_agent.work.shared_objects import NAME_INDEX, SharedNames
from tests.fakes import served
from tests.fakes.api_server import FakeApiServer

WATCHED = frozenset(("list", "watch"))


class Listed(InformerSet):
    """Informers that have listed these objects."""

    def __init__(self, *objects: Object) -> None:
        self._store: Store[Object] = Store(RawCodec(), {NAME_INDEX: shared_names})
        self._store.replace_all(objects)

    def stores(self) -> dict[str, Store[Object]]:
        return {"": self._store}


class NothingServed(Discovery):
    def __init__(self) -> None:
        self.served = ServedApis([], is_complete=True, by_kind={})


def ingress(cluster: str) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {
            "name": "prices",
            "namespace": f"edge-v-{cluster}",
            "uid": cluster,
            "resourceVersion": "1",
            "labels": {CLUSTER_LABEL: cluster},
        },
        "spec": {"rules": [{"host": "prices.example"}]},
    }


def test_host_of_another_is_reported() -> None:
    names = SharedNames(Listed(ingress("branch-a")), NothingServed(), lambda _: None)
    with names.taking(ingress("branch-b"), None) as taken:
        assert taken == ("prices.example",)


def test_own_host_is_not_reported() -> None:
    names = SharedNames(Listed(ingress("branch-a")), NothingServed(), lambda _: None)
    with names.taking(ingress("branch-a"), ingress("branch-a")) as taken:
        assert taken == ()


async def test_one_informer_for_each_kind_with_names_is_needed() -> None:
    kinds = [
        ("gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes", WATCHED),
        ("gateway.networking.k8s.io/v1beta1", "HTTPRoute", "httproutes", WATCHED),
        ("networking.k8s.io/v1", "Ingress", "ingresses", WATCHED),
        ("gateway.networking.k8s.io/v1", "Gateway", "gateways", frozenset(("list",))),
        ("apps/v1", "Deployment", "deployments", WATCHED),
    ]
    by_kind: dict[GroupVersionKind, Resource] = {}
    for api_version, kind, plural, verbs in kinds:
        gvk = parse_api_version(api_version, kind)
        by_kind[gvk] = Resource(gvk, plural, namespaced=True, verbs=verbs)
    async with FakeApiServer(served.HOST) as host:
        client = host.client("host")
        discovery = Discovery(client)
        discovery.served = ServedApis([], is_complete=True, by_kind=by_kind)
        informers = InformerSet(client, {}, lambda *_: None, {NAME_INDEX: shared_names})
        names = SharedNames(informers, discovery, lambda _: None, lambda _cluster: True)
        assert not informers.stores()
        with pytest.raises(RetryError):
            await names.wait_listed(ingress("branch-a"))
        assert len(informers.stores()) == 2
