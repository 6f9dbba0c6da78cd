"""The command line: `run`, and where the other commands are. It decides nothing."""

import asyncio
import importlib
import logging
import os
import signal
import ssl
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from msgspec.structs import replace

from karmada_vc_agent.agent import Agent
from karmada_vc_agent.cluster.lease import NODE_VARIABLE
from karmada_vc_agent.commands import shared
from karmada_vc_agent.config.checks import raise_first
from karmada_vc_agent.config.decoding import VARIABLE_PREFIX, ConfigError, Setting, camel, flags_of
from karmada_vc_agent.config.loading import load_config, reload, with_profile_defaults
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.feature_list import CONFIG, FEATURES
from karmada_vc_agent.kube.https import ServingCertificate
from karmada_vc_agent.kube.kubeconfig import find_credentials, pod_namespace
from karmada_vc_agent.kube.leader_election import LeadLostError
from karmada_vc_agent.kube.transport import limit_tls_buffers
from karmada_vc_agent.model import versions
from karmada_vc_agent.model.quantity import Duration
from karmada_vc_agent.runner.common import all_problems
from karmada_vc_agent.runner.process import SettingsFollower, call_on, digest_of, stop_on_signals
from karmada_vc_agent.telemetry import endpoints

_log = logging.getLogger(__name__)

_CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

_OTHER_COMMANDS = {
    "doctor": "karmada_vc_agent.diagnosis.doctor",
    "join": "karmada_vc_agent.install.join",
    "explain": "karmada_vc_agent.diagnosis.explain",
    "status": "karmada_vc_agent.diagnosis.status",
    "leave": "karmada_vc_agent.install.leave",
    **{name: module for feature in FEATURES for name, module in feature.commands.items()},
}
"""Command -> its module, imported when called: `run` does not pay their memory."""


class _Commands(click.Group):
    """The group of all commands; imports some of them lazily."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted((*super().list_commands(ctx), *_OTHER_COMMANDS))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _OTHER_COMMANDS.get(cmd_name)
        if module is None:
            return super().get_command(ctx, cmd_name)
        command = getattr(importlib.import_module(module), cmd_name.replace("-", "_"))
        return command if isinstance(command, click.Command) else None

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; one that Ctrl-C ends has the exit code that shells expect."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("\nAborted!", err=True)
            sys.exit(128 + signal.SIGINT)


@click.group(cls=_Commands, context_settings={"obj": CONFIG, **_CONTEXT})
@click.version_option(package_name="karmada-vc-agent", message="%(prog)s %(version)s")
def main() -> None:
    """Serve groups of nodes of this cluster as Clusters of a Karmada control plane."""


def _flags(command: Callable[..., None]) -> Callable[..., None]:
    for setting in reversed(flags_of(CONFIG)):
        is_switch = setting.kind is bool
        command = click.option(
            f"{setting.flag}/--no-{setting.flag[2:]}" if is_switch else setting.flag,
            setting.name,
            default=None,
            # config reports an invalid number in one line
            type=_Switch() if is_switch else str,
            metavar=None if is_switch else _metavar(setting),
            help=setting.plain_help + _default(setting),
        )(command)
    return command


class _Switch(click.types.BoolParamType):
    """True or false; config reports other values in one line."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            return value


def _metavar(setting: Setting) -> str:
    if setting.choices:
        return "|".join(setting.choices)
    return {Duration: "DURATION", int: "NUMBER", float: "NUMBER", str: "TEXT"}[setting.kind]


def _default(setting: Setting) -> str:
    zero = setting.range.zero if setting.range else ""
    notes = [f"default: {setting.default_text}"] if setting.default_text else []
    notes += [f"0: {zero}"] if zero else []
    return f"  [{'; '.join(notes)}]" if notes else ""


@main.command(
    cls=shared.KarmadaFlags,
    epilog=shared.examples("run"),
    short_help="Run the agent.",
    context_settings={"auto_envvar_prefix": VARIABLE_PREFIX, **_CONTEXT},
)
@click.option(
    "--config",
    "config_path",
    type=shared.FilePath(),
    help="Settings file (kind AgentConfig); flags override it.",
)
@click.option(
    "--reregister",
    multiple=True,
    metavar="NAME",
    help="Register this virtual cluster again even though its Cluster was deleted on the hub.",
)
@_flags
def run(config_path: Path | None, reregister: tuple[str, ...], **flags: Any) -> None:
    """Run the agent: register the virtual clusters and serve them until it is stopped.

    Most settings can be set in the file (camelCase), by environment variable (KARMADA_VC_AGENT_ and
    the name) and by flag. Flags override the environment, which overrides the file.

    The agent reads the file again when it changes, and on SIGHUP: virtual clusters and their
    sources are added, changed and removed while it runs. Other settings take effect at the next
    start.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is a follower
    read = partial(read_settings, config_path, flags, _variables())
    digest = digest_of(config_path) if config_path is not None else b""
    with shared.one_line_errors():
        given = read()
        if unknown := set(reregister) - {vc.name for vc in given.virtual_clusters}:
            problem = f'"{min(unknown)}" is not a virtual cluster of the settings'
            raise ConfigError("flags", "--reregister", problem)
        config = with_profile_defaults(given, given.agent_namespace)
        hub = find_credentials(
            config.karmada_kubeconfig, config.karmada_context, flag="--karmada-kubeconfig"
        )
        host = find_credentials(config.kubeconfig, in_cluster_first=True)
    endpoints.start_logging(config.log_level, config.log_format)
    follower = None
    if config_path is not None:
        reread = partial(reload_settings, given, read, config_path)
        follower = SettingsFollower(config_path, digest, reread)
    warn_of_other_manifests(os.environ.get(versions.MANIFESTS_VARIABLE, versions.OWN))
    node = os.environ.get(NODE_VARIABLE, "")
    agent = Agent(config, hub, host, frozenset(reregister), node=node, settings=follower)
    sys.exit(_serve(agent, config))


def warn_of_other_manifests(version: str) -> None:
    """Warn of a Deployment of another version than the image: rights and policies may be, too."""
    if version != versions.OWN:
        text = "The manifests are of another version than the image; use join or chart of its own"
        _log.warning(text, extra={"manifests": version, "image": versions.OWN})


def read_settings(
    path: Path | None, flags: Mapping[str, Any], variables: Mapping[str, str]
) -> AgentConfig:
    """Return the settings of file, environment and flags. Raises ConfigError."""
    config = load_config(CONFIG, path, flags, variables, all_problems)
    namespace = config.agent_namespace or pod_namespace() or config.agent_name
    return replace(config, agent_namespace=namespace)


def reload_settings(
    running: AgentConfig, read: Callable[[], AgentConfig], path: Path
) -> tuple[AgentConfig, tuple[str, ...]]:
    """Return what a running agent takes of its settings as they are now. Raises ConfigError."""
    config, at_restart = reload(running, read())
    try:
        raise_first(all_problems(config), str(path))
    except ConfigError as error:
        if not at_restart:
            raise
        # The file is good as a whole: what is missing is a setting that is not taken now.
        problem = f"{error.problem}; restart the agent to use {', '.join(at_restart)} of the file"
        raise ConfigError(str(path), error.path, problem) from error
    return with_profile_defaults(config, config.agent_namespace), at_restart


def _variables() -> dict[str, str]:
    context = click.get_current_context()
    return {
        name: f"{context.auto_envvar_prefix}_{name.upper()}"
        for name in context.params
        if context.get_parameter_source(name) is ParameterSource.ENVIRONMENT
    }


def _serve(agent: Agent, config: AgentConfig) -> int:
    limit_tls_buffers()
    try:
        asyncio.run(_run_until_signal(agent, config))
    except (ConfigError, LeadLostError, BaseExceptionGroup) as error:
        return _exit_code(error)
    return 0


def _exit_code(error: BaseException) -> int:
    """Log why the agent exits; a bug propagates."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, LeadLostError):
        _log.error("Exiting: leader election lost", extra={"reason": str(error)})
        return shared.EXIT_FAILED
    if isinstance(error, ConfigError):
        click.echo(f"karmada-vc-agent: {error}", err=True)
        return shared.EXIT_SETTINGS
    raise error


def metrics_tls(directory: str, tasks: AsyncExitStack) -> ssl.SSLContext:
    """Return the context for /metrics, by the certificate of a directory if it has one."""
    if directory:
        try:
            certificate = ServingCertificate(Path(directory, "tls.crt"), Path(directory, "tls.key"))
        except OSError as error:
            text = "Serving metrics with a self-signed certificate, which clients cannot verify"
            _log.info(text, extra={"reason": str(error)})
        else:
            tasks.callback(asyncio.create_task(certificate.run()).cancel)
            return certificate.context
    from karmada_vc_agent.kube.new_keys import serving_context  # noqa: PLC0415 - 10 MB

    return serving_context()


async def _run_until_signal(agent: Agent, config: AgentConfig) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    call_on(signal.SIGHUP, agent.reload_settings)
    readers, tls = None, None
    if not config.metrics_secure and not endpoints.is_local(config.metrics_bind_address):
        text = "Serving metrics to anyone who can reach their address; see --metrics-secure"
        _log.warning(text, extra={"address": config.metrics_bind_address})
    health = endpoints.health_routes(agent.liveness, agent.readiness)
    async with AsyncExitStack() as servers:
        if config.metrics_secure:
            readers = agent.metrics_readers.refusal
            tls = metrics_tls(config.metrics_cert_dir, servers)
        for setting, routes, context in (
            ("health_probe_bind_address", health, None),
            ("metrics_bind_address", endpoints.metrics_routes(agent.metrics.text, readers), tls),
        ):
            try:
                runner = await endpoints.serve(getattr(config, setting), routes, context)
            except OSError as error:
                raise ConfigError(
                    "settings", camel(setting), endpoints.listen_failure(error)
                ) from error
            if runner is not None:
                servers.push_async_callback(runner.cleanup)
        await agent.run(stop)
