"""`karmada-vc-agent join`: its options, and what is wrong with them."""

import asyncio
import re
from pathlib import Path
from typing import Any

import click

from karmada_vc_agent.access.hub_objects import HubAccess
from karmada_vc_agent.access.rights import OPTIONAL_CONTROLLERS
from karmada_vc_agent.commands.agent_certificate import YEAR_S
from karmada_vc_agent.commands.bootstrap import check_hash, parse_token
from karmada_vc_agent.commands.errors import one_line_errors
from karmada_vc_agent.commands.host_rights import Approvals
from karmada_vc_agent.commands.join_run import HubOptions, JoinPlan, Output, run_join
from karmada_vc_agent.config.default_accounts import with_default_accounts
from karmada_vc_agent.config.errors import ConfigError
from karmada_vc_agent.config.loading import load_config
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.kubeconfig import is_http_url
from karmada_vc_agent.model.virtual_cluster_problems import cluster_name_problem
from karmada_vc_agent.translation.admission_objects import SCHEDULER

IMAGE = "karmada-vc-agent:0.1.0"
AGENT_NAME = AgentConfig().agent_name

_EPILOG = """\b
Examples:
  # with an administrator's kubeconfig of the hub: grant, sign, install
  karmada-vc-agent join --config agent.yaml --karmada-kubeconfig admin.kubeconfig \\
    --kubeconfig host.kubeconfig --apply
\b
  # with a bootstrap token (kubectl-karmada token create --print-register-command)
  karmada-vc-agent join hub.example:5443 --config agent.yaml --kubeconfig host.kubeconfig \\
    --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:12... --apply
\b
  # only look at the rights; contacts nobody
  karmada-vc-agent join --name branch-a --name branch-b --only hub -o yaml
\b
  # files to review and to apply by other means
  karmada-vc-agent join --config agent.yaml --karmada-kubeconfig admin.kubeconfig \\
    --output-dir out
\b
Run it again after adding a virtual cluster to the file: it changes only what differs.
"""


@click.command(epilog=_EPILOG)
@click.argument("endpoint", required=False, default="", metavar="[HOST:PORT]")
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help="File with the settings (kind AgentConfig); its virtual clusters join.",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="CLUSTER",
    help="Virtual cluster to join, instead of a file; the ConfigMap with the settings is then "
    "left to you.",
)
@click.option("--agent-name", default="", help="Name of the agent. Default: the file's.")
@click.option(
    "--agent-namespace",
    default="",
    help="Namespace of the agent on the host. Default: the file's, else the agent's name.",
)
@click.option("--karmada-kubeconfig", default="", help="Kubeconfig of an administrator of the hub.")
@click.option("--karmada-context", default="", help="Context in it. Default: its current context.")
@click.option(
    "--karmada-server",
    default="",
    metavar="URL",
    help="Address of the hub as the agent reaches it. Default: that of the kubeconfig.",
)
@click.option(
    "--token",
    default="",
    envvar="KARMADA_VC_AGENT_TOKEN",
    help="Bootstrap token of the hub at HOST:PORT, instead of a kubeconfig. With --apply "
    "join makes the Roles as Karmada's own user "
    "system:karmada:agent:rbac-generator, who may do everything.",
)
@click.option(
    "--discovery-token-ca-cert-hash",
    "ca_hashes",
    multiple=True,
    metavar="SHA256",
    help="Public key hash that the hub's certificate authority must have.",
)
@click.option(
    "--discovery-token-unsafe-skip-ca-verification",
    "skips_ca",
    is_flag=True,
    help="Do without the hash: whoever has the token may then play the hub.",
)
@click.option("--kubeconfig", default="", help="Kubeconfig of the host. Default: as for run.")
@click.option(
    "--controllers",
    default="*",
    show_default=True,
    help=f"Grant what these controllers need: *, a name, or -name to leave one out. "
    f"There are: {', '.join(OPTIONAL_CONTROLLERS)}.",
)
@click.option(
    "--works-cluster-wide",
    is_flag=True,
    help="Let the agent watch the Works of all Clusters of the hub with one watch.",
)
@click.option(
    "--cert-expiration-seconds",
    "lifetime_s",
    type=click.IntRange(min=600),
    default=YEAR_S,
    show_default=True,
    help="How long the agent's certificate is to hold.",
)
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    metavar="USER",
    help=f"User on the host who may bind pods of virtual clusters. Default: those of the last "
    f"join, else {SCHEDULER}.",
)
@click.option(
    "--approve-api-group",
    "api_groups",
    multiple=True,
    metavar="GROUP",
    help="API group whose kinds virtual clusters may have in their namespaces, also while the "
    "host does not serve it yet.",
)
@click.option(
    "--elsewhere",
    is_flag=True,
    help="The agent runs outside of the host: give it its account, rights and policies there, "
    "but make no Deployment.",
)
@click.option("--image", default=IMAGE, show_default=True, help="Image of the agent.")
@click.option(
    "--only", type=click.Choice(("hub", "host")), default=None, help="Leave the other side alone."
)
@click.option(
    "--output-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write hub.yaml, host.yaml and hub.kubeconfig into this directory.",
)
@click.option("-o", "--output", type=click.Choice(("yaml",)), help="Print the manifests.")
@click.option("--apply", "applies", is_flag=True, help="Apply to hub and host.")
def join(**options: Any) -> None:
    """Give an agent its rights and its credential on the hub, and install it on the host.

    Takes the virtual clusters from a settings file, or by name. With a kubeconfig of an
    administrator of the hub, or a bootstrap token, it has the hub sign the agent's client
    certificate. Choose --apply, -o yaml or --output-dir.
    """
    with one_line_errors():
        asyncio.run(run_join(_plan(options)))


def _plan(options: dict[str, Any]) -> JoinPlan:
    """Return what to do. Raises ConfigError."""
    _check_output(options)
    file: Path | None = options["config_path"]
    if bool(file) == bool(options["names"]):
        raise _wrong("--config", "give a settings file, or names with --name; one of both")
    given = {key: options[key] or None for key in ("agent_name", "agent_namespace")}
    config = load_config(file, given) if file else None
    clusters = tuple(vc.name for vc in config.virtual_clusters) if config else options["names"]
    _check_names(clusters)
    _check_texts(options)
    agent = (config.agent_name if config else options["agent_name"]) or AGENT_NAME
    access = HubAccess(
        agent,
        tuple(clusters),
        _controllers(options["controllers"]),
        options["works_cluster_wide"] or bool(config and config.works_cluster_wide),
    )
    namespace = (config.agent_namespace if config else options["agent_namespace"]) or agent
    return JoinPlan(
        access=access,
        namespace=namespace,
        config=with_default_accounts(config or AgentConfig(agent_name=agent), namespace),
        approvals=Approvals(options["schedulers"], options["api_groups"]),
        is_elsewhere=options["elsewhere"],
        settings=file.read_text() if file else "",
        image=options["image"],
        hub=_hub(options),
        kubeconfig=options["kubeconfig"],
        lifetime_s=options["lifetime_s"],
        sides=(options["only"],) if options["only"] else ("hub", "host"),
        output=Output(options["applies"], options["output"] == "yaml", options["output_dir"]),
    )


def _check_output(options: dict[str, Any]) -> None:
    ways = [options["applies"], bool(options["output"]), bool(options["output_dir"])]
    if sum(ways) != 1:
        raise _wrong("--apply", "say what to do: --apply, -o yaml or --output-dir; one of them")
    has_hub = bool(options["karmada_kubeconfig"] or options["token"])
    if options["applies"] and options["only"] != "host" and not has_hub:
        raise _wrong(
            "--karmada-kubeconfig",
            "applying needs the hub: give an administrator's kubeconfig, or HOST:PORT and --token",
        )


def _check_names(names: tuple[str, ...]) -> None:
    for index, name in enumerate(names):
        if problem := cluster_name_problem(name):
            raise _wrong("--name", problem)
        if name in names[:index]:
            raise _wrong("--name", f'"{name}" is given twice; give it once')


def _check_texts(options: dict[str, Any]) -> None:
    """Refuse what would be written down and hold nobody, or keep the agent from running."""
    for option, key, pattern, what in _TEXTS:
        given = options[key]
        for text in (given,) if isinstance(given, str) else given:
            if not pattern.fullmatch(text):
                raise _wrong(option, f'"{text}" is not {what}')
    server = options["karmada_server"]
    if server and not is_http_url(server):
        raise _wrong("--karmada-server", f'"{server}" is not a valid http(s) URL')


_TEXTS = (
    ("--scheduler", "schedulers", re.compile(r"\S+"), "a user name, such as system:kube-scheduler"),
    (
        "--approve-api-group",
        "api_groups",
        re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?"),
        "an API group, such as apps.example.com",
    ),
    (
        "--image",
        "image",
        re.compile(r"\S+"),
        "an image, such as registry.example/karmada-vc-agent:1",
    ),
)
"""Option, its key, what each of its values must match, and what such a value is."""


def _controllers(text: str) -> tuple[str, ...]:
    """Return the optional controllers to grant for; `*`, names, `-name` as Karmada's flag."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    known = set(OPTIONAL_CONTROLLERS)
    unknown = {word.removeprefix("-") for word in words} - known - {"*"}
    if unknown:
        there = ", ".join(OPTIONAL_CONTROLLERS)
        raise _wrong(
            "--controllers", f'"{min(unknown)}" is none of those that need rights: {there}'
        )
    running = known if "*" in words else known & set(words)
    return tuple(sorted(running - {word[1:] for word in words if word.startswith("-")}))


def _hub(options: dict[str, Any]) -> HubOptions | None:
    """Return how to reach the hub, or None where it is not given."""
    path, token = options["karmada_kubeconfig"], options["token"]
    if path and token:
        raise _wrong("--token", "give a kubeconfig of the hub or a token, not both")
    if not token:
        for option in ("endpoint", "ca_hashes", "skips_ca"):
            if options[option]:
                raise _wrong("--token", "HOST:PORT and --discovery-token-... go with a token")
        if not path:
            return None
        return HubOptions(path, options["karmada_context"], options["karmada_server"])
    if not options["endpoint"]:
        raise _wrong("HOST:PORT", "say where the hub is that the token is for")
    if bool(options["ca_hashes"]) == options["skips_ca"]:
        raise _wrong(
            "--token",
            "give --discovery-token-ca-cert-hash, or "
            "--discovery-token-unsafe-skip-ca-verification to do without",
        )
    try:
        parsed = parse_token(token)
        hashes = tuple(check_hash(text) for text in options["ca_hashes"])
    except ValueError as error:
        raise _wrong("--token", str(error)) from error
    return HubOptions(
        server=options["karmada_server"],
        endpoint=options["endpoint"],
        token=parsed,
        ca_hashes=hashes,
    )


def _wrong(option: str, problem: str) -> ConfigError:
    return ConfigError("flags", option, problem)
