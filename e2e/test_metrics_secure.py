"""With --metrics-secure, /metrics is for whom the host allows to read it, and for nobody else."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

from e2e.lab import accounts
from e2e.lab.api import path_of
from e2e.lab.endpoints import Endpoints
from e2e.lab.lab import FAST, Group, Lab
from e2e.lab.proxy import Proxy
from e2e.lab.wait import PERIODIC_S, within
from e2e.lab.webhook_server import self_signed

pytestmark = pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
NAME = "karmada-vc-agent"
URL_RULE = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}


@pytest.fixture
def wire(lab: Lab) -> Iterator[Proxy]:
    with Proxy(lab.host.kubeconfig, lab.directory / "wire") as proxy:
        yield proxy


@pytest.fixture
def endpoints(lab: Lab, wire: Proxy) -> Endpoints:
    """Those of an agent that serves."""
    endpoints = Endpoints.new()
    made = self_signed(lab.directory / "metrics", NAME)
    for file in (made, made.with_suffix(".key")):
        file.rename(file.with_stem("tls"))
    flags = (*FAST, *endpoints.flags(), "--metrics-secure", "--metrics-cert-dir", str(made.parent))
    group = Group(f"{lab.id}-a", {lab.label: "a"})
    lab.add_node(group, is_simulated=False)
    agent = lab.new_agent(group, flags=flags, host=wire.kubeconfig)
    agent.start()
    lab.wait_serving(agent)
    return endpoints


@pytest.fixture
def tokens(lab: Lab, endpoints: Endpoints) -> Iterator[tuple[str, str]]:
    """Tokens of somebody who may read /metrics, and of somebody who may not."""
    namespace = f"{lab.id}-agent"
    reader, other = (
        accounts.token_of(accounts.service_account(lab.host, namespace, name, lab.directory))
        for name in ("reader", "other")
    )
    name = f"{lab.id}-metrics"
    made = [
        lab.host.create(accounts.cluster_role(name, URL_RULE)),
        lab.host.create(accounts.cluster_role_binding(name, accounts.subject(namespace, "reader"))),
    ]
    yield reader, other
    for obj in made:
        lab.host.delete(path_of(obj))


def test_metrics_are_for_whom_the_host_allows(
    lab: Lab, endpoints: Endpoints, tokens: tuple[str, str], wire: Proxy
) -> None:
    reader, other = tokens

    def look() -> None:
        status, text = endpoints.read_metrics(reader)
        assert (status, "cluster_ready_state{" in text) == (200, True), text[:300]

    within(PERIODIC_S, look)
    _read_verified(endpoints, lab.directory / "metrics/tls.crt")
    status, text = endpoints.read_metrics(other)
    assert status == 403
    assert ":other" in text
    assert "nonResourceURLs [/metrics]" in text
    assert endpoints.read_metrics()[0] == 401
    assert endpoints.read_metrics(f"{reader[:-8]}AAAAAAAA")[0] == 401
    with pytest.raises((urllib3.exceptions.HTTPError, AssertionError)):
        endpoints.scrape()
    assert endpoints.ask("/healthz") == (200, "ok")

    wire.cut()
    assert endpoints.read_metrics(reader)[0] == 200
    assert endpoints.read_metrics("never seen")[0] == 503


def _read_verified(endpoints: Endpoints, authority: Path) -> None:
    """Read as Prometheus does by manifests/components/monitoring: by a name and an authority."""
    client = urllib3.PoolManager(
        retries=False, ca_certs=str(authority), server_hostname=NAME, assert_hostname=NAME
    )
    assert client.request("GET", f"https://{endpoints.metrics}/metrics").status == 401
