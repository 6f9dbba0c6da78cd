"""Run `join`: connect, do the preflight checks, then apply or write files."""

from contextlib import AsyncExitStack
from dataclasses import replace

from karmada_vc_agent.access.agent_objects import workload_objects
from karmada_vc_agent.access.installed_policies import served_versions
from karmada_vc_agent.access.policy_owner import VALIDATING
from karmada_vc_agent.cluster.hub_clusters import host_id
from karmada_vc_agent.commands.command_errors import CommandError
from karmada_vc_agent.install import join_hub, join_preflight, join_steps, leave_steps
from karmada_vc_agent.install.apply_objects import IMAGE_FIELDS, apply_all
from karmada_vc_agent.install.changes import Changes
from karmada_vc_agent.install.host_grants import grant_on_host, try_on_host
from karmada_vc_agent.install.host_rights import HostRights
from karmada_vc_agent.install.join_hub import Hub
from karmada_vc_agent.install.join_plan import HOST, HUB, JoinPlan
from karmada_vc_agent.install.join_write import rights_for, write
from karmada_vc_agent.install.output_files import make_directory
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import ServedApis
from karmada_vc_agent.kube.kubeconfig import find_credentials

_WORKS_WIDE = (
    "With --works-cluster-wide the agent can read the Works of every Cluster of this hub, "
    "including the Secrets in them. It writes only those of its own Clusters."
)
_UNCONFINED = (
    "host: it serves no ValidatingAdmissionPolicy, so nothing would confine the agent and its "
    "tenants; use Kubernetes 1.30 or newer, or --unconfined to do without"
)


async def run_join(plan: JoinPlan) -> None:
    """Join as planned. Raises KubeError, CommandError, ConfigError, OSError."""
    if plan.directory is not None:
        make_directory(plan.directory)  # before the hub signs what could not be stored
    async with AsyncExitStack() as stack:
        host = None
        if plan.kubeconfig or (plan.applies and HOST in plan.sides):
            credentials = find_credentials(plan.kubeconfig, in_cluster_first=True)
            host = await stack.enter_async_context(join_hub.new_client(HOST, credentials))
        uid = await join_steps.host_uid(host) if host is not None else ""
        plan = replace(plan, access=replace(plan.access, host_id=host_id(uid) if uid else ""))
        hub = await stack.enter_async_context(join_hub.connect(plan.hub)) if plan.hub else None
        if hub is not None:
            join_hub.warn_of_loopback(plan, hub)
        if plan.access.works_cluster_wide:
            plan.say(_WORKS_WIDE)
        if plan.applies:
            await _apply(plan, hub, host if HOST in plan.sides else None, uid)
        else:
            await write(plan, hub, host, uid)


async def _apply(plan: JoinPlan, hub: Hub | None, host: ApiClient | None, uid: str) -> None:
    """Check both sides, then write. host: None = that side is left alone."""
    changes = Changes(plan.say, is_dry=plan.is_dry)
    checked = await _check_host(plan, host) if host is not None else None
    if hub is not None and HUB in plan.sides:
        needs = join_preflight.needs_on_hub(plan.access)
        if hub.is_admin and HOST in plan.sides:
            needs += join_preflight.needs_for_certificate()
        async with join_hub.powerful(plan, hub) as administrator:
            await join_hub.check(plan, administrator, uid, needs)
            await join_steps.grant(administrator, plan.access, changes)
    if host is not None and checked is not None:
        await _install(plan, hub, host, *checked, changes)
    if changes.is_dry:
        plan.say("Nothing was changed (--dry-run)" if changes.count else "Nothing to change")
        return
    plan.say("Joined" if changes.count else "Nothing to change")
    if host is not None and not plan.settings:
        plan.say(f"Still to create: ConfigMap {plan.namespace}/{plan.access.agent} with agent.yaml")


async def _check_host(plan: JoinPlan, host: ApiClient) -> tuple[HostRights, ServedApis]:
    """Do the preflight checks on the host; return what it is to have, and what it serves.

    Raises CommandError, KubeError.
    """
    config = plan.config
    needs = join_preflight.needs_on_host(plan.access.agent, plan.namespace, config)
    await join_preflight.check_rights(host, needs)
    rights, served = await rights_for(plan, host)
    is_served = VALIDATING in served_versions(served)
    if config.install_policies and not is_served and not plan.unconfined:
        raise CommandError(_UNCONFINED)
    await try_on_host(host, rights, served)
    return rights, served


async def _install(
    plan: JoinPlan,
    hub: Hub | None,
    host: ApiClient,
    rights: HostRights,
    served: ServedApis,
    changes: Changes,
) -> None:
    """Grant the rights on the host, then create or change what runs and what that mounts."""
    install = rights.install
    if hub is not None:
        installed = await join_steps.installed_kubeconfig(host, plan.namespace)
        kubeconfig = await join_hub.credential(plan, hub, installed, changes)
        install = replace(install, kubeconfig=kubeconfig)
    await grant_on_host(host, rights, served, changes)
    forced = IMAGE_FIELDS if plan.sets_image else ()
    await apply_all(host, workload_objects(install), changes, forced)
    if changes.is_dry:
        return
    agent, clusters = plan.access.agent, plan.access.clusters
    for name in await leave_steps.forget_left(host, plan.namespace, agent, clusters):
        changes.report(f"host: the agent registers {name} again at its next start")
