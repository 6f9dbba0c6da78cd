"""`karmada-vc-agent gateway`: its options, and the process until a signal ends it."""

import asyncio
import ctypes
import logging
import os
import signal
import ssl
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from karmada_vc_agent.commands import shared
from karmada_vc_agent.commands.shared import EXIT_SETTINGS
from karmada_vc_agent.config.decoding import ConfigError, camel
from karmada_vc_agent.config.loading import load_config, reload
from karmada_vc_agent.config.settings import AgentConfig, GatewaySettings
from karmada_vc_agent.features.gateway.host_state import HostState
from karmada_vc_agent.features.gateway.mapping.cluster_view import Sealer
from karmada_vc_agent.features.gateway.request_metrics import METRICS, RequestMeter, to_stdout
from karmada_vc_agent.features.gateway.server.connections import Listener
from karmada_vc_agent.features.gateway.server.fairness import Limits
from karmada_vc_agent.features.gateway.server.gateway import Gateway
from karmada_vc_agent.features.gateway.server.host_requests import HostRequests
from karmada_vc_agent.features.gateway.tokens import KEY_BYTES
from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import BearerReview
from karmada_vc_agent.kube.flows import Supervisor
from karmada_vc_agent.kube.https import ServingCertificate
from karmada_vc_agent.kube.kubeconfig import (
    CredentialsFollower,
    KubeconfigError,
    find_credentials,
    pod_namespace,
)
from karmada_vc_agent.kube.transport import Credentials, limit_tls_buffers
from karmada_vc_agent.runner.clients import REVIEWS_BURST, REVIEWS_QPS, URGENT
from karmada_vc_agent.runner.process import SettingsFollower, call_on, digest_of, stop_on_signals
from karmada_vc_agent.telemetry import endpoints
from karmada_vc_agent.telemetry.metrics import Metrics, build_info
from karmada_vc_agent.translation.context import NamespaceTemplate

_log = logging.getLogger(__name__)

GRACE_S = 15.0
"""How long requests in progress may take to end; tunnels are cut then."""
KEPT_S = 30.0
"""How long connections to the host are kept open."""
SWITCH_S = 0.0005
"""How long the loop waits, at each step, for a thread that translates; 5 ms is Python's own."""
QPS, BURST = 50.0, 100
"""Of the gateway's own reads; requests of clients are not held back by them."""


class _GatewayProcess:
    def __init__(self, config: AgentConfig, host: Credentials, file: SettingsFollower) -> None:
        settings = config.gateway
        if host.proxy:
            problem = "has a proxy-url, which the gateway does not use"
            raise ConfigError(host.source, "kubeconfig", problem)
        self._certificate = _certificate_of(settings)
        self._settings = settings
        self._file = file
        self._credentials = host
        self.metrics = Metrics((METRICS,))
        self.metrics.add_source(build_info)
        self._supervisor = Supervisor(self.metrics.part_restarted)
        self._client = ApiClient("host", host, qps=QPS, burst=BURST)
        self._follower = CredentialsFollower("host", host, self._use)
        # Of its own: any client of /metrics causes requests by it.
        self._reviews = ApiClient(
            "host", host, qps=REVIEWS_QPS, burst=REVIEWS_BURST, connections=2, timeouts=URGENT
        )
        self._metrics_readers = BearerReview(self._reviews.create, endpoints.METRICS_PATH)
        for client in (self._client, self._reviews):
            client.unauthorized.subscribe(self._follower.suspect)
        self._requests = HostRequests(host, suspect=self._follower.suspect)
        self.state = HostState(config, self._client, self._supervisor)
        self.state.file.replace_all(config.virtual_clusters)
        self._own_key = os.urandom(KEY_BYTES)
        limits = Limits(
            settings.max_requests,
            settings.max_long_requests,
            flows.raise_file_limit(),
            self.state.virtual_clusters.are_several,
        )
        meter = RequestMeter(self.metrics, limits.in_progress)
        audit = to_stdout if settings.audit else None
        self._gateway = Gateway(self.state, self._requests, self._sealer, limits, audit, meter)
        self._listener = Listener(self._certificate.context, self._gateway.handle)
        meter.connections = self._listener.count
        self._is_ending = False

    def readiness(self) -> dict[str, str | None]:
        """Return what keeps the gateway from its work, by part."""
        unlisted = self.state.unlisted()
        is_reachable = self._client.is_reachable
        return {
            "host": None if is_reachable else "the API server of the host does not answer",
            "lists": f"waiting for the first list of {', '.join(unlisted)}" if unlisted else None,
            "ending": "the gateway ends" if self._is_ending else None,
        }

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`. Raises ConfigError: an address that cannot be had."""
        sys.setswitchinterval(SWITCH_S)
        async with AsyncExitStack() as stack:
            for client in (self._client, self._reviews):
                stack.push_async_callback(client.close)
            stack.callback(self._requests.close)
            await self._serve_endpoints(stack)
            tasks = [
                asyncio.create_task(self._supervisor.keep(name, run, name), name=name)
                for name, run in self._runs().items()
            ]
            try:
                host, _, port = self._settings.bind_address.rpartition(":")
                try:
                    bound = await self._listener.start(host.strip("[]") or None, int(port))
                except OSError as error:
                    detail = endpoints.listen_failure(error)
                    raise ConfigError("settings", "gateway.bindAddress", detail) from error
                _log.info("Serving", extra={"port": bound, "host": self._credentials.server})
                await stop.wait()
                self._is_ending = True
                _log.info("Ending", extra={"connections": self._listener.count()})
                await self._listener.stop(GRACE_S, self._gateway.end_long)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def _runs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        # Whether what the file says can be served is the agent's to determine.
        settings = partial(self._file.run, lambda _: asyncio.sleep(0), self._served)
        return {
            **self.state.runs(),
            "settings": settings,
            "credentials": self._follower.run,
            "certificate": self._certificate.run,
            "upkeep": self._keep_up,
        }

    async def _serve_endpoints(self, stack: AsyncExitStack) -> None:
        health = endpoints.health_routes(dict, self.readiness)
        metrics = endpoints.metrics_routes(self.metrics.text, self._metrics_readers.refusal)
        for setting, routes, tls in (
            ("health_probe_bind_address", health, None),
            ("metrics_bind_address", metrics, self._certificate.context),
        ):
            try:
                runner = await endpoints.serve(getattr(self._settings, setting), routes, tls)
            except OSError as error:
                detail = endpoints.listen_failure(error)
                raise ConfigError("settings", f"gateway.{camel(setting)}", detail) from error
            if runner is not None:
                stack.push_async_callback(runner.cleanup)

    async def _keep_up(self) -> None:
        """Close connections that are kept open: API servers close what is idle for 90 s."""
        while True:
            await asyncio.sleep(KEPT_S)
            self._requests.close()

    def _served(self, settings: AgentConfig) -> None:
        self.state.file.replace_all(settings.virtual_clusters)

    def _use(self, credentials: Credentials) -> None:
        self._client.credentials = self._reviews.credentials = credentials
        self._requests.use(credentials)

    def _sealer(self) -> Sealer:
        """Return what seals tokens; without a key of the agent, one of this process does."""
        return Sealer(self.state.sealing_key or self._own_key)


def _certificate_of(settings: GatewaySettings) -> ServingCertificate:
    """Return the gateway's certificate with its key. Raises ConfigError."""
    certificate, key = Path(settings.cert_file), Path(settings.private_key_file)
    try:
        return ServingCertificate(certificate, key)
    except ssl.SSLError as error:
        detail = (
            f"{certificate} and {key} are not a certificate and its key in PEM ({error.reason})"
        )
        raise ConfigError("settings", "gateway.certFile", detail) from error
    except OSError as error:
        detail = f"{error.filename}: {error.strerror}"
        name = "privateKeyFile" if str(error.filename) == str(key) else "certFile"
        raise ConfigError("settings", f"gateway.{name}", detail) from error


TLS_BUFFER_BYTES = 32 * 1024
"""Half of what the agent has: each watch has two connections. Smaller ones slow lists down."""
MAPPED_BYTES = 2**20
"""Freed blocks above this are given back at once; by itself glibc keeps those of up to 32 MiB."""
_EPILOG = """\b
Examples:
  # beside the agent, with its settings, which have gateway: {enabled: true}
  karmada-vc-agent gateway --config agent.yaml
\b
  # outside the host cluster
  karmada-vc-agent gateway --config agent.yaml --kubeconfig gateway.kubeconfig \\
    --bind-address 10.0.0.7:8443 --cert-file tls.crt --private-key-file tls.key
\b
  # what a client calls
  kubectl --server https://10.0.0.7:8443/virtualclusters/branch-a --token "$TOKEN" \\
    --certificate-authority ca.crt get pods
"""


@click.command(epilog=_EPILOG, short_help="Serve each virtual cluster as a cluster of its own.")
@click.option(
    "--config",
    "config_path",
    type=shared.FilePath(),
    required=True,
    help="Settings file of the agent; its section gateway is this process's.",
)
@click.option("--kubeconfig", default="", help="Kubeconfig of the host. Default: as for run.")
@click.option("--bind-address", metavar="ADDRESS", help="Address to serve clients at.")
@click.option("--cert-file", metavar="FILE", help="Certificate with its chain, in PEM.")
@click.option("--private-key-file", metavar="FILE", help="Key of that certificate, in PEM.")
@click.option(
    "--health-probe-bind-address",
    metavar="ADDRESS",
    help="Address of /healthz and /readyz; 0 = none.",
)
@click.option(
    "--metrics-bind-address",
    metavar="ADDRESS",
    help="Address of /metrics, for tokens that the host authorizes; 0 = none.",
)
@click.pass_obj
def gateway(struct: type[AgentConfig], /, **options: Any) -> None:
    """Serve each virtual cluster as a cluster of its own, confined to what is its own.

    Clients are Karmada, with the tokens that the agent made, and operators of the site, with a
    kubeconfig. What they may do is decided by RBAC of the host. The gateway keeps no state: any
    number of replicas may run. It never asks the hub.
    """
    path = options["config_path"]
    digest = digest_of(path)
    try:
        config = _config(struct, options)
        credentials = find_credentials(config.kubeconfig, in_cluster_first=True)
        endpoints.start_logging(config.log_level, config.log_format)
    except (ConfigError, KubeconfigError) as error:
        shared.end(EXIT_SETTINGS, str(error))
    follower = SettingsFollower(path, digest, lambda: reload(config, _config(struct, options)))
    limit_tls_buffers(TLS_BUFFER_BYTES)
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:  # of glibc
        mallopt(-3, MAPPED_BYTES)  # M_MMAP_THRESHOLD
    try:
        with asyncio.Runner() as runner:
            runner.run(_run_until_signal(config, credentials, follower))
    except ConfigError as error:
        shared.end(EXIT_SETTINGS, str(error))


def _config(struct: type[AgentConfig], options: dict[str, Any]) -> AgentConfig:
    """Return the settings with what the flags say. Raises ConfigError."""
    given = {"kubeconfig": options["kubeconfig"] or None}
    config = load_config(struct, options["config_path"], given)
    if not config.gateway.enabled:
        problem = "is false, must be true for the gateway to serve"
        raise ConfigError(str(options["config_path"]), "gateway.enabled", problem)
    try:
        NamespaceTemplate.parse(config.namespace_template)
    except ValueError as error:
        source = str(options["config_path"])
        raise ConfigError(source, camel("namespace_template"), str(error)) from error
    settings = config.gateway.__struct_fields__
    flags = {name: options[name] for name in settings if options.get(name) is not None}
    namespace = config.agent_namespace or pod_namespace() or config.agent_name
    gateway = replace(config.gateway, **flags)
    if (wrong := gateway.problem()) is not None:
        name, problem = wrong  # of a flag: what the file says was checked
        flag = next((f"--{o.replace('_', '-')}" for o in flags if camel(o) == name), name)
        raise ConfigError("flags", flag, problem)
    return replace(config, agent_namespace=namespace, gateway=gateway)


async def _run_until_signal(config: AgentConfig, host: Credentials, file: SettingsFollower) -> None:
    stop = asyncio.Event()
    call_on(signal.SIGHUP, file.reload)
    stop_on_signals(stop)
    await _GatewayProcess(config, host, file).run(stop)
