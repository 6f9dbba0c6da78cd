"""How an endpoint is tried: through the hub's proxy where that can be reached from here."""

import socket
from typing import Any

import pytest

from control_planes.pki import Authority
from karmada_vc_agent.features.gateway.gateway_controllers import ProbedEndpoint, probe


@pytest.fixture
def endpoint() -> ProbedEndpoint:
    """Return one at which nobody listens, behind a proxy of a name that only the hub knows."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    authorities = Authority("ca").key_pair.certificate
    url, proxy = f"https://127.0.0.1:{port}/virtualclusters/a/", "https://proxy.example:8090"
    return ProbedEndpoint(url, "token", authorities, proxy)


def unresolvable_proxy(host: Any, *arguments: Any, **named: Any) -> Any:
    if host == "proxy.example":
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return _ask(host, *arguments, **named)


_ask = socket.getaddrinfo


async def test_proxy_of_a_name_that_is_unknown_here_is_left_out(
    endpoint: ProbedEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", unresolvable_proxy)
    problem = await probe(endpoint)
    assert problem is not None
    assert "Connect" in problem
    assert "proxy" not in problem


async def test_name_of_the_endpoint_itself_must_resolve(
    endpoint: ProbedEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", unresolvable_proxy)
    there = "https://proxy.example:1/virtualclusters/a/"
    problem = await probe(ProbedEndpoint(there, "token", endpoint.authorities))
    assert problem is not None
    assert "Name or service not known" in problem
