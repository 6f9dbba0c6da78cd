"""Settings of the gateway: what the hub could not use is refused."""

from typing import Any

import pytest

from karmada_vc_agent.config.checks import problems, raise_first
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.settings import AgentConfig, GatewaySettings, ObjectSettings
from tests.fakes import objects

ON: dict[str, Any] = {"enabled": True, "host": "gateway.edge-1.example"}


def problem(gateway: dict[str, Any], **settings: Any) -> str:
    """Check settings that must be refused; return the one line of it."""
    config = AgentConfig(
        virtual_clusters=(objects.virtual_cluster("branch-a"),),
        gateway=GatewaySettings(**gateway),
        **settings,
    )
    with pytest.raises(ConfigError) as raised:
        raise_first(problems(config), "file")
    return str(raised.value).removeprefix("file: ")


def test_gateway_is_off_by_default() -> None:
    assert not AgentConfig().gateway.enabled
    assert GatewaySettings().problem() is None


def test_endpoint_ends_in_a_slash() -> None:
    assert GatewaySettings(**ON).endpoint("branch-a") == (
        "https://gateway.edge-1.example:8443/virtualclusters/branch-a/"
    )


def test_address_of_version_6_is_in_brackets() -> None:
    assert GatewaySettings(host="fd00::1", port=1).endpoint("a").startswith("https://[fd00::1]:1/")


@pytest.mark.parametrize("host", ["gateway.example", "10.0.0.1", "fd00::1"])
def test_host_is_a_name_or_an_address(host: str) -> None:
    assert GatewaySettings(enabled=True, host=host).problem() is None


@pytest.mark.parametrize(
    "url", ["https://proxy:8090", "http://10.0.0.1:3128", "socks5://[fd00::1]:1080", "https://p/"]
)
def test_proxy_that_the_hub_can_use_is_taken(url: str) -> None:
    assert GatewaySettings(**ON, proxy_url=url).problem() is None


@pytest.mark.parametrize(
    "url",
    [
        "https://user@proxy:8090",
        "https://:secret@proxy",
        "socks4://proxy",
        "proxy:8090",
        "https://proxy:99999",
        "https://proxy:0",
        "https://:8090",
        "https://[x]:8090",
        "https://proxy/path",
        "https://proxy?x=1",
    ],
)
def test_proxy_that_the_hub_cannot_use_is_refused_without_its_password(url: str) -> None:
    assert problem(ON | {"proxy_url": url}) == (
        "gateway.proxyURL: is not http://host:port, https://host:port or socks5://host:port, "
        "without a user, with which the hub's exec and attach would fail, and without a path"
    )


@pytest.mark.parametrize(
    ("gateway", "told"),
    [
        ({"enabled": True}, "gateway.host: is not set; the gateway needs it"),
        (ON | {"ca_file": ""}, "gateway.caFile: is not set; the gateway needs it"),
        (ON | {"bind_address": "0"}, "gateway.bindAddress: is not set; the gateway needs it"),
        (ON | {"host": "a_b"}, 'gateway.host: "a_b" is not a valid DNS name or IP address'),
        (ON | {"port": 0}, "gateway.port: is 0, must be between 1 and 65536"),
    ],
)
def test_mistake_is_reported_with_its_path(gateway: dict[str, Any], told: str) -> None:
    assert problem(gateway) == told


def test_any_name_is_refused_with_the_gateway() -> None:
    told = problem(ON, objects=ObjectSettings(enabled=True, any_name=True))
    assert told.startswith("gateway.enabled: is true, must be false with objects.anyName: ")


def test_gateway_needs_the_policies() -> None:
    told = problem(ON, install_policies=False)
    assert told.startswith("gateway.enabled: is true, must be false without installPolicies: ")
