"""Checks of `join` and `leave` before anything is written."""

import asyncio
from collections.abc import Iterable

from karmada_vc_agent.access.agent_objects import HostInstall, base_objects
from karmada_vc_agent.access.hub_objects import HubAccess, hub_objects
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH, agent_id, agent_of, cluster_id
from karmada_vc_agent.cluster.rules.cluster_registration import served_by_another
from karmada_vc_agent.commands.command_errors import CommandError
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.install.apply_objects import find, needs_of
from karmada_vc_agent.install.host_rights import definitions
from karmada_vc_agent.install.removals import NEEDS_TO_PRUNE, workload
from karmada_vc_agent.kube.access_review import may
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.permissions import Need
from karmada_vc_agent.model.domain import HOST_ANNOTATION
from karmada_vc_agent.model.objects import Object, annotations_of, dig
from karmada_vc_agent.model.well_known import RBAC_API, RBAC_GROUP

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


def needs_on_hub(access: HubAccess) -> list[Need]:
    """Return the rights that an administrator needs on the hub for `join`."""
    return [
        Need("list", "cluster.karmada.io", "clusters"),
        Need("get", "", "namespaces", name="kube-system"),
        *needs_of(hub_objects(access)),
        *NEEDS_TO_PRUNE,
    ]


def needs_for_certificate() -> list[Need]:
    """Return the rights that an administrator needs on the hub to get a certificate signed."""
    group, requests = "certificates.k8s.io", "certificatesigningrequests"
    return [
        Need("create", group, requests),
        Need("get", group, requests),
        Need("update", group, f"{requests}/approval"),
        Need("approve", group, "signers", name="kubernetes.io/kube-apiserver-client"),
    ]


def needs_on_host(agent: str, namespace: str, config: AgentConfig) -> list[Need]:
    """Return the rights that an administrator needs on the host to install the agent."""
    made = [*base_objects(HostInstall(agent, namespace, "")), *workload(agent, namespace)]
    everywhere = (("clusterroles", ""), ("clusterrolebindings", ""))
    roles = (*everywhere, ("roles", namespace), ("rolebindings", namespace))
    return [
        Need("get", "", "namespaces", name="kube-system"),
        *needs_of([*made, *definitions(config)]),
        *(Need(verb, RBAC_GROUP, *each) for each in roles for verb in ("get", "create", "patch")),
        # RBAC: who grants rights must hold them, or `escalate` and `bind`.
        *(Need(verb, RBAC_GROUP, "clusterroles") for verb in ("escalate", "bind")),
        *(
            Need(verb, "admissionregistration.k8s.io", f"validatingadmissionpolic{end}")
            for end in ("ies", "ybindings")
            for verb in ("get", "create", "update")
        ),
        *NEEDS_TO_PRUNE,
    ]


async def check_rights(client: ApiClient, needs: Iterable[Need]) -> None:
    """Review each right on the server. Raises CommandError with the missing rules, KubeError."""
    needs = list(needs)
    allowed = await asyncio.gather(*(may(client, need) for need in needs))
    missing = [need for need, is_allowed in zip(needs, allowed, strict=True) if not is_allowed]
    if missing:
        source = client.credentials.source
        raise CommandError(
            f"{client.name}: {source} lacks rights; add these rules, or use another account:",
            *(f"  {need}" for need in missing),
        )
