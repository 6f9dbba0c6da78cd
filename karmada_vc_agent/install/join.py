"""`karmada-vc-agent join`: its options, and how it runs."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

import click

from karmada_vc_agent.access.admission import SCHEDULER, VALIDATING, served_versions
from karmada_vc_agent.access.agent_objects import base_objects, workload_objects
from karmada_vc_agent.access.rights import (
    OPTIONAL_CONTROLLERS,
    HubAccess,
    host_bindings,
    host_reasons,
    host_roles,
    hub_objects,
    hub_reasons,
)
from karmada_vc_agent.cluster.hub_clusters import host_id
from karmada_vc_agent.commands import shared
from karmada_vc_agent.commands.shared import one_line_errors
from karmada_vc_agent.config.checks import cluster_name_problem, is_dns_name
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.loading import with_profile_defaults
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.feature_list import HUB_ROLES
from karmada_vc_agent.install import host_rights, join_hub, leave_steps, served
from karmada_vc_agent.install.apply_objects import Changes, apply_all, manifest_text
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import ServedApis, server_version
from karmada_vc_agent.kube.kubeconfig import find_credentials, is_http_url
from karmada_vc_agent.model import versions
from karmada_vc_agent.model.objects import text_at

_PRIVATE = 0o600
"""host.yaml and hub.kubeconfig hold the agent's private key."""


def write_file(path: Path, text: str) -> bool:
    """Write a file if its content differs; return whether it did. Raises OSError."""
    is_same = path.exists() and path.read_text(errors="replace") == text
    path.touch(_PRIVATE)
    path.chmod(_PRIVATE)  # before the content: an existing file may be readable by others
    if not is_same:
        path.write_text(text)
    return not is_same


KUBECONFIG_FILE = "hub.kubeconfig"


async def write_manifests(
    plan: join_hub.JoinPlan, hub: join_hub.Hub | None, host: ApiClient | None, uid: str
) -> None:
    """Print the manifests, or write them to files. Raises KubeError, CommandError, OSError."""
    if hub is not None and hub.is_admin:  # a bootstrap token's user cannot read any of this
        await join_hub.check_hub(hub.client, plan.access, plan.namespace, uid)
        role = await join_hub.hub_role(hub.client, plan.access.agent)
        plan = replace(plan, access=join_hub.with_host_of(role, plan.access))
    folder, kubeconfig = plan.directory, ""
    if hub is not None and folder is not None:  # nothing is signed to be printed
        path = folder / KUBECONFIG_FILE
        installed = path.read_text(errors="replace") if path.exists() else ""
        if host is not None and not installed:
            installed = await join_hub.installed_kubeconfig(host, plan.namespace)
        kubeconfig = await join_hub.agent_kubeconfig(plan, hub, installed, Changes(plan.say))
    texts = {f"{side}.yaml": await _text(plan, side, kubeconfig, host) for side in plan.sides}
    if folder is None:
        click.echo("---\n".join(texts.values()), nl=False)
        return
    if kubeconfig:
        texts[KUBECONFIG_FILE] = kubeconfig
    for name, text in texts.items():
        if write_file(folder / name, text):
            plan.say(f"wrote {folder / name}")


async def rights_for(
    plan: join_hub.JoinPlan, host: ApiClient
) -> tuple[host_rights.HostRights, ServedApis]:
    """Return what is to exist. Raises ConfigError if nothing confines, and as `check_profile`."""
    served, installed = await host_rights.read_host(host, plan.access.agent)
    is_served, version = VALIDATING in served_versions(served), await server_version(host)
    if plan.applies and plan.config.install_policies and not (is_served or plan.unconfined):
        raise ConfigError("host", "", versions.unconfined(version))
    join_hub.warn(versions.not_measured(version))
    await host_rights.check_profile(host, plan.access.agent, plan.config.tenancy)
    return plan.rights(
        served, installed, await host_rights.described_on_host(host, plan.config)
    ), served


async def _text(plan: join_hub.JoinPlan, side: str, kubeconfig: str, host: ApiClient | None) -> str:
    if side == join_hub.HUB:
        clusters = ", ".join(plan.access.clusters)
        head = (
            f"For the hub: the rights of agent {plan.access.agent} there, for {clusters}.\nThey "
            f"are granted to user {plan.access.user}, whom a client certificate "
            "names;\nkarmada-vc-agent join has that certificate signed."
        )
        return manifest_text(hub_objects(plan.access), hub_reasons(plan.access), head)
    rights = (await rights_for(plan, host))[0] if host is not None else plan.rights()
    parts = (
        rights.definitions,
        base_objects(rights.install),
        host_roles(rights.access),
        rights.policies,
        host_bindings(rights.access),
        workload_objects(replace(rights.install, kubeconfig=kubeconfig)),
    )
    notes = {
        "For the host: account, rights and policies of the agent, and the agent itself.": True,
        "Made for Kubernetes 1.34 without the names of an earlier join; with --kubeconfig, join "
        "reads what the host serves and keeps them.": host is None,
        f"Still needed: Secret karmada-kubeconfig in {plan.namespace}, the agent's kubeconfig for "
        "the hub; --apply and --output-dir have it signed.": not kubeconfig,
        f"Still needed: ConfigMap {plan.access.agent} in {plan.namespace} with agent.yaml.": (
            not plan.settings
        ),
    }
    head = "\n".join(note for note, is_needed in notes.items() if is_needed)
    return manifest_text(chain.from_iterable(parts), host_reasons(rights.access), head)


_WORKS_WIDE = (
    "With --works-cluster-wide the agent can read the Works of every Cluster of this hub, "
    "including the Secrets in them. It writes only those of its own Clusters."
)


async def run_join(plan: join_hub.JoinPlan) -> None:
    """Join as planned. Raises KubeError, CommandError, ConfigError, OSError."""
    if plan.directory is not None:
        # Before the hub signs what could not be stored.
        plan.directory.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        host = None
        if plan.kubeconfig or (plan.applies and join_hub.HOST in plan.sides):
            credentials = find_credentials(plan.kubeconfig, in_cluster_first=True)
            host = await stack.enter_async_context(join_hub.new_client(join_hub.HOST, credentials))
        uid = await join_hub.host_uid(host) if host is not None else ""
        plan = replace(plan, access=replace(plan.access, host_id=host_id(uid) if uid else ""))
        hub = None
        if plan.karmada_kubeconfig or plan.token:
            hub = await stack.enter_async_context(join_hub.connect(plan))
            join_hub.warn_of_loopback(plan, hub)
            await join_hub.warn_of_missing_fields(hub)
        if plan.access.works_cluster_wide:
            plan.say(_WORKS_WIDE)
        if plan.applies:
            await _apply(plan, hub, host if join_hub.HOST in plan.sides else None, uid)
        else:
            await write_manifests(plan, hub, host, uid)


async def _apply(
    plan: join_hub.JoinPlan, hub: join_hub.Hub | None, host: ApiClient | None, uid: str
) -> None:
    """Check both sides, then write. host: None = that side is left alone."""
    changes = Changes(plan.say, is_dry=plan.is_dry)
    checked = await rights_for(plan, host) if host is not None else None
    if hub is not None and join_hub.HUB in plan.sides:
        async with join_hub.administrator_of(plan, hub) as administrator:
            await join_hub.check_hub(administrator, plan.access, plan.namespace, uid)
            await join_hub.grant_on_hub(administrator, plan.access, changes)
    if host is not None and checked is not None:
        await _install(plan, hub, host, *checked, changes)
    if changes.is_dry:
        plan.say("Nothing was changed (--dry-run)" if changes.count else "Nothing to change")
        return
    plan.say("Joined" if changes.count else "Nothing to change")
    if host is not None and not plan.settings:
        plan.say(f"Still to create: ConfigMap {plan.namespace}/{plan.access.agent} with agent.yaml")
    if host is not None and plan.waits and not plan.is_elsewhere:
        await served.wait(host, plan)


async def _install(
    plan: join_hub.JoinPlan,
    hub: join_hub.Hub | None,
    host: ApiClient,
    rights: host_rights.HostRights,
    served: ServedApis,
    changes: Changes,
) -> None:
    install = rights.install
    if hub is not None:
        installed = await join_hub.installed_kubeconfig(host, plan.namespace)
        kubeconfig = await join_hub.agent_kubeconfig(plan, hub, installed, changes)
        install = replace(install, kubeconfig=kubeconfig)
    await host_rights.grant_on_host(host, rights, served, changes)
    install = replace(install, image=await _image(plan, host))
    await apply_all(host, workload_objects(install), changes)
    if changes.is_dry:
        return
    agent, clusters = plan.access.agent, plan.access.clusters
    for name in await leave_steps.forget_left(host, plan.namespace, agent, clusters):
        changes.report(f"host: the agent registers {name} again at its next start")


async def _image(plan: join_hub.JoinPlan, host: ApiClient) -> str:
    """Return the image that runs, unless one is given, or that is the default of a version."""
    path = f"/apis/apps/v1/namespaces/{plan.namespace}/deployments/{plan.access.agent}"
    live = text_at(await host.find(path), "spec", "template", "spec", "containers", 0, "image")
    if plan.sets_image or live in ("", plan.image) or _DEFAULT.fullmatch(live):
        return plan.image
    plan.say(f"host: image {live} stays; --image sets another")
    return live


_DEFAULT = re.compile(r"karmada-vc-agent:\d+\.\d+\.\d+\S*")
IMAGE = f"karmada-vc-agent:{versions.OWN}"


@click.command(
    epilog=shared.examples("join"), short_help="Grant an agent its rights, and install it."
)
@click.argument("endpoint", required=False, default="", metavar="[HOST:PORT]")
@shared.options(
    "join", controllers=", ".join(OPTIONAL_CONTROLLERS), scheduler=SCHEDULER, image=IMAGE
)
def join(**options: Any) -> None:
    """Give an agent its rights and its credential on the hub, and install it on the host.

    Takes the virtual clusters from a settings file, or by name. With an administrator's kubeconfig
    of the hub or a bootstrap token, the hub signs the agent's client certificate. Choose one of
    --apply, -o yaml and --output-dir.
    """
    with one_line_errors():
        asyncio.run(run_join(plan_of(options)))


def plan_of(options: dict[str, Any]) -> join_hub.JoinPlan:
    """Return what the options of `join` mean. Raises ConfigError."""
    _raise_first(_misused(options))
    file: Path | None = options["config_path"]
    config, agent, namespace = shared.settings_and_agent(options)
    listed = config.virtual_clusters if config else ()
    clusters = (*(vc.name for vc in listed), *options["names"])
    _raise_first(_misspelt(options, clusters))
    access = HubAccess(
        agent,
        clusters,
        _controllers(options["controllers"]),
        options["works_cluster_wide"] or bool(config and config.works_cluster_wide),
        objects=bool(config and config.removes_clusters),
        any_name=bool(config and config.objects.any_name),
        gateway=bool(config and config.gateway.enabled),
        of_features=HUB_ROLES,
    )
    own: dict[str, Any] = {
        "access": access,
        "namespace": namespace,
        "config": with_profile_defaults(config or AgentConfig(agent_name=agent), namespace),
        "settings": options.get("settings") or (file.read_text() if file else ""),
        "image": options["image"] or IMAGE,
        "sets_image": bool(options["image"]),
        "sides": (options["only"],) if options["only"] else ("hub", "host"),
    }
    given: dict[str, Any] = options | own
    return join_hub.JoinPlan(**{each.name: given[each.name] for each in fields(join_hub.JoinPlan)})


Problems = Iterator[tuple[object, str, str]]
"""Whether something is wrong, with which option, and what."""


def _raise_first(problems: Problems) -> None:
    for is_wrong, option, problem in problems:
        if is_wrong:
            raise ConfigError("flags", option, problem)


def _misused(options: dict[str, Any]) -> Problems:
    applies, is_dry, token = options["applies"], options["is_dry"], options["token"]
    endpoint, hashes, skips = options["endpoint"], options["ca_hashes"], options["skips_ca"]
    kubeconfig, needs_hub = options["karmada_kubeconfig"], applies and options["only"] != "host"
    ways = sum((applies, bool(options["output"]), bool(options["directory"])))
    yield ways != 1, "--apply", "choose one of --apply, -o yaml and --output-dir"
    alone = "needs --apply, and a kubeconfig instead of a token"
    yield is_dry and (not applies or token), "--dry-run", alone
    yield options["waits"] and (not applies or is_dry), "--wait", "needs --apply, without --dry-run"
    hub = "--apply needs the hub: give an administrator's kubeconfig, or HOST:PORT and --token"
    yield needs_hub and not (kubeconfig or token), "--karmada-kubeconfig", hub
    is_empty = not options["config_path"] and not options["names"]
    yield is_empty, "--config", "give a settings file or names (--name)"
    yield kubeconfig and token, "--token", "give either a kubeconfig of the hub or a token"
    without = "HOST:PORT and --discovery-token-... need --token"
    yield not token and (endpoint or hashes or skips), "--token", without
    yield token and not endpoint, "HOST:PORT", "--token needs the address of the hub"
    skip = "--discovery-token-unsafe-skip-ca-verification to skip the check"
    unpinned = f"give --discovery-token-ca-cert-hash, or {skip}"
    yield token and bool(hashes) == skips, "--token", unpinned


def _misspelt(options: dict[str, Any], names: tuple[str, ...]) -> Problems:
    for index, name in enumerate(names):
        yield cluster_name_problem(name), "--name", cluster_name_problem(name) or ""
        yield name in names[:index], "--name", f'"{name}" is given twice'
    texts = [("--scheduler", each) for each in options["schedulers"]]
    for option, text in (*texts, ("--image", options["image"] or IMAGE)):
        yield not text or " " in text, option, f'"{text}" is empty or has a space'
    for group in options["api_groups"]:  # never *: it would be all Secrets of the host
        yield not is_dns_name(group), "--approve-api-group", f'"{group}" is not an API group'
    server, token = options["karmada_server"], options["token"]
    is_url = not server or is_http_url(server)
    yield not is_url, "--karmada-server", f'"{server}" is not a valid http(s) URL'
    yield token and join_hub.token_problem(token), "--token", join_hub.token_problem(token)
    for problem in map(join_hub.hash_problem, options["ca_hashes"]):
        yield problem, "--discovery-token-ca-cert-hash", problem


def _controllers(text: str) -> tuple[str, ...]:
    """Parse `*`, `foo` and `-foo`, as in Karmada's flag; return the optional controllers meant."""
    words = {word.strip() for word in text.split(",")} - {""}
    optional = set(OPTIONAL_CONTROLLERS)
    if unknown := {word.removeprefix("-") for word in words} - optional - {"*"}:
        these = f"these are: {', '.join(OPTIONAL_CONTROLLERS)}"
        problem = f'"{min(unknown)}" is not an optional controller; {these}'
        raise ConfigError("flags", "--controllers", problem)
    running = optional if "*" in words else optional & words
    return tuple(sorted(running - {word[1:] for word in words if word.startswith("-")}))
