"""`karmada-vc-agent gateway`: its options, and the process until a signal ends it."""

import asyncio
import signal
import sys
from functools import partial
from typing import Any, NoReturn

import click
from msgspec.structs import replace

from karmada_vc_agent.commands import shared_options
from karmada_vc_agent.commands.command_errors import EXIT_SETTINGS
from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.config.loading import load_config
from karmada_vc_agent.config.naming import camel
from karmada_vc_agent.config.reloading import Reloaded, reload
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.gateway.process import GatewayProcess
from karmada_vc_agent.kube.connections import limit_tls_buffers
from karmada_vc_agent.kube.credentials import Credentials
from karmada_vc_agent.kube.kubeconfig import KubeconfigError, find_credentials, pod_namespace
from karmada_vc_agent.runner.ending import call_on, stop_on_signals
from karmada_vc_agent.runner.settings_follower import SettingsFollower, digest_of
from karmada_vc_agent.telemetry.logs import start_logging
from karmada_vc_agent.translation.names import NamespaceTemplate

TLS_BUFFER_BYTES = 32 * 1024
"""Half of what the agent has: each watch has two connections. Smaller ones slow lists down."""
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
_OPTIONS = (
    *("bind_address", "cert_file", "private_key_file"),
    *("health_probe_bind_address", "metrics_bind_address"),
)


@click.command(epilog=_EPILOG, short_help="Serve each virtual cluster as a cluster of its own.")
@click.option(
    "--config",
    "config_path",
    type=shared_options.FilePath(),
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
def gateway(**options: Any) -> None:
    """Serve each virtual cluster as a cluster of its own, confined to what is its own.

    Clients are Karmada, with the tokens that the agent made, and operators of the site, with a
    kubeconfig. What they may do is decided by RBAC of the host. The gateway keeps no state: any
    number of replicas may run. It never asks the hub.
    """
    path = options["config_path"]
    digest = digest_of(path)
    try:
        config = _config(options)
        credentials = find_credentials(config.kubeconfig, in_cluster_first=True)
        start_logging(config.log_level, config.log_format)
    except (ConfigError, KubeconfigError) as error:
        _end(str(error))
    follower = SettingsFollower(path, digest, partial(_reloaded, config, options))
    limit_tls_buffers(TLS_BUFFER_BYTES)
    try:
        with asyncio.Runner() as runner:
            runner.run(_run_until_signal(config, credentials, follower))
    except ConfigError as error:
        _end(str(error))


def _config(options: dict[str, Any]) -> AgentConfig:
    """Return the settings with what the flags say. Raises ConfigError."""
    given = {"kubeconfig": options["kubeconfig"] or None}
    config = load_config(options["config_path"], given)
    if not config.gateway.enabled:
        problem = "is false, must be true for the gateway to serve"
        raise ConfigError(str(options["config_path"]), "gateway.enabled", problem)
    try:
        NamespaceTemplate.parse(config.namespace_template)
    except ValueError as error:
        source = str(options["config_path"])
        raise ConfigError(source, camel("namespace_template"), str(error)) from error
    flags = {name: options[name] for name in _OPTIONS if options[name] is not None}
    namespace = config.agent_namespace or pod_namespace() or config.agent_name
    gateway = replace(config.gateway, **flags)
    if (wrong := gateway.problem()) is not None:
        name, problem = wrong  # of a flag: what the file says was checked
        flag = next((f"--{o.replace('_', '-')}" for o in flags if camel(o) == name), name)
        raise ConfigError("flags", flag, problem)
    return replace(config, agent_namespace=namespace, gateway=gateway)


def _reloaded(running: AgentConfig, options: dict[str, Any]) -> Reloaded:
    """Return the settings in use with those of the file as it is now. Raises ConfigError."""
    config, at_restart = reload(running, _config(options))
    return Reloaded(config, at_restart)


async def _run_until_signal(config: AgentConfig, host: Credentials, file: SettingsFollower) -> None:
    stop = asyncio.Event()
    call_on(signal.SIGHUP, file.reload)
    stop_on_signals(stop)
    await GatewayProcess(config, host, file=file).run(stop)


def _end(text: str) -> NoReturn:
    click.echo(f"karmada-vc-agent: {text}", err=True)
    sys.exit(EXIT_SETTINGS)
