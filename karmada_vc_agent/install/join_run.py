"""Run `join`: connect, do the preflight checks, then apply or write files."""

from contextlib import AsyncExitStack
from dataclasses import replace

from karmada_vc_agent.cluster.hub_clusters import host_id
from karmada_vc_agent.install import host_trial, join_hub, join_preflight, join_steps, leave_steps
from karmada_vc_agent.install.changes import Changes
from karmada_vc_agent.install.host_rights import grant_on_host
from karmada_vc_agent.install.join_hub import Hub
from karmada_vc_agent.install.join_plan import HOST, HUB, JoinPlan
from karmada_vc_agent.install.join_write import rights_for, write
from karmada_vc_agent.install.output_files import make_directory
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.kubeconfig import find_credentials

_WORKS_WIDE = (
    "With --works-cluster-wide the agent can read the Works of every Cluster of this hub, "
    "including the Secrets in them. It writes only those of its own Clusters."
)


async def run_join(plan: JoinPlan) -> None:
    """Join as planned.

    Raises KubeError, CommandError, ConfigError, OSError.
    """
    if plan.output.directory is not None:
        make_directory(
            plan.output.directory
        )  # before the hub signs a certificate that could not be stored
    async with AsyncExitStack() as stack:
        host = None
        if plan.kubeconfig or (plan.output.applies and HOST in plan.sides):
            credentials = find_credentials(plan.kubeconfig, in_cluster_first=True)
            host = await stack.enter_async_context(join_hub.new_client(HOST, credentials))
        uid = await join_steps.host_uid(host) if host is not None else ""
        plan = replace(plan, access=replace(plan.access, host_id=host_id(uid) if uid else ""))
        hub = await stack.enter_async_context(join_hub.connect(plan.hub)) if plan.hub else None
        if hub is not None:
            join_hub.warn_of_loopback(plan, hub)
        if plan.access.works_cluster_wide:
            plan.say(_WORKS_WIDE)
        if plan.output.applies:
            await _apply(plan, hub, host, uid)
        else:
            await write(plan, hub, host, uid)


async def _apply(plan: JoinPlan, hub: Hub | None, host: ApiClient | None, uid: str) -> None:
    changes = Changes(plan.say, is_dry=plan.output.is_dry)
    if host is not None and HOST in plan.sides:
        await _check_host(plan, host)
    if hub is not None and HUB in plan.sides:
        async with join_hub.powerful(plan, hub) as administrator:
            await join_hub.check(plan, hub, administrator, uid)
            await join_steps.grant(administrator, plan.access, changes)
    if host is not None and HOST in plan.sides:
        await _install(plan, hub, host, changes)
    if changes.is_dry:
        plan.say("Nothing was changed (--dry-run)" if changes.count else "Nothing to change")
        return
    plan.say("Joined" if changes.count else "Nothing to change")
    if host is not None and HOST in plan.sides and not plan.settings:
        plan.say(f"Still to create: ConfigMap {plan.namespace}/{plan.access.agent} with agent.yaml")


async def _check_host(plan: JoinPlan, host: ApiClient) -> None:
    """Do the preflight checks on the host. Raises CommandError, KubeError."""
    config = plan.config
    needs = join_preflight.needs_on_host(plan.access.agent, plan.namespace, config)
    await join_preflight.check_rights(host, needs)
    rights, served = await rights_for(plan, host, "")
    host_trial.check_confined(
        rights, installs_policies=config.install_policies, unconfined=plan.unconfined
    )
    await host_trial.try_on_host(host, rights, served)


async def _install(plan: JoinPlan, hub: Hub | None, host: ApiClient, changes: Changes) -> None:
    kubeconfig = ""
    if hub is not None:
        known = await join_steps.installed_kubeconfig(host, plan.namespace)
        kubeconfig = await join_hub.credential(plan, hub, known, changes)
    rights, served = await rights_for(plan, host, kubeconfig)
    await grant_on_host(host, rights, served, changes)
    await join_steps.install(host, rights.install, changes, sets_image=plan.sets_image)
    if changes.is_dry:
        return
    agent, clusters = plan.access.agent, plan.access.clusters
    for name in await leave_steps.forget_left(host, plan.namespace, agent, clusters):
        changes.tell(f"host: the agent registers {name} again at its next start")
