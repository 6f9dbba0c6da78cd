"""`karmada-vc-agent explain`: the first broken link between a template and its pods, and why."""

import asyncio
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import click

from karmada_vc_agent.cluster.virtual_clusters import claim_of
from karmada_vc_agent.commands import shared
from karmada_vc_agent.commands.shared import CommandError, one_line_errors
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.diagnosis import host_links, hub_links
from karmada_vc_agent.diagnosis.faults import EXIT_CODES, connection_fault, mixed_up
from karmada_vc_agent.diagnosis.host_links import OnHost
from karmada_vc_agent.diagnosis.hub_links import Explained, age, status_written
from karmada_vc_agent.diagnosis.report import Link, Report
from karmada_vc_agent.diagnosis.servers import Server, kind_named, mounted, same_kind, servers
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.model.objects import Object, key_of
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, NAMESPACE_LABEL, execution_namespace
from karmada_vc_agent.work.works import manifests_of, work_path

CLUSTERS_AT_MOST = 10
"""Without --cluster, of a template that is placed on more."""


def target_of(text: str) -> tuple[str, ...]:
    """Parse NAMESPACE/KIND/NAME, /KIND/NAME or CLUSTER/WORK into its parts. Raises ConfigError."""
    match text.split("/"):
        case [cluster, work] if cluster and work:
            return (cluster, work)
        case [namespace, kind, name] if kind and name:
            return (namespace, kind, name)
        case _:
            problem = (
                f'"{text}" is neither NAMESPACE/KIND/NAME nor CLUSTER/WORK; write for example '
                "edge/deployment/web, or /clusterrole/reader without a namespace"
            )
            raise ConfigError("flags", "NAMESPACE/KIND/NAME", problem)


@dataclass(slots=True)
class Explainer:
    """Walks the chain. named: name and namespace of the agent, where nothing else says."""

    hub: Server
    host: Server
    struct: type[AgentConfig]
    config: AgentConfig | None
    named: tuple[str, str]

    async def explain(self, parts: tuple[str, ...], cluster: str) -> Report:
        """Return what is broken. Raises ConfigError, CommandError."""
        report, sides = Report("/".join(parts)), (self.hub, self.host)
        if wrong := mixed_up(*sides):
            report.add("hub", wrong)
        elif not any(each.is_read for each in sides):
            for each in sides:
                report.add(each.name, connection_fault(each))
        else:
            of = cluster if len(parts) == 3 else parts[0]
            for target in await self._targets(parts):
                report.what = str(target)
                await self._walk(report, target, of)
            report.unseen = [text for each in sides for text in each.unseen]
        return report

    async def _targets(self, parts: tuple[str, ...]) -> list[Explained]:
        sides = (self.hub, self.host)
        if len(parts) == 3:
            namespace, kind, name = parts
            resource = kind_named(kind, sides)
            if resource.namespaced and not namespace:
                text = f"{resource.gvk.kind} is in a namespace; write NAMESPACE/{kind}/{name}"
                raise ConfigError("flags", "NAMESPACE/KIND/NAME", text)
            return [Explained(resource, namespace * resource.namespaced, name)]
        cluster, name = parts
        try:
            work = await self.hub.find(work_path(execution_namespace(cluster), name))
        except KubeError as error:
            raise CommandError(f"a Work is on the hub, which cannot be read; {error}") from error
        if work is None:
            raise CommandError(f'the hub has no Work "{name}" of Cluster "{cluster}"')
        keys = [key_of(manifest) for manifest in manifests_of(work)]
        kinds = (f"{key.gvk.kind}.{key.gvk.group}".rstrip(".") for key in keys)
        resources = [kind_named(kind, sides) for kind in kinds]
        return [
            Explained(resource, key.namespace, key.name, name)
            for resource, key in zip(resources, keys, strict=True)
        ]

    async def _walk(self, report: Report, target: Explained, cluster: str) -> None:
        """Add all links of an object. cluster: "" = of all virtual clusters that have it."""
        begun = len(report.links)
        if self.hub.is_read:
            await hub_links.read_template(self.hub, report, target)
            if target.template is not None:
                await hub_links.read_policy(self.hub, report, target, cluster)
            # The scheduler's words say something also without the template.
            if target.policy is not None or not report.links[-1].is_seen:
                await hub_links.read_binding(self.hub, report, target, cluster)
        else:
            report.add("hub", connection_fault(self.hub))
        names = [cluster] if cluster else target.clusters
        if not names and not self.hub.is_read:
            names = await self._claimants(target)
        is_placed = not any(map(_ends, report.links[begun:]))
        for name in names[:CLUSTERS_AT_MOST]:
            ends = not is_placed and name not in target.clusters
            await self._in_cluster(report, OnHost(name, target), ends=ends)
        if len(names) > CLUSTERS_AT_MOST:
            report.what += f" in {CLUSTERS_AT_MOST} of {len(names)} Clusters (see --cluster)"
        if not self.host.is_read:
            report.add("host", connection_fault(self.host))

    async def _claimants(self, target: Explained) -> list[str]:
        """Return the virtual clusters that have the namespace, where the hub does not say."""
        selector = f"{CLUSTER_LABEL},{NAMESPACE_LABEL}={target.namespace}"
        spaces = await self.host.seen(host_links.NAMESPACES, labelSelector=selector)
        return sorted({claim.cluster for each in spaces if (claim := claim_of(each))})

    async def _in_cluster(self, report: Report, place: OnHost, *, ends: bool) -> None:
        """Add the links of one virtual cluster. ends: nothing is placed on it."""
        cluster, name = None, place.cluster
        if self.hub.is_read:
            cluster = await hub_links.read_cluster(self.hub, report, name)
            if ends or (cluster is None and _ends(report.links[-1])):
                return
            place.work = await hub_links.read_work(self.hub, report, place.target, name)
            if place.work is None and _ends(report.links[-1]):
                return
        if self.host.is_read:
            await self._on_host(report, place, cluster)
        if place.work is not None:
            host_links.read_status(report, place, age(status_written(place.work)))

    async def _on_host(self, report: Report, place: OnHost, cluster: Object | None) -> None:
        place.config = self.config
        if place.config is None:
            with suppress(KubeError):
                place.config = await host_links.settings_of_agent(
                    self.host, self.struct, cluster, self.named
                )
        await host_links.read_place(self.host, report, place)
        resource = same_kind(place.target.resource, self.host)
        if resource is None:
            with report.link("object", place.cluster) as link:
                link.broken("KindNotServed", reason=place.target.resource.gvk.api_version)
        elif not resource.namespaced or place.target.namespace in place.names:
            host_links.rewrite(self.host, report, place, resource)
            live = await host_links.read_live(self.host, report, place, resource)
            if live is not None and host_links.has_pods(live):
                await host_links.read_pods(self.host, report, place, live)


def _ends(link: Link) -> bool:
    """Return whether the chain ends here: more than a right to read it is missing."""
    return link.fault is not None and link.fault.name != "RightMissing"


@click.command(
    "explain",
    epilog=shared.examples("explain"),
    short_help="Say why an object is not where it should be.",
)
@click.argument("what", metavar="NAMESPACE/KIND/NAME|CLUSTER/WORK")
@shared.options("explain")
def explain(what: str, cluster: str, form: str, **options: Any) -> None:
    """Say which link is broken between a template on the hub and its pods on the host.

    The first line says what is broken, the second what to do. Below is each link: template,
    policy, binding, cluster, Work, the namespace on the host, the rewritten object, the live one,
    its pods and nodes, and the status that the hub has. It works with the hub or the host alone,
    and says what it could not see, and which right that needs.

    Exit code: 0 nothing is broken in what was seen, 2 usage, 3 the hub, 4 the agent or what it
    refused, 5 the host.
    """
    with one_line_errors(failed=EXIT_CODES["hub"]):
        target = target_of(what)
        report = asyncio.run(_explained(target, cluster, mounted(options)))
    click.echo(report.text() if form == "text" else shared.written(report.json(), form))
    broken = report.broken
    sys.exit(EXIT_CODES[broken.side] if broken else 0)


async def _explained(parts: tuple[str, ...], cluster: str, options: dict[str, Any]) -> Report:
    config, name, namespace = shared.settings_and_agent(options)
    struct = click.get_current_context().obj
    async with servers(options, config) as (hub, host):
        return await Explainer(hub, host, struct, config, (name, namespace)).explain(parts, cluster)
