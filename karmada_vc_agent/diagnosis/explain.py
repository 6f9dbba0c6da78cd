"""`karmada-vc-agent explain`: what became of one Work or object, and why."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

import click

from karmada_vc_agent.cluster.host_objects import labelled_objects
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.cluster.virtual_clusters import hold_of
from karmada_vc_agent.commands import shared
from karmada_vc_agent.commands.shared import CommandError, one_line_errors
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.kube.kubeconfig import find_credentials
from karmada_vc_agent.kube.transport import Credentials, Timeouts
from karmada_vc_agent.model.objects import (
    Object,
    annotations_of,
    dig,
    key_of,
    labels_of,
    maps_at,
)
from karmada_vc_agent.model.user_text import one_line
from karmada_vc_agent.model.vocabulary import (
    CLUSTER_LABEL,
    HUB_CONTACT_ANNOTATION,
    NAME_ANNOTATION,
    NAMESPACE_LABEL,
    OBSERVED_AT_ANNOTATION,
    WORK_ANNOTATION,
    execution_namespace,
)
from karmada_vc_agent.work.works import manifests_of, work_path

_Name = tuple[str, str, str]
"""Kind, virtual namespace and name of an object."""


def target_of(text: str) -> tuple[str, ...]:
    """Parse CLUSTER/WORK or CLUSTER/KIND/NAMESPACE/NAME into its parts. Raises ConfigError."""
    match text.split("/"):
        case [cluster, work] if cluster and work:
            return (cluster, work)
        case [cluster, kind, namespace, name] if cluster and kind and name:
            return (cluster, kind, namespace, name)
        case _:
            problem = (
                f'"{text}" is neither CLUSTER/WORK nor CLUSTER/KIND/NAMESPACE/NAME, such as '
                "branch-a/deployment/edge/web"
            )
            raise ConfigError("flags", "TARGET", problem)


async def explained(hub: ApiClient, host: ApiClient, target: tuple[str, ...]) -> Object:
    """Return what hub and host have, or the host alone. Raises KubeError of it, CommandError."""
    name, *parts = target
    problem, cluster = "", None
    works: list[Object] = []
    try:
        cluster = await hub.look_up(f"{CLUSTERS_PATH}/{name}")
        works = await _works(hub, name, parts)
    except KubeError as error:
        problem = str(error)
    manifests = [m for work in works for m in manifests_of(work) if _is_of(parts, m)]
    objects = await _on_host(host, name, parts, manifests)
    if cluster is None and not problem and not objects:
        raise CommandError(f'the hub has no Cluster "{name}"')
    marks = annotations_of(cluster or {})
    return {
        "virtualCluster": name,
        "hub": {"reached": not problem, "problem": problem or None},
        "cluster": {
            "conditions": maps_at(cluster or {}, "status", "conditions"),
            "observedAt": marks.get(OBSERVED_AT_ANNOTATION),
            "hubContact": marks.get(HUB_CONTACT_ANNOTATION),
        },
        "works": [
            {
                "name": work["metadata"]["name"],
                "generation": work["metadata"].get("generation"),
                "conditions": maps_at(work, "status", "conditions"),
                "statusWritten": status_written(work),
            }
            for work in works
        ],
        "objects": objects,
    }


async def _works(hub: ApiClient, cluster: str, parts: Sequence[str]) -> list[Object]:
    """Return the Work of that name, or those with the object that is named."""
    namespace = execution_namespace(cluster)
    if len(parts) == 1:
        named = await hub.find(work_path(namespace, parts[0]))
        return [named] if named else []
    works = (await hub.get(work_path(namespace))).get("items") or []
    return [work for work in works if any(_is_of(parts, each) for each in manifests_of(work))]


async def _on_host(
    host: ApiClient, cluster: str, parts: Sequence[str], manifests: Collection[Object]
) -> list[Object]:
    served = await Discovery(host).refresh()
    selector = f"{CLUSTER_LABEL}={cluster}"
    claimed = (await host.get("/api/v1/namespaces", {"labelSelector": selector})).get("items") or ()
    spaces = {labels_of(each).get(NAMESPACE_LABEL, ""): each for each in claimed}
    virtual = {each["metadata"]["name"]: name for name, each in spaces.items()}
    names = [(key.gvk.kind, key.namespace, key.name) for key in map(key_of, manifests)]
    if not names and len(parts) > 1:
        kind = next((gvk.kind for gvk in served.by_kind if _is_named(parts[0], gvk.kind)), None)
        if kind is None:
            raise CommandError(f'the host has no kind "{parts[0]}"')
        names = [(kind, parts[1], parts[2])]
    kinds = {kind for kind, _, _ in names}
    live: dict[_Name, Object] = {}
    async for resource, item in labelled_objects(
        host, served, selector, list(virtual), lambda r: not kinds or r.gvk.kind in kinds
    ):
        live[_virtual_name(resource.gvk.kind, item, virtual)] = item
    if len(parts) == 1 and not names:
        work = f"{execution_namespace(cluster)}/{parts[0]}"
        names = [n for n, item in live.items() if annotations_of(item).get(WORK_ANNOTATION) == work]
    namespaced = {gvk.kind: resource.namespaced for gvk, resource in served.by_kind.items()}

    def described(kind: str, namespace: str, name: str) -> Object:
        obj, space = live.get((kind, namespace, name)), spaces.get(namespace)
        state = "on the host" if obj else "not on the host, or not of this virtual cluster"
        if kind not in namespaced:
            state = "the host has no such kind"
        elif namespaced[kind] and space is None:
            state = "its namespace is not claimed"
        place = [dig(obj, "metadata", field) for field in ("namespace", "name")]
        return {
            "kind": kind,
            "namespace": namespace,
            "name": name,
            "state": state,
            "host": "/".join(filter(None, place)),
            "work": annotations_of(obj or {}).get(WORK_ANNOTATION),
            "held": hold_of(obj if kind == "Namespace" else space),
        }

    return [described(*each) for each in names]


def _is_named(text: str, kind: str) -> bool:
    lower = kind.lower()
    return text.lower() in (lower, f"{lower}s", f"{lower}es", f"{lower.removesuffix('y')}ies")


def _virtual_name(kind: str, item: Object, virtual: dict[str, str]) -> _Name:
    metadata = item["metadata"]
    namespace, name = metadata.get("namespace") or "", metadata["name"]
    if kind == "Namespace":
        return kind, "", virtual.get(name, name)
    if not namespace:
        return kind, "", annotations_of(item).get(NAME_ANNOTATION, name)
    return kind, virtual.get(namespace, namespace), name


def status_written(work: Object) -> str | None:
    """Return when the status of a Work was written last, by the record of the API server."""
    entries = maps_at(work, "metadata", "managedFields")
    times = (str(e.get("time") or "") for e in entries if e.get("subresource") == "status")
    return max(times, default=None)


def _is_of(parts: Sequence[str], manifest: Object) -> bool:
    key = key_of(manifest)
    if len(parts) == 1:
        return True
    return _is_named(parts[0], key.gvk.kind) and [key.namespace, key.name] == list(parts[1:])


_PATIENCE = Timeouts(request_s=10.0)


@click.command(
    "explain",
    epilog=shared.examples("explain"),
    short_help="Show what became of a Work or an object.",
)
@click.argument("what", metavar="CLUSTER/WORK|CLUSTER/KIND/NAMESPACE/NAME")
@shared.options("explain")
def explain(what: str, form: str, **options: Any) -> None:
    """Show what hub and host have of one Work, or of one object by its name on the hub.

    That is the conditions of Work and Cluster, when the hub's picture was made, where the object
    is on the host, and whether an administrator holds its namespace. While the hub is away it
    shows what the host alone has.
    """
    with one_line_errors():
        target = target_of(what)
        config, _, _ = shared.settings_and_agent(options)
        hub = find_credentials(
            options["karmada_kubeconfig"] or (config.karmada_kubeconfig if config else ""),
            options["karmada_context"] or (config.karmada_context if config else ""),
            flag="--karmada-kubeconfig",
        )
        path = options["kubeconfig"] or (config.kubeconfig if config else "")
        host = find_credentials(path, in_cluster_first=True)
        click.echo(written(asyncio.run(_read(hub, host, target)), target, form))


async def _read(hub: Credentials, host: Credentials, target: tuple[str, ...]) -> Object:
    async with (
        ApiClient("hub", hub, timeouts=_PATIENCE) as hub_client,
        ApiClient("host", host, timeouts=_PATIENCE) as host_client,
    ):
        return await explained(hub_client, host_client, target)


def written(plain: Object, target: tuple[str, ...], form: str) -> str:
    """Return what `explained` returned as text, JSON or YAML."""
    if form != "text":
        return shared.written(plain, form)
    # What others wrote moves no cursor.
    lines = ((len(line) - len(line.lstrip(" ")), line) for line in _lines(plain, target))
    return "\n".join(" " * indent + one_line(line[indent:]) for indent, line in lines)


def _lines(plain: Object, target: tuple[str, ...]) -> list[str]:
    name, *parts = target
    text = f"Work {parts[0]}" if len(parts) == 1 else f"{parts[0]} {parts[1]}/{parts[2]}"
    lines = [f"{text} of virtual cluster {name}"]
    if problem := plain["hub"]["problem"]:
        lines.append(f"  hub not reached, so this is what the host has: {problem}")
    elif not plain["works"]:
        lines.append("  no Work on the hub")
    for work in plain["works"]:
        at = f", status written {work['statusWritten']}" if work["statusWritten"] else ""
        lines.append(f"  Work {work['name']}, generation {work['generation']}{at}")
        lines += _conditions(work["conditions"])
    for each in plain["objects"]:
        name = "/".join(part for part in (each["namespace"], each["name"]) if part)
        place = f": {each['host']}" if each["host"] else ""
        held = f"; held by an administrator: {each['held']}" if each["held"] else ""
        lines.append(f"  {each['kind']} {name}: {each['state']}{place}{held}")
    cluster = plain["cluster"]
    if cluster["conditions"]:
        at = f", as of {cluster['observedAt']}" if cluster["observedAt"] else ""
        lines.append(f"  Cluster{at}")
        shown = ("Ready", "TakesChanges", "NamespacesHeld")
        lines += _conditions([c for c in cluster["conditions"] if c.get("type") in shown])
    return lines


def _conditions(conditions: list[Object]) -> list[str]:
    return [
        f"    {c.get('type')}={c.get('status')} {c.get('reason', '')}: {c.get('message', '')}"
        for c in conditions
    ]
