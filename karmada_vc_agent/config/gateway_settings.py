"""Settings of the gateway, which shows each virtual cluster as a cluster of its own."""

import re
from typing import Annotated

import msgspec

from karmada_vc_agent.config.declared import camel
from karmada_vc_agent.model.setting import Range
from karmada_vc_agent.model.texts import is_host, listen_problem

_PROXY = re.compile(r"(https?|socks5)://(?P<host>\[[^]]*\]|[^]@:/?#[]+)(:(?P<port>[0-9]{1,5}))?/?")
_PORT_BELOW = 65536
_LISTENS = ("bind_address", "health_probe_bind_address", "metrics_bind_address")


class GatewaySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename=camel):
    """How the hub reaches virtual clusters: for kubectl-karmada, search, metrics."""

    enabled: bool = False
    """Publish an endpoint and credentials in each Cluster, so that the hub reaches the virtual
    cluster through the gateway ([gateway](gateway.md)). Run `karmada-vc-agent join` after changing
    it. Not with `objects.anyName`, nor without `installPolicies`."""
    host: str = ""
    """DNS name or IP address of the gateway, as the hub or the agent of its proxy resolves it; its
    certificate has this name. Each host needs a name of its own."""
    port: Annotated[int, Range(1, _PORT_BELOW)] = 8443
    """Port of the gateway."""
    proxy_url: str = ""
    """URL of the proxy through which the hub connects to the gateway, such as the frontend of
    apiserver-network-proxy; empty = directly. http, https or socks5; no user."""
    ca_file: str = "/etc/karmada-vc-agent-gateway/ca.crt"
    """PEM file with the certificate authorities of the gateway and of an https proxy; read again
    when it changes."""
    bind_address: str = ":8443"
    """Address that the gateway listens on."""
    cert_file: str = "/etc/karmada-vc-agent-gateway/tls.crt"
    """PEM file with the certificate of the gateway; read again when it changes."""
    private_key_file: str = "/etc/karmada-vc-agent-gateway/tls.key"
    """PEM file with the key of that certificate; read again when it changes."""
    health_probe_bind_address: str = ":10358"
    """Address of the gateway's /healthz and /readyz; 0 disables them."""
    metrics_bind_address: str = ":10359"
    """Address of the gateway's /metrics, over TLS with its certificate, and only to tokens that the
    host authorizes ([metrics](metrics.md#who-may-read-them)); 0 disables it."""
    max_requests: Annotated[int, Range(1)] = 200
    """Requests of one virtual cluster at once; further ones get 429."""
    max_long_requests: Annotated[int, Range(1)] = 1000
    """Watches, followed logs and upgrades of one virtual cluster at once."""
    audit: bool = True
    """Write a line of JSON to standard output for each request, without bodies."""

    def problem(self) -> tuple[str, str] | None:
        """Return the name of the first invalid setting in the file and what is wrong, or None."""
        for name in _LISTENS:
            if problem := listen_problem(getattr(self, name), may_be_off=name != "bind_address"):
                return camel(name), problem
        if self.proxy_url and (problem := _proxy_problem(self.proxy_url)):
            return "proxyURL", problem
        if self.host and not is_host(_in_url(self.host)):
            return "host", f'"{self.host}" is not a valid DNS name or IP address'
        if not self.enabled:
            return None
        needed = ("host", "ca_file", "bind_address")
        missing = next((name for name in needed if getattr(self, name) in ("", "0")), None)
        return (camel(missing), "is not set; the gateway needs it") if missing else None

    def endpoint(self, cluster: str) -> str:
        """Return `spec.apiEndpoint` of a virtual cluster.

        With a slash at the end: without it the hub's `clusters/*` drops the last segment.
        """
        return f"https://{_in_url(self.host)}:{self.port}/virtualclusters/{cluster}/"


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _proxy_problem(url: str) -> str | None:
    """Return what is wrong with the URL of a proxy, or None; it is not shown, for its password.

    A user in it makes the hub's dialer of upgrades panic, so that exec and attach end.
    """
    match = _PROXY.fullmatch(url)
    if match and is_host(match["host"]) and 0 < int(match["port"] or 1) < _PORT_BELOW:
        return None
    return (
        "is not http://host:port, https://host:port or socks5://host:port, without a user, with "
        "which the hub's exec and attach would fail, and without a path"
    )
