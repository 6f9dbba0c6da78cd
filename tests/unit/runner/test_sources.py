"""What enqueues which keys: each source of each controller, by the parts that the agent has."""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from typing import Any, NamedTuple

import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.cluster.registration import Origin
from karmada_vc_agent.cluster.rules.conditions import Shown
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.features.deletion_brake.feature import DeletionBrake
from karmada_vc_agent.features.deletion_brake.feature import setup as setup_deletion_brake
from karmada_vc_agent.features.escapes import feature as escapes
from karmada_vc_agent.features.gateway import gateway_controllers
from karmada_vc_agent.features.host_events.feature import setup as setup_host_events
from karmada_vc_agent.features.policies import feature as policies
from karmada_vc_agent.features.policies.feature import EVERYTHING, PlacementState
from karmada_vc_agent.features.quota.feature import WORKLOADS
from karmada_vc_agent.features.quota.feature import setup as setup_quotas
from karmada_vc_agent.features.service_export import feature as service_export
from karmada_vc_agent.features.service_names.feature import SERVICE_NAMES
from karmada_vc_agent.features.service_names.feature import setup as setup_service_names
from karmada_vc_agent.features.windows.feature import WindowStates
from karmada_vc_agent.kube.controller import ControllerSpec, WorkQueue
from karmada_vc_agent.kube.discovery import Resource, ServedApis
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.model.vocabulary import AGENT_ANNOTATION, AGENT_LABEL, BUILT_INS, work_name
from karmada_vc_agent.runner import controllers
from karmada_vc_agent.runner.controllers import OF_CORE, all_controllers
from karmada_vc_agent.runner.parts import declared_conditions
from karmada_vc_agent.work.namespace_writer import QUOTAS
from karmada_vc_agent.work.removal import ALL_CLUSTERS
from karmada_vc_agent.work.reporting import Dependency, kind_dependency
from tests.fakes import objects
from tests.fakes.served import Served
from tests.fakes.world import AGENT, Setup, World, new_world

Change = Callable[[World], object]
Queue = WorkQueue[Any]
A, B = "branch-a", "branch-b"
CLUSTER = f"{CLUSTERS_PATH}/{A}"
WORK = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works/web-1"
EDGE = "/api/v1/namespaces/edge-v-branch-a"
WEB, SHOP = (A, "web-1"), (A, "export")
SERVICE = (A, "edge", "web")
GADGET = GroupVersionKind("example.com", "v1", "Gadget")
GADGETS = Resource(GADGET, "gadgets", namespaced=True)
SETTLED_S = 10.0
"""Longer than any source lets changes settle."""


def exporting(service: str, name: str) -> Object:
    """Return a Work with a ServiceExport that is applied."""
    export = {
        "apiVersion": "multicluster.x-k8s.io/v1alpha1",
        "kind": "ServiceExport",
        "metadata": {"name": service, "namespace": "edge"},
    }
    made = objects.work(export, name=name)
    made["status"] = {"conditions": [objects.condition("Applied", "True", "r", "m")]}
    return made


def discovered_by_a_group(world: World) -> None:
    world.parts.common.origins.note("nodeGroups", A, Origin("NodeGroup a"))


def host_restored(world: World) -> None:
    history = world.parts.common.clients.host.history
    history.notice("a test")
    history._list_again()


@pytest.fixture
async def wired() -> AsyncIterator[World]:
    """Two registered virtual clusters with a node each; pod `away` runs on the other's."""
    vcs = (
        objects.virtual_cluster(A, quota={"pods": "4"}, on_node_leave="Evict"),
        objects.virtual_cluster(B),
    )
    settings = {"controllers": "*", "feature_gates": "MultiClusterService=true"}
    async with new_world(*vcs, **settings) as world:
        for name in (A, B):
            world.register(name)
        world.hub.seed(objects.work(objects.config_map()), exporting("web", "export"))
        world.host.seed(
            objects.claimed(),
            objects.namespace("shop-v-branch-a"),
            objects.node("n1", {"branch": "a"}),
            objects.node("n2", {"branch": "b"}),
            objects.pod("away", "edge-v-branch-a", "n2", nodeSelector={"branch": "a"}),
            objects.pod("there", "shop-v-branch-a", "n2"),
        )
        for resource in (QUOTAS, *(r for r in WORKLOADS if r.gvk.kind == "Deployment")):
            world.store_of(resource)
        world.look()
        yield world


async def keys_of(queue: Queue) -> set[Hashable]:
    """Take out all keys, once changes have settled."""
    await asyncio.sleep(SETTLED_S)
    found = set()
    while len(queue):
        key = await queue.take()
        queue.done(key)
        found.add(key)
    return found


# --- changes ------------------------------------------------------------------------------------


def seen(change: Change) -> Change:
    """Return a change of a server that the stores are told of."""

    def change_and_look(world: World) -> None:
        change(world)
        world.look()

    return change_and_look


def seeded(*made: Object) -> Change:
    return seen(lambda world: world.host.seed(*made))


def cluster_changed(world: World) -> None:
    world.hub.change(CLUSTER, spec={**world.hub.live(CLUSTER)["spec"], "provider": "p"})
    world.look()


def cluster_of_another_agent(world: World) -> None:
    world.register(annotations={AGENT_ANNOTATION: "agents/another"})
    world.look()


def own(manifest: Object) -> Object:
    """Return an object of branch-a as it lies on the host."""
    manifest["metadata"]["namespace"] = "edge-v-branch-a"
    labels = objects.claimed()["metadata"]["labels"]
    manifest["metadata"]["labels"] = {k: v for k, v in labels.items() if k != AGENT_LABEL}
    return manifest


QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "vc-quota"}, "spec": {}}
NODE = seeded(objects.node("n3", {"branch": "a"}))
CLAIM = seeded(objects.claimed(virtual="shop"))
CLAIM_GONE = seen(lambda world: world.host.remove(EDGE))
CLUSTER_GONE = seen(lambda world: world.hub.remove(CLUSTER))


def emitted(signal: str, *args: object) -> Change:
    return lambda world: getattr(world.parts.common.signals, signal).emit(*args)


def disputed(node: str) -> Change:
    return lambda world: world.parts.works.registered.disputed.emit(node)


def unready(world: World) -> None:
    world.register(ready="False")
    world.look()


def judged(world: World) -> None:
    world.parts.common.judgements.judge(A, objects.ready())  # type: ignore[arg-type]


# --- what waits ---------------------------------------------------------------------------------


def refused(*waits_for: Dependency) -> Callable[[World, Queue], None]:
    """Have a Work wait for what its refusal rests on."""
    return lambda _, queue: queue.rest(WEB, waits_for)


def failed(dependency: Dependency) -> Callable[[World, Queue], None]:
    """Have two Works wait for the same thing."""

    def prepare(_: World, queue: Queue) -> None:
        for key in (WEB, SHOP):
            queue.rest(key, [dependency])

    return prepare


def backing_off(*keys: Hashable) -> Callable[[World, Queue], None]:
    def prepare(_: World, queue: Queue) -> None:
        for key in keys:
            queue.rest(key, ())

    return prepare


def nothing(*_: object) -> None:
    pass


class Case(NamedTuple):
    """A source, what changes, and the keys that come up.

    source: its number, or the condition whose change requeues a status; `/1` = its second trigger.
    """

    setup: Setup
    source: int | str
    change: Change
    keys: set[Any]
    prepare: Callable[[World, Queue], None] = nothing

    def __str__(self) -> str:
        return f"{self.setup.__module__.rpartition('.')[2]}-{self.source}"


KIND_SERVED = emitted("served", ServedApis([], True, {GADGET: GADGETS}))
GADGET_GONE = emitted("own_object", {"apiVersion": "example.com/v1", "kind": "Gadget"}, None)
SETUPS = (*OF_CORE, *(setup for each in FEATURES for setup in each.controllers))
BOTH = {A, B}
AWAY, THERE = ("edge-v-branch-a", "away"), ("shop-v-branch-a", "there")
SERVICES, WORKS = backing_off(SERVICE, (B, "edge", "web")), backing_off(WEB, (B, "web-1"))

CASES = [
    Case(
        controllers.cluster_status,
        "CredentialRenewed",
        lambda world: world.parts.credential.fail("R", "r"),
        BOTH,
    ),
    Case(
        controllers.cluster_status,
        "LeaseNamespaceExists",
        lambda world: world.parts.lease_namespace.fail("R", "r"),
        BOTH,
    ),
    Case(controllers.cluster_lease, 0, lambda world: world.parts.leases.start(A), {A}),
    Case(controllers.cluster_lease, 1, emitted("lead_regained"), BOTH),
    Case(controllers.registration, 0, cluster_changed, {A}),
    Case(controllers.cluster_status, 0, cluster_changed, {A}),
    Case(controllers.cluster_status, 1, NODE, {A}),
    Case(controllers.cluster_status, 2, seeded(objects.pod("on-node", "other", "n1")), {A}),
    Case(controllers.cluster_status, 3, emitted("status_due", A), {A}),
    Case(
        controllers.cluster_status,
        "PlacementEnforced",
        lambda world: world.parts.common.part(PlacementState).changed.emit(),
        BOTH,
    ),
    Case(
        controllers.cluster_status,
        "PlacementEnforced/1",
        lambda world: world.parts.works.kept.changed.emit(A),
        {A},
    ),
    Case(controllers.cluster_status, 4, emitted("lead_regained"), BOTH),
    Case(controllers.cluster_status, "GroupTrusted", discovered_by_a_group, {A}),
    Case(
        controllers.cluster_status,
        "AdoptionComplete",
        lambda world: world.parts.works.owned.changed.emit(A),
        {A},
    ),
    Case(
        controllers.cluster_status,
        "TakesChanges",
        lambda world: world.parts.common.part(WindowStates).changed.emit(A),
        {A},
    ),
    Case(
        controllers.cluster_status,
        "NamespacesHeld",
        lambda world: world.parts.common.stores.claims.hold_changed.emit(A, "edge", None),
        {A},
    ),
    Case(
        controllers.cluster_status,
        "ObjectsOrphaned",
        lambda world: world.parts.orphaned.note(A, ["x"]),
        {A},
    ),
    Case(
        controllers.cluster_status,
        "DeletionsHeld",
        lambda world: world.parts.common.part(DeletionBrake).reported.emit(A),
        {A},
    ),
    Case(
        setup_deletion_brake,
        0,
        lambda world: world.parts.common.part(DeletionBrake).changed.emit(A),
        {A},
    ),
    Case(setup_deletion_brake, 1, lambda world: world.parts.common.scopes.end(A), {A}),
    Case(controllers.orphans, 0, seen(lambda world: world.hub.remove(WORK)), {ALL_CLUSTERS}),
    Case(controllers.orphans, 1, host_restored, {ALL_CLUSTERS}),
    Case(setup_service_names, 0, CLAIM, {SERVICE_NAMES}),
    Case(setup_quotas, 0, seeded(own(objects.deployment())), {A}),
    Case(setup_quotas, 1, CLAIM, {A}),
    Case(controllers.node_labels, 0, NODE, {"n3"}),
    Case(controllers.node_labels, 1, cluster_of_another_agent, {"n1", "n2"}),
    Case(controllers.node_labels, 2, disputed("n1"), {"n1"}),
    Case(controllers.node_taints, 0, NODE, {A}),
    Case(gateway_controllers.setup_admin_role, 0, emitted("admin_rules"), set(BUILT_INS)),
    Case(policies.setup, 1, CLUSTER_GONE, {EVERYTHING}),
    Case(policies.setup, 2, CLAIM_GONE, {EVERYTHING}),
    Case(
        escapes.setup_detector,
        0,
        seeded(objects.pod("new", AWAY[0], "n2")),
        {(AWAY[0], "new")},
    ),
    Case(escapes.setup_detector, 1, seeded(objects.node("n2", {"branch": "c"})), {AWAY}),
    Case(escapes.setup_detector, 2, CLAIM, {THERE}),
    Case(escapes.setup_detector, 3, disputed("n2"), {AWAY}),
    Case(
        escapes.setup_evictions,
        0,
        seeded(objects.pod("new", AWAY[0], "n2", nodeSelector={"branch": "a"})),
        {(AWAY[0], "new")},
    ),
    Case(escapes.setup_evictions, 1, seeded(objects.node("n2", {"branch": "a"})), {AWAY}),
    Case(
        service_export.setup,
        0,
        seen(lambda world: world.hub.seed(exporting("shop", "more"))),
        {(A, "edge", "shop")},
    ),
    Case(service_export.setup, 1, CLAIM_GONE, {SERVICE}),
    Case(service_export.setup, 2, unready, {SERVICE}, SERVICES),
    Case(service_export.setup, 2, judged, {SERVICE}, SERVICES),
    Case(service_export.setup, 2, CLAIM_GONE, {SERVICE}, SERVICES),
    Case(controllers.namespaces, 0, cluster_changed, {(A, "default")}),
    Case(controllers.namespaces, 1, CLAIM, {(A, "shop")}),
    Case(controllers.namespaces, 2, seeded(own(QUOTA)), {(A, "edge")}),
    Case(controllers.execution, 0, emitted("work_due", WEB), {WEB}),
    Case(controllers.execution, 1, emitted("work_status", WEB, {}), {WEB}),
    Case(controllers.execution, 2, emitted("work_affected", "karmada-es-branch-a/web-1"), {WEB}),
    Case(
        controllers.execution,
        3,
        seen(lambda world: world.hub.mark_deleted(CLUSTER)),
        {WEB, SHOP},
    ),
    Case(
        controllers.execution,
        4,
        seen(lambda world: world.hub.remove(WORK)),
        {(A, work_name("Namespace", "edge", ""))},
    ),
    Case(
        controllers.execution,
        5,
        emitted("meaning", lambda gvk: gvk.kind == "ConfigMap"),
        {WEB},
    ),
    Case(controllers.execution, 6, CLAIM, {(A, work_name("Namespace", "shop", ""))}),
    Case(controllers.execution, 7, NODE, {WEB}, refused(A)),
    Case(
        controllers.execution,
        7,
        lambda world: world.parts.common.part(WindowStates).changed.emit(A),
        {WEB},
        refused(A),
    ),
    Case(
        controllers.execution,
        7,
        emitted("node_group", None, {"metadata": {"name": "east"}, "spec": {"nodes": ["n1"]}}),
        {WEB},
        refused(("east",)),
    ),
    Case(controllers.execution, 7, KIND_SERVED, {WEB}, refused(kind_dependency(GADGET))),
    Case(controllers.execution, 7, KIND_SERVED, {WEB, SHOP}, failed(kind_dependency(GADGET))),
    Case(controllers.execution, 7, GADGET_GONE, {WEB, SHOP}, failed(("example.com/Gadget",))),
    Case(controllers.execution, 7, unready, {WEB}, WORKS),
    Case(controllers.execution, 7, judged, {WEB}, WORKS),
    Case(controllers.execution, 7, CLAIM_GONE, {WEB}, WORKS),
]
RUN: set[tuple[Setup, int]] = {
    (policies.setup, 0),
    (setup_host_events, 0),
}
"""Have tests of their own: what they follow is known to their controllers only."""


def number_of(world: World, case: Case) -> int:
    """Return the number of the source of a case; those of conditions are the last ones."""
    if isinstance(case.source, int):
        return case.source
    by_condition = triggers_of(world)
    return by_condition.index(case.source) - len(by_condition)


def triggers_of(world: World) -> list[str]:
    """Return the triggers of all conditions, the last sources of cluster-status, as in cases."""
    return [
        f"{spec.type.name}/{number}" if number else spec.type.name
        for spec in declared_conditions(FEATURES)
        if spec.type.on_cluster is not Shown.NEVER
        for number, _ in enumerate(spec.triggers(world.parts))
    ]


def source_named(world: World, name: str, number: int, count: int) -> str:
    """Return a source of a controller that has `count` of them, as a case has to name it."""
    triggers = triggers_of(world) if name == "cluster-status" else []
    of_conditions = number - (count - len(triggers))
    return f"{name}: {triggers[of_conditions] if of_conditions >= 0 else number}"


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_change_enqueues_the_keys_it_concerns(wired: World, case: Case) -> None:
    spec = wired.spec(case.setup)
    spec.sources[number_of(wired, case)].connect(spec.queue)
    case.prepare(wired, spec.queue)
    await keys_of(spec.queue)  # what is there from the beginning
    case.change(wired)
    assert await keys_of(spec.queue) == case.keys


def test_each_source_has_a_case(wired: World) -> None:
    specs: dict[Setup, ControllerSpec[Any]] = {
        setup: spec for setup in SETUPS if (spec := setup(wired.parts)) is not None
    }
    covered = {(specs[setup].name, number) for setup, number in RUN}
    for case in CASES:
        spec = specs[case.setup]
        covered.add((spec.name, number_of(wired, case) % len(spec.sources)))
    counts = {spec.name: len(spec.sources) for spec in specs.values()}
    sources = {(name, number) for name, count in counts.items() for number in range(count)}
    lacking = {source_named(wired, *each, counts[each[0]]) for each in sources - covered}
    assert lacking == set(), "add a row to CASES for each"
    assert covered - sources == set()


@pytest.mark.parametrize(("node", "namespace"), [("n1", "other"), ("", "edge-v-branch-a")])
async def test_pod_of_a_virtual_cluster_is_reported_while_its_cluster_is_ours(
    wired: World, node: str, namespace: str
) -> None:
    """Its scope, which ends with each look at it, would be ended by each of its pods."""
    spec = wired.spec(controllers.cluster_status)
    spec.sources[2].connect(spec.queue)
    await keys_of(spec.queue)  # of pods that were there
    await asyncio.sleep(1000.0)
    wired.host.seed(objects.pod("first", namespace, node))
    wired.look()
    assert await keys_of(spec.queue) == {A}
    await asyncio.sleep(1000.0)
    wired.hub.remove(CLUSTER)
    wired.look()
    wired.host.seed(objects.pod("second", namespace, node))
    wired.look()
    assert await keys_of(spec.queue) == set()


async def test_policy_that_changed_has_the_guard_look(wired: World) -> None:
    group = "admissionregistration.k8s.io/v1"
    kinds = {"validatingadmissionpolicies": "", "validatingadmissionpolicybindings": "Binding"}
    for plural, end in kinds.items():
        kind = f"ValidatingAdmissionPolicy{end}"
        wired.host.storage.served.append(Served(group, plural, kind, namespaced=False))
    spec = wired.spec(policies.setup)
    spec.sources[0].connect(spec.queue)
    await spec.reconcile(EVERYTHING)
    task = asyncio.ensure_future(spec.runs["policies"]())
    assert await keys_of(spec.queue) == set()
    labels = {AGENT_LABEL: AGENT}
    metadata = {"name": "vc-own", "labels": labels}
    policy = {"apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": metadata}
    wired.host.seed(policy)
    assert await keys_of(spec.queue) == {EVERYTHING}
    task.cancel()


async def test_slice_that_changed_has_its_service_looked_at(wired: World) -> None:
    spec = wired.spec(service_export.setup)
    task = asyncio.ensure_future(spec.runs["slices"]())
    wired.parts.common.judgements.judge(A, objects.ready())  # type: ignore[arg-type]
    await spec.reconcile(SERVICE)
    assert await keys_of(spec.queue) == set()
    labels = {"kubernetes.io/service-name": "web"}
    metadata = {"name": "web-x", "namespace": "edge-v-branch-a", "labels": labels}
    found = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata}
    wired.host.seed(found)
    assert await keys_of(spec.queue) == {SERVICE}
    task.cancel()


INITIAL: dict[str, set[Any]] = {
    "departures": {"was-here"},
    "registration": BOTH,
    "cluster-access": BOTH,
    "orphans": {ALL_CLUSTERS},
    "service-names": {SERVICE_NAMES},
    "admin-role": set(BUILT_INS),
    "policy-status": {EVERYTHING},
    "escape-detector": {AWAY},
    "evictions": {AWAY},
}
RESYNC: dict[str, set[Any]] = {
    "departures": {A},
    "registration": {A},
    "cluster-access": {A},
    "cluster-status": {A},
    "service-names": {SERVICE_NAMES},
    "quotas": {A},
    "node-labels": {"n1", "n2"},
    "node-taints": {A},
    "admin-role": set(BUILT_INS),
    "policy-status": {EVERYTHING},
    "escape-detector": {AWAY},
    "evictions": {AWAY},
    "service-export": {SERVICE},
    "namespaces": {(A, "default"), (A, "edge")},
    "execution": {WEB, SHOP},
}


async def test_what_is_there_from_the_beginning_is_enqueued_at_the_start(wired: World) -> None:
    wired.parts.common.state._values["cluster.was-here"] = '{"uid": "u", "settings": "s"}'
    found = {}
    for controller in all_controllers(wired.parts):
        await keys_of(controller.queue)
        controller.enqueue_initial()
        await asyncio.sleep(1000.0)
        found[controller.name] = await keys_of(controller.queue)
    initial = {name: keys for name, keys in found.items() if keys}
    assert initial == INITIAL, "add first keys of a controller to INITIAL"


async def test_resync_enqueues_all_there_is_of_a_virtual_cluster(wired: World) -> None:
    found = {}
    for controller in all_controllers(wired.parts):
        await keys_of(controller.queue)
        controller.resync((A,))
        found[controller.name] = await keys_of(controller.queue)
    resynced = {name: keys for name, keys in found.items() if keys}
    assert resynced == RESYNC, "add keys that a resync of branch-a enqueues to RESYNC"
