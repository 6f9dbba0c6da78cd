"""The input of `join`, its preflight checks, and the rights on the hub.

Every step can be repeated: it reports and applies only the difference. Virtual clusters are only
added, and `leave` removes them; other rights that are not desired any more are removed here.
"""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import click

from karmada_vc_agent.access.agent_objects import HostInstall, pod_affinity
from karmada_vc_agent.access.host_roles import HUB_SECRET
from karmada_vc_agent.access.hub_objects import HubAccess, hub_objects, named_clusters
from karmada_vc_agent.access.policy_owner import PolicyOwner
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH, agent_id, agent_of, cluster_id
from karmada_vc_agent.cluster.rules.cluster_objects import served_by_another
from karmada_vc_agent.commands.shared import CommandError
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.install import hub_credentials
from karmada_vc_agent.install.apply_objects import MANAGER, Changes, apply_all, find
from karmada_vc_agent.install.grants import prune, remove_object
from karmada_vc_agent.install.host_rights import NOT_DESCRIBED, HostRights, host_rights
from karmada_vc_agent.install.hub_credentials import (
    is_valid_for,
    kubeconfig_text,
    request_certificate,
)
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import ServedApis
from karmada_vc_agent.kube.kubeconfig import read_kubeconfig, read_server, server_credentials
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model.domain import AGENT_LABEL, HOST_ANNOTATION
from karmada_vc_agent.model.karmada import LEASE_NAMESPACE
from karmada_vc_agent.model.kinds import RBAC_API
from karmada_vc_agent.model.objects import Object, annotations_of, dig
from karmada_vc_agent.model.texts import plain_address
from karmada_vc_agent.runner.hub_presence import check_apart, check_karmada
from karmada_vc_agent.runner.parts import Described

HUB, HOST = "hub", "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPlan:
    """All input of a `join`, which applies the manifests, or writes or prints them.

    settings: content of the settings file. sets_image: replace the image that another writer set.
    karmada_kubeconfig, karmada_context: of an administrator of the hub; or endpoint, token and
    ca_hashes. karmada_server: URL of the hub as the agent reaches it, "" = the one in the
    kubeconfig or cluster-info. schedulers, api_groups: what the administrator approves, see
    `host_rights`. unconfined: install on a host without admission policies, too. directory: of the
    files to write; None = print, unless it applies. is_dry: change nothing.
    """

    access: HubAccess
    namespace: str
    config: AgentConfig
    settings: str
    image: str
    sets_image: bool
    sides: tuple[str, ...]
    kubeconfig: str
    lifetime_s: int
    karmada_kubeconfig: str = ""
    karmada_context: str = ""
    karmada_server: str = ""
    endpoint: str = ""
    token: str = ""
    ca_hashes: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    is_elsewhere: bool = False
    unconfined: bool = False
    applies: bool = False
    directory: Path | None = None
    is_dry: bool = False

    def rights(
        self,
        served: ServedApis | None = None,
        installed: PolicyOwner | None = None,
        described: Described = NOT_DESCRIBED,
    ) -> HostRights:
        """Return what is to exist on the host, without the agent's kubeconfig for the hub.

        Without arguments: what can be said without reading the host; see `host_rights`.
        """
        config = self.config
        # Nodes in groups that the settings do not list have these labels.
        used = (each for each in config.sources.values() if each.is_used)
        labels = [label for each in used for label in each.node_labels]
        install = HostInstall(
            self.access.agent,
            self.namespace,
            self.image,
            self.settings,
            affinity=pod_affinity((*config.virtual_clusters, *described.objects), labels),
            is_elsewhere=self.is_elsewhere,
        )
        return host_rights(
            install,
            config,
            self.access.clusters,
            served,
            installed,
            described,
            schedulers=self.schedulers,
            api_groups=self.api_groups,
        )

    def say(self, text: str) -> None:
        """Print a line: to stderr where the manifests go to stdout."""
        click.echo(text, err=not self.applies and self.directory is None)


CLUSTER_ROLES_PATH = f"/apis/{RBAC_API}/clusterroles"


async def hub_role(hub: ApiClient, agent: str) -> Object:
    """Return the ClusterRole of an agent on the hub, {} if there is none. Raises KubeError."""
    return await find(hub, f"{CLUSTER_ROLES_PATH}/{HubAccess(agent, ()).role}") or {}


async def check_names(hub: ApiClient, access: HubAccess, namespace: str, host_uid: str) -> None:
    """Reject names that another agent or cluster uses on the hub.

    namespace: the agent's on the host. host_uid: UID of the host's kube-system; empty = unknown,
    then only Push Clusters are detected. Raises CommandError, KubeError.
    """
    clusters = await hub.get(CLUSTERS_PATH)
    ids = {name: cluster_id(host_uid, name) if host_uid else "" for name in access.clusters}
    problems = []
    for cluster in clusters.get("items") or []:
        name, recorded_id = cluster["metadata"]["name"], dig(cluster, "spec", "id")
        is_push = dig(cluster, "spec", "syncMode") != "Pull"
        if name in ids and (recorded_id != ids[name] if host_uid else is_push):
            problems.append(
                f'Cluster "{name}" on the hub belongs to another member cluster (its spec.id is '
                f"{recorded_id}); give the virtual cluster another name"
            )
        elif name not in ids and recorded_id in ids.values() and recorded_id:
            mine = next(key for key, value in ids.items() if value == recorded_id)
            problems.append(
                f'Cluster "{name}" on the hub already has the id of "{mine}"; remove it first'
            )
        elif name in ids and agent_of(cluster) not in ("", agent_id(namespace, access.agent)):
            problems.append(served_by_another(name, agent_of(cluster)))
        if name == access.agent and name not in ids:
            problems.append(
                f'the agent would have the same user name as Cluster "{name}"; choose '
                "another agentName"
            )
    owner = annotations_of(await hub_role(hub, access.agent)).get(HOST_ANNOTATION, "")
    if owner and access.host_id and owner != access.host_id:
        problems.append(
            f'ClusterRole "{access.role}" belongs to an agent "{access.agent}" on another host; '
            "choose another agentName"
        )
    if problems:
        raise CommandError(*problems)


_GENERATOR = (
    f"A token cannot create Roles: using Karmada's user {hub_credentials.GENERATOR}, which has "
    "administrator rights, for a moment; its certificate request is deleted and its key "
    "discarded afterwards"
)


@dataclass(frozen=True, slots=True)
class Hub:
    """The hub and its entry in the agent's kubeconfig; is_admin: not a bootstrap token's user."""

    client: ApiClient
    cluster: Object
    is_admin: bool


@asynccontextmanager
async def connect(plan: JoinPlan) -> AsyncIterator[Hub]:
    """Connect to the hub. Raises KubeconfigError, CommandError, KubeError."""
    if plan.token:
        cluster = await hub_credentials.discover_hub(plan.endpoint, plan.token, plan.ca_hashes)
        server = str(cluster["server"])
        credentials = server_credentials(cluster, {"token": plan.token}, server)
    else:
        path = Path(plan.karmada_kubeconfig)
        credentials = read_kubeconfig(path, plan.karmada_context)
        cluster = read_server(path, plan.karmada_context)
    if plan.karmada_server:
        cluster = {**cluster, "server": plan.karmada_server}
    async with new_client(HUB, credentials) as client:
        yield Hub(client, cluster, is_admin=not plan.token)


@asynccontextmanager
async def administrator_of(plan: JoinPlan, hub: Hub) -> AsyncIterator[ApiClient]:
    """Lend a client that can create Roles: the administrator's own, or that of the generator."""
    if hub.is_admin:
        yield hub.client
        return
    plan.say(_GENERATOR)
    server = {**hub.cluster, "server": hub.client.credentials.server}
    async with hub_credentials.rbac_generator(hub.client, server) as generator:
        yield generator


async def check_hub(plan: JoinPlan, administrator: ApiClient, uid: str) -> None:
    """Do the preflight checks on the hub; uid: of the host. Raises CommandError, KubeError."""
    await check_karmada(administrator)
    await check_apart(administrator, uid)
    await check_names(administrator, plan.access, plan.namespace, uid)


async def agent_kubeconfig(plan: JoinPlan, hub: Hub, installed: str, changes: Changes) -> str:
    """Return the agent's kubeconfig: `installed` while it is good, else one that the hub signs.

    A dry run signs nothing and returns `installed`. Raises KubeError, CommandError.
    """
    access = plan.access
    if is_valid_for(installed, hub.cluster, access.user):
        return installed
    changes.report(f"hub: sign a client certificate for {access.user}")
    if changes.is_dry:
        return installed
    user, _ = await request_certificate(
        hub.client, access.user, access.agent, plan.lifetime_s, approves=hub.is_admin
    )
    return kubeconfig_text(hub.cluster, access.agent, user)


def warn_of_loopback(plan: JoinPlan, hub: Hub) -> None:
    """Warn of an address of the hub that leads nowhere from a Pod."""
    server = str(hub.cluster.get("server", ""))
    name = urlsplit(server).hostname or ""
    address = plain_address(name)
    is_loopback = name == "localhost" or (address is not None and address.is_loopback)
    if is_loopback and HOST in plan.sides and not plan.is_elsewhere:
        text = (
            f"Warning: inside a Pod {server} is the Pod itself, not the hub; give the hub's "
            "address with --karmada-server"
        )
        click.echo(text, err=True)


def new_client(name: str, credentials: Credentials) -> ApiClient:
    """Return a client of hub or host; its name is the manager of the fields that it writes."""
    return ApiClient(name, credentials, connections=8, user_agent=MANAGER)


async def host_uid(host: ApiClient) -> str:
    """Return the UID of the host's kube-system, from which ids are derived. Raises KubeError."""
    return str((await host.get("/api/v1/namespaces/kube-system"))["metadata"]["uid"])


async def grant_on_hub(hub: ApiClient, access: HubAccess, changes: Changes) -> None:
    """Grant an agent its rights on the hub. Raises KubeError.

    Virtual clusters that its roles already name keep their rights.
    """
    role = await hub_role(hub, access.agent)
    names = dict.fromkeys((*named_clusters(role), *access.clusters))
    desired = hub_objects(replace(with_host_of(role, access), clusters=tuple(names)))
    await apply_all(hub, desired, changes)
    if not access.gateway:
        await _remove_tokens(hub, access, changes)
    await prune(hub, access.agent, desired, changes)


def with_host_of(role: Object, access: HubAccess) -> HubAccess:
    """Keep the mark of the host on the roles, which `join` and `leave` compare."""
    recorded = annotations_of(role).get(HOST_ANNOTATION, "")
    return replace(access, host_id=access.host_id or recorded)


async def _remove_tokens(hub: ApiClient, access: HubAccess, changes: Changes) -> None:
    """Delete the tokens that the gateway published; the agent has no right to them any more."""
    if await find(hub, f"{CLUSTER_ROLES_PATH}/{access.auth_role}") is None:
        return
    path = f"/api/v1/namespaces/{LEASE_NAMESPACE}/secrets"
    answer = await hub.get(path, {"labelSelector": f"{AGENT_LABEL}={access.agent}"})
    for secret in answer.get("items") or ():
        name = secret["metadata"]["name"]
        await remove_object(hub, f"{path}/{name}", f"Secret {LEASE_NAMESPACE}/{name}", changes)


async def installed_kubeconfig(host: ApiClient, namespace: str) -> str:
    """Return the installed agent's kubeconfig for the hub, or ""."""
    secret = await find(host, f"/api/v1/namespaces/{namespace}/secrets/{HUB_SECRET}")
    return base64.b64decode(dig(secret, "data", HUB_SECRET) or "").decode(errors="replace")
