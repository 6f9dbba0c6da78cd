"""`karmada-vc-agent explain`: the first broken link between a template and its pods, and why."""

import asyncio
import sys
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from karmada_vc_agent.cluster.virtual_clusters import claim_of
from karmada_vc_agent.commands import shared
from karmada_vc_agent.commands.servers import Server, UnseenError, kind_named, same_kind, servers
from karmada_vc_agent.commands.shared import CommandError, one_line_errors
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.diagnosis import host_links, hub_links
from karmada_vc_agent.diagnosis.faults import EXIT_CODES, Fault, Link, connection_fault, mixed_up
from karmada_vc_agent.diagnosis.hub_links import Target
from karmada_vc_agent.model.objects import Object, key_of
from karmada_vc_agent.model.user_text import one_line
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, NAMESPACE_LABEL, execution_namespace
from karmada_vc_agent.work.works import manifests_of, work_path

CLUSTERS_AT_MOST = 10
"""Without --cluster, of a template that is placed on more."""
T = TypeVar("T")


@dataclass(slots=True)
class Report:
    """What was read. unseen: what could not be, and why."""

    what: str
    links: list[Link] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    """Those of the connections that are in no link."""
    unseen: list[str] = field(default_factory=list)

    @property
    def broken(self) -> Fault | None:
        """The first broken link; a missing right only where nothing else is broken."""
        every = [*self.faults, *(link.fault for link in self.links if link.fault is not None)]
        others = (each for each in every if each.name != "RightMissing")
        return next(others, next(iter(every), None))

    def json(self) -> Object:
        """Return it as JSON and YAML have it."""
        broken = asdict(self.broken) if self.broken else None
        links = [asdict(link) for link in self.links]
        return {"what": self.what, "broken": broken, "links": links, "unseen": self.unseen}

    def text(self) -> str:
        """Return it for people: what is broken, what to do, then each link."""
        broken = self.broken
        says = broken.says if broken else f"nothing is broken in what was seen of {self.what}"
        partly = f"not seen: {self.unseen[0]}" if self.unseen else "nothing"
        rows = (
            f"{state:<8} {name:<10} {one_line(text)}" if text else one_line(name)
            for state, name, text in self._rows()
        )
        return "\n".join([one_line(says), f"next: {broken.do if broken else partly}", "", *rows])

    def _rows(self) -> Iterator[tuple[str, str, str]]:
        cluster = ""
        for link in self.links:
            if link.cluster != cluster:
                cluster = link.cluster
                yield "", f"--- {cluster}", ""
            state = "BROKEN" if link.fault else "ok" if link.is_seen else "-"
            texts = [link.fault.says] if link.fault else []
            texts += link.facts or ([] if texts else ["nothing" if link.is_seen else "not seen"])
            for index, text in enumerate(texts):
                yield ("", "", text) if index else (state, link.name, text)
        for text in self.unseen:
            yield "-", "not seen", text


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
            raise ConfigError("flags", "WHAT", problem)


@dataclass(slots=True)
class Explainer:
    """Walks the chain. named: name and namespace of the agent, where nothing else says."""

    hub: Server
    host: Server
    struct: type[AgentConfig]
    config: AgentConfig | None
    named: tuple[str, str]
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    async def explain(self, parts: tuple[str, ...], cluster: str) -> Report:
        """Return what is broken. Raises ConfigError, CommandError."""
        report = Report("/".join(parts))
        if wrong := mixed_up(self.hub, self.host):
            report.faults.append(wrong)
            return report
        if not (self.hub.is_read or self.host.is_read):
            report.faults += filter(None, map(connection_fault, (self.hub, self.host)))
            return report
        for target, of in await self._targets(parts, cluster):
            report.what = str(target)
            await self._walk(report, target, of)
        report.unseen = [text for each in (self.hub, self.host) for text in each.unseen]
        return report

    async def _targets(self, parts: tuple[str, ...], cluster: str) -> list[tuple[Target, str]]:
        if len(parts) == 3:
            namespace, kind, name = parts
            resource = kind_named(kind, (self.hub, self.host))
            return [(Target(resource, namespace * resource.namespaced, name), cluster)]
        cluster, name = parts
        try:
            work = await self.hub.find(work_path(execution_namespace(cluster), name))
        except UnseenError as error:
            raise CommandError(f"a Work is on the hub, which cannot be read; {error}") from error
        if work is None:
            raise CommandError(f'the hub has no Work "{name}" of Cluster "{cluster}"')
        targets = []
        for key in map(key_of, manifests_of(work)):
            resource = kind_named(
                f"{key.gvk.kind}.{key.gvk.group}".rstrip("."), (self.hub, self.host)
            )
            targets.append((Target(resource, key.namespace, key.name), cluster))
        return targets

    async def _walk(self, report: Report, target: Target, cluster: str) -> None:
        if self.hub.is_read:
            await self._on_hub(report, target, cluster)
        else:
            report.links.append(_unconnected(self.hub))
        names = [cluster] if cluster else target.clusters
        names = names or await self._claimants(report, target)
        if len(names) > CLUSTERS_AT_MOST:
            report.what += f" in {CLUSTERS_AT_MOST} of {len(names)} Clusters (see --cluster)"
        for name in names[:CLUSTERS_AT_MOST]:
            await self._in_cluster(report, target, name)
        if not self.host.is_read:
            report.links.append(_unconnected(self.host))

    async def _on_hub(self, report: Report, target: Target, cluster: str) -> None:
        resource = same_kind(target.resource, self.hub)
        if resource is None:
            report.links.append(Link("template", ["the hub does not serve this kind"]))
            return
        template = hub_links.template_link(self.hub, resource, target, cluster)
        await self._add(report, "template", template)
        if target.template is not None:
            await self._add(report, "policy", hub_links.policy_link(self.hub, target))
        # The scheduler's words say something also without the template.
        if target.policy is not None or not report.links[-1].is_seen:
            await self._add(report, "binding", hub_links.binding_link(self.hub, target, cluster))

    async def _claimants(self, report: Report, target: Target) -> list[str]:
        """Return the virtual clusters that have the namespace, where the hub says nothing."""
        if self.hub.is_read or not self.host.is_read:
            return []
        try:
            selector = f"{CLUSTER_LABEL},{NAMESPACE_LABEL}={target.namespace}"
            spaces = await self.host.items(host_links.NAMESPACES, labelSelector=selector)
        except UnseenError as error:
            report.links.append(Link("namespace", [str(error)], is_seen=False))
            return []
        claims = filter(None, map(claim_of, spaces))
        return sorted({claim.cluster for claim in claims if claim.namespace == target.namespace})

    async def _in_cluster(self, report: Report, target: Target, name: str) -> None:
        cluster, work = None, None
        if self.hub.is_read:
            of_cluster = hub_links.cluster_link(self.hub, name, self.now)
            cluster = await self._add(report, "cluster", of_cluster, name)
            if cluster is None and _ends(report.links[-1]):
                return  # there is no such Cluster
            before = (each for each in report.links if each.name in _BEFORE_WORK)
            if any(map(_ends, before)) and name not in target.clusters:
                return
            read = hub_links.work_link(self.hub, name, target)
            work = await self._add(report, "work", read, name)
            if work is None and _ends(report.links[-1]):
                return
        if self.host.is_read:
            await self._on_host(report, target, name, cluster, work)
        if work is not None:
            written = hub_links.status_written(work)
            report.links.append(host_links.status_link(name, target, work, written))

    async def _on_host(
        self, report: Report, target: Target, name: str, cluster: Object | None, work: Object | None
    ) -> None:
        place = await self._add(report, "namespace", self._place(name, cluster), name, adds=False)
        if place is None:
            return
        resource = same_kind(target.resource, self.host)
        if resource is None or resource.namespaced:
            report.links.append(host_links.namespace_link(target, place))
            if report.links[-1].fault and target.namespace not in place.names:
                return
        desired = None
        if resource is not None:
            link, desired = host_links.rewritten_link(self.host, target, place, work, resource)
            report.links.append(link)
        live = await self._add(
            report, "object", host_links.live_link(self.host, target, place, work, desired), name
        )
        if live is not None and host_links.has_pods(live):
            await self._add(
                report, "pods", host_links.pods_link(self.host, target, place, live), name
            )
            report.links.append(host_links.nodes_link(place))

    async def _place(self, name: str, cluster: Object | None) -> tuple[Link, host_links.Place]:
        config = self.config
        if config is None:
            with suppress(UnseenError):
                config = await host_links.settings_of_agent(
                    self.host, self.struct, cluster, self.named
                )
        return Link("namespace"), await host_links.place_of(self.host, name, config)

    async def _add(
        self,
        report: Report,
        name: str,
        read: Awaitable[Link | tuple[Link, T | None]],
        cluster: str = "",
        *,
        adds: bool = True,
    ) -> T | None:
        """Add the link that is read, or that it could not be; return what comes with it."""
        result: T | None = None
        try:
            link = await read
            if isinstance(link, tuple):
                link, result = link
        except UnseenError as error:
            facts = [] if error.lacks_right else [str(error)]
            link, adds = Link(name, facts, cluster=cluster, is_seen=False), True
            if error.lacks_right:
                link.break_by("RightMissing", whose=error.server.name, link=name, reason=error)
        if adds:
            report.links.append(link)
        return result


def _unconnected(server: Server) -> Link:
    return Link(server.name, fault=connection_fault(server), is_seen=False)


def _ends(link: Link) -> bool:
    """Return whether the chain ends here: more than a right to read it is missing."""
    return link.fault is not None and link.fault.name != "RightMissing"


_BEFORE_WORK = ("template", "policy", "binding")


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
    with one_line_errors():
        target = target_of(what)
        report = asyncio.run(_explained(target, cluster, options))
    click.echo(report.text() if form == "text" else shared.written(report.json(), form))
    broken = report.broken
    sys.exit(EXIT_CODES[broken.side] if broken else 0)


async def _explained(parts: tuple[str, ...], cluster: str, options: Mapping[str, Any]) -> Report:
    config, name, namespace = shared.settings_and_agent(dict(options))
    struct = click.get_current_context().obj
    async with servers(options, config) as (hub, host):
        return await Explainer(hub, host, struct, config, (name, namespace)).explain(parts, cluster)
