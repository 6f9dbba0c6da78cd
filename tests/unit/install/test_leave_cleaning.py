"""HostCleaner: what a virtual cluster shares with others is given up, not taken from them."""

import asyncio
import json
from contextlib import nullcontext

import pytest

from karmada_vc_agent.install.leave_steps import RELEASED_WITHIN_S, HostCleaner, Leaving
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ApiError, ConflictError, InvalidError, NotFoundError
from karmada_vc_agent.model.objects import Object, annotations_of, labels_of
from karmada_vc_agent.model.vocabulary import (
    ADOPTED_ANNOTATION,
    BY_GATEWAY_ANNOTATION,
    CLUSTER_LABEL,
    CREATED_BY_AGENT_ANNOTATION,
    OWNERS_ANNOTATION,
    RELEASING_ANNOTATION,
    SHARED_LABEL,
    WORK_ANNOTATION,
)
from karmada_vc_agent.work.namespace_writer import end_release
from karmada_vc_agent.work.rules.apply_plan import owners_of
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer
from tests.fakes.policies import confine_to_claims

PATH = "/apis/scheduling.k8s.io/v1/priorityclasses"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
EDGE = "edge-v-branch-a"
LEAVING = Leaving("branch-a", "karmada-vc-agent", "agents", preserve=False, timeout_s=1.0)
MADE = {CREATED_BY_AGENT_ANNOTATION: "true"}


def priority_class(name: str, *owners: str) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {
            "name": name,
            "labels": {SHARED_LABEL: "true"},
            "annotations": {OWNERS_ANNOTATION: json.dumps(dict.fromkeys(owners, "hash"))},
        },
        "value": 1,
    }


async def test_shared_objects_stay_with_their_other_owners(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(
        priority_class("common", "branch-a", "branch-b"),
        priority_class("own", "branch-a"),
        priority_class("foreign", "branch-b"),
    )
    said: list[str] = []
    await HostCleaner(client, LEAVING, said.append).clean(preserve=False)
    assert owners_of(host.live(f"{PATH}/common")) == {"branch-b": "hash"}
    assert host.find(f"{PATH}/own") is None
    assert owners_of(host.live(f"{PATH}/foreign")) == {"branch-b": "hash"}
    assert said == [
        "host: PriorityClass common is shared: released",
        "host: PriorityClass own is shared: released",
    ]


@pytest.mark.parametrize(("work", "is_deleted"), [("web", True), ("other", False)])
async def test_recreated_object_is_deleted_only_if_it_is_of_the_same_work(
    host: FakeApiServer, client: ApiClient, work: str, *, is_deleted: bool
) -> None:
    host.seed(claimed(**MADE))
    path = f"/api/v1/namespaces/{EDGE}/configmaps/settings"

    def recreate() -> None:
        host.remove(path)
        host.seed(_of_work(work))

    cleaner = cleaner_of(client)
    host.seed(_of_work("web"))
    ((resource, live),) = await cleaner.objects({EDGE})
    host.before("DELETE", path, recreate)
    await cleaner.delete(resource, live)
    assert (host.find(path) is None) is is_deleted


@pytest.mark.parametrize(("work", "is_released"), [("web", True), ("other", False)])
async def test_recreated_object_is_released_only_if_it_is_of_the_same_work(
    host: FakeApiServer, client: ApiClient, work: str, *, is_released: bool
) -> None:
    host.seed(claimed(**MADE), _of_work("web"))
    path = f"/api/v1/namespaces/{EDGE}/configmaps/settings"

    def recreate() -> None:
        host.remove(path)
        host.seed({**_of_work(work), "data": {"by": "others"}})

    cleaner = cleaner_of(client)
    ((resource, live),) = await cleaner.objects({EDGE})
    host.before("PUT", path, recreate)
    await cleaner.release(resource, live)
    now = host.live(path)
    assert (CLUSTER_LABEL not in labels_of(now)) is is_released
    assert now["data"] == {"by": "others"}


async def test_object_no_longer_owned_is_not_released(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(claimed(**MADE), _of_work("web"))
    cleaner = cleaner_of(client)
    ((resource, live),) = await cleaner.objects({EDGE})
    path = f"/api/v1/namespaces/{EDGE}/configmaps/settings"
    host.change(path, metadata={**live["metadata"], "labels": {}})
    await cleaner.release(resource, live)
    assert WORK_ANNOTATION in annotations_of(host.live(path))


@pytest.mark.parametrize(("role", "refusals"), [("reader", 1), ("vc:reader", 100)])
async def test_binding_whose_role_is_missing_is_released_or_reported(
    host: FakeApiServer, client: ApiClient, role: str, refusals: int
) -> None:
    """The server judges the role on each change of a binding."""
    group, root = "rbac.authorization.k8s.io", f"{RBAC}/namespaces/{EDGE}"
    binding = _of_work("web") | {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "roleRef": {"apiGroup": group, "kind": "Role", "name": role},
    }
    host.seed(claimed(**MADE), binding)
    path, text = f"{root}/rolebindings/settings", f'rolebindings.{group} "{role}" not found'
    host.fail(404, "NotFound", method="PUT", path=path, message=text, times=refusals)
    cleaner = cleaner_of(client)
    ((resource, live),) = await cleaner.objects({EDGE})
    was_reported = refusals > 1
    with pytest.raises(NotFoundError, match=role) if was_reported else nullcontext():
        await cleaner.release(resource, live)
    assert (CLUSTER_LABEL in labels_of(host.live(path))) is was_reported
    assert host.listed(f"{root}/roles") == []


def _of_work(work: str) -> Object:
    obj = objects.config_map(ns=EDGE)
    obj["metadata"]["labels"][CLUSTER_LABEL] = "branch-a"
    obj["metadata"]["annotations"][WORK_ANNOTATION] = f"karmada-es-branch-a/{work}"
    return obj


def claimed(**annotations: str) -> Object:
    namespace = objects.claimed("branch-a")
    namespace["metadata"]["annotations"] = annotations
    return namespace


def cleaner_of(client: ApiClient, *, agent_releases: bool = False) -> HostCleaner:
    return HostCleaner(client, LEAVING, lambda _: None, agent_releases=agent_releases)


async def test_only_claimed_namespaces_that_no_work_needs_are_orphaned(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(claimed(), objects.claimed("branch-b"), objects.namespace("free"))
    assert list(await cleaner_of(client).orphaned_namespaces({"other"})) == [EDGE]
    assert await cleaner_of(client).orphaned_namespaces({"edge"}) == {}


async def test_namespaces_of_tenants_are_no_orphans_until_a_work_had_them(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(claimed(**MADE, **{BY_GATEWAY_ANNOTATION: "true", WORK_ANNOTATION: ""}))
    assert await cleaner_of(client).orphaned_namespaces(set()) == {}
    marks = {"annotations": {WORK_ANNOTATION: "karmada-es-branch-a/x"}}
    await client.merge_patch(f"/api/v1/namespaces/{EDGE}", {"metadata": marks})
    assert list(await cleaner_of(client).orphaned_namespaces(set())) == [EDGE]


async def test_what_others_have_in_a_namespace_keeps_it(
    host: FakeApiServer, client: ApiClient
) -> None:
    namespace = host.seed(claimed(**MADE))
    root = objects.config_map("kube-root-ca.crt", EDGE)
    root["metadata"]["labels"] = {}
    host.seed(root)
    cleaner = cleaner_of(client)
    assert await cleaner.obstacle(EDGE, namespace) == ""
    theirs = objects.config_map("theirs", EDGE)
    theirs["metadata"]["labels"] = {}
    host.seed(theirs)
    assert await cleaner.obstacle(EDGE, namespace) == (
        f"ConfigMap {EDGE}/theirs does not belong to the virtual cluster"
    )


async def test_a_namespace_that_cannot_be_looked_through_stays(
    host: FakeApiServer, client: ApiClient
) -> None:
    namespace = host.seed(claimed(**MADE))
    host.fail(503, method="GET", path=f"/api/v1/namespaces/{EDGE}/secrets", message="away")
    text = await cleaner_of(client).obstacle(EDGE, namespace)
    assert text == "not all of its content can be listed: away"


@pytest.mark.parametrize("marks", [{}, MADE | {ADOPTED_ANNOTATION: "true"}])
async def test_a_namespace_that_the_agent_did_not_make_only_loses_its_claim(
    host: FakeApiServer, client: ApiClient, marks: dict[str, str]
) -> None:
    namespace = host.seed(claimed(**marks))
    theirs = objects.config_map("theirs", EDGE)
    host.seed(theirs)
    cleaner = cleaner_of(client)
    assert await cleaner.obstacle(EDGE, namespace) == ""
    await cleaner.give_up(namespace, preserve=False)
    left = host.live(f"/api/v1/namespaces/{EDGE}")["metadata"]
    assert not [key for key in left.get("labels", {}) if "kubeedge.io" in key]
    assert host.live(f"/api/v1/namespaces/{EDGE}/configmaps/theirs")


def in_edge(api_version: str, kind: str, name: str, **labels: str) -> Object:
    metadata = {"name": name, "namespace": EDGE, "labels": labels}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


async def test_kept_namespace_loses_all_that_its_claim_added(
    host: FakeApiServer, client: ApiClient
) -> None:
    namespace = host.seed(claimed(**MADE))
    ours = namespace["metadata"]["labels"]
    rbac = "rbac.authorization.k8s.io/v1"
    host.seed(
        in_edge("v1", "ResourceQuota", "vc-quota", **ours),
        in_edge("v1", "LimitRange", "vc-limits", **ours),
        in_edge("networking.k8s.io/v1", "NetworkPolicy", "vc-isolation", **ours),
        in_edge("v1", "ResourceQuota", "theirs"),
        *(in_edge(rbac, "RoleBinding", name, **ours) for name in ("vc:admin", "vc:crb:dev")),
        in_edge(rbac, "RoleBinding", "vc-agent:karmada-vc-agent"),
    )
    await cleaner_of(client).give_up(namespace, preserve=True)
    kinds = ("resourcequotas", "limitranges")
    paths = [f"/api/v1/namespaces/{EDGE}/{plural}" for plural in kinds]
    paths.append(f"/apis/networking.k8s.io/v1/namespaces/{EDGE}/networkpolicies")
    paths.append(f"/apis/{rbac}/namespaces/{EDGE}/rolebindings")
    left = [each["metadata"]["name"] for path in paths for each in host.listed(path)]
    assert left == ["theirs"]


@pytest.mark.parametrize("preserve", [True, False])
async def test_namespace_that_is_being_deleted_is_not_waited_for(
    host: FakeApiServer, client: ApiClient, *, preserve: bool
) -> None:
    namespace = claimed(**MADE)
    namespace["metadata"] |= {"deletionTimestamp": objects.SINCE, "finalizers": ["e.com/wait"]}
    namespace = host.seed(namespace)
    cleaner = cleaner_of(client, agent_releases=True)
    await cleaner.give_up(namespace, preserve=preserve)
    assert host.requests == []


QUOTA = f"/api/v1/namespaces/{EDGE}/resourcequotas/vc-quota"


async def test_running_agent_releases_what_leave_marks(
    host: FakeApiServer, client: ApiClient
) -> None:
    namespace = host.seed(claimed(**MADE))
    host.seed(in_edge("v1", "ResourceQuota", "vc-quota", **namespace["metadata"]["labels"]))
    confine_to_claims(host)
    path = f"/api/v1/namespaces/{EDGE}"
    marked = asyncio.Event()
    host.storage.listener = lambda _: marked.set()

    async def follow() -> None:
        await marked.wait()
        assert RELEASING_ANNOTATION in annotations_of(host.live(path))
        await asyncio.sleep(RELEASED_WITHIN_S / 2)
        assert not host.asked("DELETE", QUOTA), "there is one to release it"
        await end_release(host.client(), host.live(path), "karmada-vc-agent")

    cleaner = cleaner_of(client, agent_releases=True)
    await asyncio.gather(follow(), cleaner.give_up(namespace, preserve=True))
    assert len(host.asked("PATCH", path)) == 2, "the mark, and the end of the claim"
    assert host.find(QUOTA) is None
    assert CLUSTER_LABEL not in labels_of(host.live(path))


async def test_leave_releases_what_the_agent_does_not(
    host: FakeApiServer, client: ApiClient
) -> None:
    several = {name: objects.claimed("branch-a", name) for name in ("x", "y", "z")}
    spaces = {space["metadata"]["name"]: host.seed(space) for space in several.values()}
    loop = asyncio.get_running_loop()
    began = loop.time()
    await cleaner_of(client, agent_releases=True).clean(preserve=True)
    for name in spaces:
        assert CLUSTER_LABEL not in labels_of(host.live(f"/api/v1/namespaces/{name}"))
    assert loop.time() - began < 2 * RELEASED_WITHIN_S, "one that does not release releases none"


@pytest.mark.parametrize("agent_releases", [True, False])
async def test_namespace_that_cannot_be_marked_stops_no_other(
    host: FakeApiServer, client: ApiClient, *, agent_releases: bool
) -> None:
    several = {name: objects.claimed("branch-a", name) for name in ("x", "y", "z")}
    spaces = {space["metadata"]["name"]: host.seed(space) for space in several.values()}
    refused, *others = spaces
    host.fail(422, "Invalid", method="PATCH", path=f"/api/v1/namespaces/{refused}")
    cleaner = cleaner_of(client, agent_releases=agent_releases)
    with pytest.raises(InvalidError):
        await cleaner.clean(preserve=True)
    for name in others:
        assert CLUSTER_LABEL not in labels_of(host.live(f"/api/v1/namespaces/{name}"))


@pytest.mark.parametrize("is_terminating", [True, False])
async def test_another_namespace_under_the_name_is_an_error_unless_it_terminates(
    host: FakeApiServer, client: ApiClient, *, is_terminating: bool
) -> None:
    namespace = claimed(**MADE)
    namespace["metadata"]["uid"] = "of the one before"
    found = claimed(**MADE)
    if is_terminating:
        found["metadata"] |= {"deletionTimestamp": objects.SINCE, "finalizers": ["e.com/wait"]}
    host.seed(found)
    with nullcontext() if is_terminating else pytest.raises(ConflictError):
        await cleaner_of(client).give_up(namespace, preserve=False)


async def test_leave_says_that_a_kind_cannot_be_listed(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(priority_class("common", "branch-a", "branch-b"))
    host.fail(500, method="GET", path=PATH)
    cleaner = cleaner_of(client)
    with pytest.raises(ApiError):
        await cleaner.clean(preserve=False)
    await cleaner.clean(preserve=False)
    assert owners_of(host.live(f"{PATH}/common")) == {"branch-b": "hash"}
