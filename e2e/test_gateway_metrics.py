"""The gateway's /metrics is for whom the host allows to read it, not for its own clients."""

import base64
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import urllib3

from e2e.lab import accounts
from e2e.lab.api import path_of
from e2e.lab.endpoints import Endpoints
from e2e.lab.gateway import Gateway, Way
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import PERIODIC_S, within

pytestmark = pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
URL_RULE = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}


class Served(NamedTuple):
    """A gateway with a virtual cluster, by its own account, and where it answers itself."""

    lab: Lab
    group: Group
    endpoints: Endpoints


@pytest.fixture(name="served")
def serve(lab: Lab) -> Iterator[Served]:
    group, endpoints = lab.group("a"), Endpoints.new()
    gateway = Gateway(lab, Way(lab.directory, by_proxy=False))
    gateway.settings["healthProbeBindAddress"] = endpoints.health
    gateway.settings["metricsBindAddress"] = endpoints.metrics
    gateway.start(lab.serve(group, gateway=gateway.settings))
    try:
        within(PERIODIC_S, _assert_ready, endpoints)
        yield Served(lab, group, endpoints)
    finally:
        gateway.stop()


def _assert_ready(endpoints: Endpoints) -> None:
    assert endpoints.ask("/readyz") == (200, "ok")


@pytest.fixture(name="reader")
def allow(served: Served) -> Iterator[str]:
    """Return the token of somebody who may read /metrics, as Prometheus may."""
    lab = served.lab
    namespace, name = f"{lab.id}-agent", f"{lab.id}-metrics"
    account = accounts.service_account(lab.host, namespace, "reader", lab.directory)
    made = [
        lab.host.create(accounts.cluster_role(name, URL_RULE)),
        lab.host.create(accounts.cluster_role_binding(name, accounts.subject(namespace, "reader"))),
    ]
    yield accounts.token_of(account)
    for obj in made:
        lab.host.delete(path_of(obj))


def test_who_may_read_metrics_is_served(served: Served, reader: str) -> None:
    def look() -> None:
        status, text = served.endpoints.read_metrics(reader)
        assert (status, "gateway_requests_total{" in text) == (200, True), text[:300]
        assert f'member_cluster="{served.group.name}"' in text

    within(PERIODIC_S, look)


def test_tenants_and_those_without_a_token_are_refused(served: Served) -> None:
    """A Pod of a tenant has a token that the host knows, a client of the gateway has not."""
    lab, endpoints = served.lab, served.endpoints
    space = served.group.host_namespace("default")
    pod = accounts.service_account(lab.host, space, "web", lab.directory)
    status, text = endpoints.read_metrics(accounts.token_of(pod))
    assert (status, "nonResourceURLs [/metrics]" in text) == (403, True), text
    assert endpoints.read_metrics()[0] == 401
    secret = f"/api/v1/namespaces/karmada-cluster/secrets/{served.group.name}"
    of_karmada = within(PERIODIC_S, lab.hub.get, secret)["data"]["token"]
    assert endpoints.read_metrics(base64.b64decode(of_karmada).decode())[0] == 401
    with pytest.raises((urllib3.exceptions.HTTPError, AssertionError)):
        endpoints.scrape()
    assert endpoints.ask("/healthz") == (200, "ok")
    assert endpoints.ask("/metrics")[0] == 404
