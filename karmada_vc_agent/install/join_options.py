"""`karmada-vc-agent join`: its options and their validation."""

import asyncio
import re
from pathlib import Path
from typing import Any

import click

from karmada_vc_agent.access.hub_objects import OPTIONAL_CONTROLLERS, HubAccess
from karmada_vc_agent.access.policy_owner import SCHEDULER
from karmada_vc_agent.commands import shared
from karmada_vc_agent.commands.shared import one_line_errors
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.loading import with_profile_defaults
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.config.virtual_cluster_problems import cluster_name_problem
from karmada_vc_agent.feature_list import HUB_ROLES
from karmada_vc_agent.install.hub_credentials import YEAR_S, hash_problem, token_problem
from karmada_vc_agent.install.join_hub import JoinPlan
from karmada_vc_agent.install.join_run import run_join
from karmada_vc_agent.kube.kubeconfig import is_http_url

IMAGE = "karmada-vc-agent:0.1.0"

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
  # show what would change, field by field
  karmada-vc-agent join --config agent.yaml --karmada-kubeconfig admin.kubeconfig \\
    --kubeconfig host.kubeconfig --apply --dry-run
\b
  # print the rights only; contacts no server
  karmada-vc-agent join --name branch-a --name branch-b --only hub -o yaml
\b
  # write files to review and apply with other tools
  karmada-vc-agent join --config agent.yaml --karmada-kubeconfig admin.kubeconfig \\
    --output-dir out
\b
Run it again after adding a virtual cluster to the file: it applies only the difference, field
by field, and keeps what others set of replicas, image and resources of the Deployment.
"""


@click.command(epilog=_EPILOG, short_help="Grant an agent its rights, and install it.")
@click.argument("endpoint", required=False, default="", metavar="[HOST:PORT]")
@click.option(
    "--config",
    "config_path",
    type=shared.FilePath(),
    help="Settings file (kind AgentConfig); its virtual clusters join.",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="CLUSTER",
    help="Name of a virtual cluster to join that is not in the settings file, such as a "
    "VirtualCluster object. Without a file you create the ConfigMap with the settings yourself.",
)
@shared.agent_name
@shared.agent_namespace
@click.option(
    "--karmada-kubeconfig", default="", help="Kubeconfig with administrator rights on the hub."
)
@shared.karmada_context
@click.option(
    "--karmada-server",
    default="",
    metavar="URL",
    help="URL of the hub as the agent reaches it. Default: the URL in the kubeconfig.",
)
@click.option(
    "--token",
    default="",
    envvar="KARMADA_VC_AGENT_TOKEN",
    help="Bootstrap token for the hub at HOST:PORT, instead of a kubeconfig. With --apply, "
    "join creates the Roles as Karmada's user system:karmada:agent:rbac-generator, "
    "which has administrator rights.",
)
@click.option(
    "--discovery-token-ca-cert-hash",
    "ca_hashes",
    multiple=True,
    metavar="SHA256",
    help="Hash of the public key that the hub's certificate authority must have.",
)
@click.option(
    "--discovery-token-unsafe-skip-ca-verification",
    "skips_ca",
    is_flag=True,
    help="Skip the check of the hash: a holder of the token can then impersonate the hub.",
)
@shared.kubeconfig
@click.option(
    "--controllers",
    default="*",
    show_default=True,
    help=f"Grant the rights of these optional controllers: * for all, foo to enable foo, -foo to "
    f"disable it. Controllers: {', '.join(OPTIONAL_CONTROLLERS)}.",
)
@click.option(
    "--works-cluster-wide",
    is_flag=True,
    help="Let the agent watch the Works of all Clusters of the hub with a single watch.",
)
@click.option(
    "--cert-expiration-seconds",
    "lifetime_s",
    type=click.IntRange(600, 2**31 - 1),
    default=YEAR_S,
    show_default=True,
    help="Validity of the agent's client certificate, in seconds.",
)
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    metavar="USER",
    help=f"User on the host that may bind pods of virtual clusters. Default: those of the last "
    f"join, else {SCHEDULER}.",
)
@click.option(
    "--approve-api-group",
    "api_groups",
    multiple=True,
    metavar="GROUP",
    help="API group whose namespaced kinds virtual clusters may use, even if the host does not "
    "serve it yet.",
)
@click.option(
    "--elsewhere",
    "is_elsewhere",
    is_flag=True,
    help="The agent runs outside the host cluster: create its account, rights and policies "
    "there, but no Deployment.",
)
@click.option(
    "--unconfined",
    is_flag=True,
    help="Join a host that serves no ValidatingAdmissionPolicy, too (Kubernetes before 1.30): "
    "nothing there confines the agent and its tenants.",
)
@click.option(
    "--image",
    default="",
    help=f"Image of the agent. Default: what another writer set in the Deployment, else {IMAGE}.",
)
@click.option(
    "--only", type=click.Choice(("hub", "host")), default=None, help="Write to this side only."
)
@click.option(
    "--output-dir",
    "directory",
    type=shared.FilePath(file_okay=False),
    help="Write hub.yaml, host.yaml and hub.kubeconfig into this directory.",
)
@click.option("-o", "--output", type=click.Choice(("yaml",)), help="Print the manifests.")
@click.option(
    "--apply", "applies", is_flag=True, help="Apply to hub and host; show each difference first."
)
@click.option("--dry-run", "is_dry", is_flag=True, help="With --apply: show the differences only.")
def join(**options: Any) -> None:
    """Give an agent its rights and its credential on the hub, and install it on the host.

    Takes the virtual clusters from a settings file, or by name. With an administrator's kubeconfig
    of the hub or a bootstrap token, the hub signs the agent's client certificate. Choose one of
    --apply, -o yaml and --output-dir.
    """
    with one_line_errors():
        asyncio.run(run_join(_plan(options)))


def _plan(options: dict[str, Any]) -> JoinPlan:
    """Return what to do. Raises ConfigError."""
    _check_output(options)
    file: Path | None = options["config_path"]
    if not file and not options["names"]:
        raise _wrong("--config", "give a settings file or names (--name)")
    config, agent, namespace = shared.settings_and_agent(options)
    listed = config.virtual_clusters if config else ()
    clusters = (*(vc.name for vc in listed), *options["names"])
    _check_names(clusters)
    _check_texts(options)
    _check_hub(options)
    access = HubAccess(
        agent,
        tuple(clusters),
        _controllers(options["controllers"]),
        options["works_cluster_wide"] or bool(config and config.works_cluster_wide),
        objects=bool(config and config.removes_clusters),
        any_name=bool(config and config.objects.any_name),
        gateway=bool(config and config.gateway.enabled),
        of_features=HUB_ROLES,
    )
    return JoinPlan(
        access=access,
        namespace=namespace,
        config=with_profile_defaults(config or AgentConfig(agent_name=agent), namespace),
        settings=file.read_text() if file else "",
        image=options["image"] or IMAGE,
        sets_image=bool(options["image"]),
        sides=(options["only"],) if options["only"] else ("hub", "host"),
        **{key: options[key] for key in _AS_GIVEN},
    )


_AS_GIVEN = (
    *("karmada_kubeconfig", "karmada_context", "karmada_server", "endpoint", "token", "ca_hashes"),
    *("kubeconfig", "lifetime_s", "schedulers", "api_groups", "is_elsewhere", "unconfined"),
    *("applies", "directory", "is_dry"),
)
"""Options that are fields of the plan."""


def _check_output(options: dict[str, Any]) -> None:
    ways = [options["applies"], bool(options["output"]), bool(options["directory"])]
    if sum(ways) != 1:
        raise _wrong("--apply", "choose one of --apply, -o yaml and --output-dir")
    if options["is_dry"] and (not options["applies"] or options["token"]):
        raise _wrong("--dry-run", "needs --apply, and a kubeconfig instead of a token")
    has_hub = bool(options["karmada_kubeconfig"] or options["token"])
    if options["applies"] and options["only"] != "host" and not has_hub:
        raise _wrong(
            "--karmada-kubeconfig",
            "--apply needs the hub: give an administrator's kubeconfig, or HOST:PORT and --token",
        )


def _check_names(names: tuple[str, ...]) -> None:
    for index, name in enumerate(names):
        if problem := cluster_name_problem(name):
            raise _wrong("--name", problem)
        if name in names[:index]:
            raise _wrong("--name", f'"{name}" is given twice')


def _check_texts(options: dict[str, Any]) -> None:
    """Reject values that would grant nothing, or keep the agent from running."""
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
        re.compile(r"\S*"),
        "an image, such as registry.example/karmada-vc-agent:1",
    ),
)
"""Option, its key, the pattern that each of its values must match, and what a value is."""


def _controllers(text: str) -> tuple[str, ...]:
    """Parse `*`, `foo` and `-foo`, as in Karmada's flag; return the optional controllers meant."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    optional = set(OPTIONAL_CONTROLLERS)
    unknown = {word.removeprefix("-") for word in words} - optional - {"*"}
    if unknown:
        names = ", ".join(OPTIONAL_CONTROLLERS)
        raise _wrong(
            "--controllers", f'"{min(unknown)}" is not an optional controller; these are: {names}'
        )
    running = optional if "*" in words else optional & set(words)
    return tuple(sorted(running - {word[1:] for word in words if word.startswith("-")}))


def _check_hub(options: dict[str, Any]) -> None:
    token, hashes = options["token"], options["ca_hashes"]
    if options["karmada_kubeconfig"] and token:
        raise _wrong("--token", "give either a kubeconfig of the hub or a token")
    if not token:
        if options["endpoint"] or hashes or options["skips_ca"]:
            raise _wrong("--token", "HOST:PORT and --discovery-token-... need --token")
        return
    if not options["endpoint"]:
        raise _wrong("HOST:PORT", "--token needs the address of the hub")
    if bool(hashes) == options["skips_ca"]:
        skip = "--discovery-token-unsafe-skip-ca-verification to skip the check"
        raise _wrong("--token", f"give --discovery-token-ca-cert-hash, or {skip}")
    if problem := token_problem(token):
        raise _wrong("--token", problem)
    for problem in filter(None, map(hash_problem, hashes)):
        raise _wrong("--discovery-token-ca-cert-hash", problem)


def _wrong(option: str, problem: str) -> ConfigError:
    return ConfigError("flags", option, problem)
