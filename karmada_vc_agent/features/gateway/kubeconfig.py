"""`karmada-vc-agent kubeconfig`: a virtual cluster for an operator at the site, by the gateway."""

import asyncio
import base64
import os
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import yaml

from karmada_vc_agent.commands import shared
from karmada_vc_agent.commands.shared import CommandError, one_line_errors
from karmada_vc_agent.config.checks import cluster_name_problem, is_dns_name
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.settings import GatewaySettings
from karmada_vc_agent.features.gateway.identity import AUDIENCE
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import AlreadyExistsError
from karmada_vc_agent.kube.kubeconfig import find_credentials, is_http_url
from karmada_vc_agent.kube.transport import Credentials, make_ssl_context
from karmada_vc_agent.model.objects import dig
from karmada_vc_agent.model.quantity import parse_duration_s
from karmada_vc_agent.model.vocabulary import AGENT_LABEL, CLUSTER_LABEL, NAMESPACE_LABEL
from karmada_vc_agent.translation.context import ANCHOR_NAMESPACE

SHORTEST_S = 600
"""API servers give no token for less."""
_EPILOG = """\b
Examples:
  # for eight hours, on standard output
  karmada-vc-agent kubeconfig branch-a --config agent.yaml > branch-a.kubeconfig
\b
  # for one operator by name, for an hour, with the gateway's authority from a file
  karmada-vc-agent kubeconfig branch-a --config agent.yaml --account alice --duration 1h \\
    --certificate-authority ca.crt --output branch-a.kubeconfig
  kubectl --kubeconfig branch-a.kubeconfig get pods --all-namespaces
\b
  # take all tokens of that operator back
  kubectl -n vc-system-v-branch-a delete serviceaccount alice
"""


@click.command(
    "kubeconfig", epilog=_EPILOG, short_help="Write a kubeconfig for an operator of the site."
)
@click.argument("cluster")
@click.option(
    "--config",
    "config_path",
    type=shared.FilePath(),
    required=True,
    help="Settings file of the agent.",
)
@shared.options("agent_name")
@shared.options("agent_namespace")
@click.option("--kubeconfig", default="", help="Kubeconfig of the host. Default: as for run.")
@click.option(
    "--account",
    default="operator",
    show_default=True,
    help="ServiceAccount of the host, created if it does not exist; named in the audit.",
)
@click.option(
    "--duration",
    default="8h",
    show_default=True,
    metavar="DURATION",
    help="How long the token is valid; at least 10m.",
)
@click.option("--server", default="", help="URL of the gateway. Default: from the settings.")
@click.option(
    "--certificate-authority",
    default="",
    metavar="FILE",
    help="Authority of the gateway's certificate. Default: gateway.caFile of the settings.",
)
@click.option("--output", default="-", metavar="FILE", help="File to write. Default: - for stdout.")
def kubeconfig(**options: Any) -> None:
    """Write a kubeconfig that shows one virtual cluster, through the gateway at the site.

    Its token is of a ServiceAccount of the host and good for the gateway alone; with it kubectl has
    all rights inside the virtual cluster and none outside. It works while the hub is away.
    """
    with one_line_errors():
        config, agent, _ = shared.settings_and_agent(options)
        assert config is not None  # noqa: S101 - its file is required
        if not config.gateway.enabled:
            problem = "is false, must be true: there is no gateway to use"
            raise ConfigError(str(options["config_path"]), "gateway.enabled", problem)
        lasts_s = _duration_s(options["duration"])
        cluster: str = options["cluster"]
        _check_texts(options)
        authority = _authority(options, config.gateway)
        server = options["server"] or config.gateway.endpoint(cluster)
        host = find_credentials(options["kubeconfig"] or config.kubeconfig, in_cluster_first=True)
        token = asyncio.run(_new_token(host, agent, cluster, options["account"], lasts_s))
        _write(_text(cluster, server, authority, options["account"], token), options["output"])


async def _new_token(
    host: Credentials, agent: str, cluster: str, account: str, lasts_s: int
) -> str:
    """Return a token of the account for the gateway. Raises KubeError, CommandError."""
    async with ApiClient("host", host) as client:
        labels = {CLUSTER_LABEL: cluster, NAMESPACE_LABEL: ANCHOR_NAMESPACE, AGENT_LABEL: agent}
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        listed = await client.get("/api/v1/namespaces", {"labelSelector": selector})
        anchors = [str(dig(item, "metadata", "name")) for item in listed.get("items") or ()]
        if not anchors:
            raise CommandError(
                f"agent {agent} has no namespace for operators of {cluster} on the host: check the "
                "name, and that the agent serves it with gateway.enabled"
            )
        path = f"/api/v1/namespaces/{quote(anchors[0])}/serviceaccounts"
        with suppress(AlreadyExistsError):  # pods cannot use it: there are none in its namespace
            await client.create(
                path,
                {
                    "apiVersion": "v1",
                    "kind": "ServiceAccount",
                    "metadata": {
                        "name": account,
                        "namespace": anchors[0],
                        "labels": {"app.kubernetes.io/managed-by": "karmada-vc-agent"},
                    },
                    "automountServiceAccountToken": False,
                },
            )
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [AUDIENCE], "expirationSeconds": lasts_s},
        }
        answer = await client.create(f"{path}/{quote(account, safe='')}/token", request)
    return str(dig(answer, "status", "token") or "")


def _text(cluster: str, server: str, authority: bytes, account: str, token: str) -> str:
    trusted = base64.b64encode(authority).decode()
    endpoint = {"server": server, "certificate-authority-data": trusted}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": cluster,
        "clusters": [{"name": cluster, "cluster": endpoint}],
        "users": [{"name": account, "user": {"token": token}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": account}}],
    }
    return yaml.safe_dump(content, sort_keys=False)


def _check_texts(options: dict[str, Any]) -> None:
    """Reject what would fail once a token is there. Raises ConfigError."""
    if problem := cluster_name_problem(options["cluster"]):
        raise ConfigError("flags", "CLUSTER", problem)
    account, server = options["account"], options["server"]
    if not is_dns_name(account):
        problem = f'"{account}" is not a valid name of a ServiceAccount, such as alice'
        raise ConfigError("flags", "--account", problem)
    if server and not is_http_url(server):
        raise ConfigError("flags", "--server", f'"{server}" is not a valid http(s) URL')
    output = Path(options["output"])
    if not options["output"] or (output.exists() and not output.is_file()):
        problem = f'"{options["output"]}" is not a file; give one, or - for stdout'
        raise ConfigError("flags", "--output", problem)
    if not output.parent.is_dir():
        raise ConfigError("flags", "--output", f"{output.parent} is not a directory")


def _authority(options: dict[str, Any], settings: GatewaySettings) -> bytes:
    """Return certificates in PEM. Raises ConfigError."""
    flag, file = "--certificate-authority", options["certificate_authority"]
    where, name = ("flags", flag) if file else (str(options["config_path"]), "gateway.caFile")
    path, advice = file or settings.ca_file, "" if file else f"; or give it by {flag}"
    try:
        authority = Path(path).read_bytes()
        # Python takes the system's authorities instead of an empty text.
        make_ssl_context(authority.decode() or "-", None, verify=True)
    except (ValueError, ssl.SSLError) as error:
        raise ConfigError(where, name, f"{path}: no certificate in PEM{advice}") from error
    except OSError as error:
        raise ConfigError(where, name, f"{path}: {error.strerror}{advice}") from error
    return authority


def _duration_s(text: str) -> int:
    try:
        lasts_s = parse_duration_s(text)
    except ValueError as error:
        raise ConfigError("flags", "--duration", str(error)) from error
    if lasts_s < SHORTEST_S:
        raise ConfigError("flags", "--duration", f"is {text}, must be 10m or more")
    return int(lasts_s)


def _write(text: str, output: str) -> None:
    if output == "-":
        click.echo(text, nl=False)
        return
    path = Path(output)
    path.unlink(missing_ok=True)  # it may be readable by others, or a link
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
