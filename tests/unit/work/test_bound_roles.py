"""Bound roles: bindings before their roles, and none to a role that holds too much."""

from typing import Any

import pytest

from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import ForbiddenError, InvalidError, NotFoundError
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.work.host_objects import Applied, HostObjects, is_stand_in
from karmada_vc_agent.work.reporting import works_of_change
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer, Request
from tests.fakes.storage import Place, StatusError

GROUP = "rbac.authorization.k8s.io"
API = f"/apis/{GROUP}/v1"
ROLES, CLUSTER_ROLES = f"{API}/namespaces/hns/roles", f"{API}/clusterroles"
BINDINGS = f"{API}/namespaces/hns/rolebindings"
BINDING = Resource(GroupVersionKind(GROUP, "v1", "RoleBinding"), "rolebindings", namespaced=True)
MARKS = {
    vocabulary.CLUSTER_LABEL: "branch-a",
    vocabulary.NAMESPACE_LABEL: "edge",
    vocabulary.MANAGED_LABEL: "true",
}
WORK = "karmada-es-branch-a/web-1"
UNHELD = [{"apiGroups": ["example.org"], "resources": ["widgets"], "verbs": ["create"]}]
"""What the agent does not hold: the server refuses to let it bind that."""
QUOTAS = [{"apiGroups": [""], "resources": ["resourcequotas"], "verbs": ["update"]}]
"""What the agent holds and no virtual cluster may have."""
READS = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]


def binding(kind: str = "Role", name: str = "reader") -> Object:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": {
            "name": "to-it",
            "namespace": "hns",
            "labels": dict(MARKS),
            "annotations": {vocabulary.WORK_ANNOTATION: WORK},
        },
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
        "subjects": [{"kind": "User", "apiGroup": GROUP, "name": "vc:branch-a:ann"}],
    }


def role(kind: str = "Role", name: str = "reader", *rules: Object) -> Object:
    scope = {"namespace": "hns"} if kind == "Role" else {}
    metadata = {"name": name} | scope
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": list(rules),
    }


@pytest.fixture(autouse=True)
def judging(host: FakeApiServer) -> None:
    """Have the server refuse what kube-apiserver 1.34 refuses to whoever may bind nothing."""
    host.seed(objects.namespace("hns"))

    def judge(place: Place, body: Object) -> Object:
        if place.served.kind == "RoleBinding":
            ref = body["roleRef"]
            where = CLUSTER_ROLES if ref["kind"] == "ClusterRole" else ROLES
            found = host.find(f"{where}/{ref['name']}")
            if found is None:
                text = f'rolebindings.{GROUP} "{ref["name"]}" not found'
                raise StatusError(404, "NotFound", text, ref["name"])
            if found["rules"] == UNHELD:
                text = "is attempting to grant RBAC permissions not currently held"
                raise StatusError(403, "Forbidden", text)
        return body

    host.admission.append(judge)


async def apply(client: ApiClient, desired: Object, as_user: str = "") -> Applied:
    store: Store[Object] = Store(RawCodec())
    objects_of_host = HostObjects(client, lambda _: store, scopes=Scopes())
    outcome = await objects_of_host.apply(BINDING, desired, lambda obj, _: obj, as_user)
    assert isinstance(outcome, Applied)
    return outcome


def made(host: FakeApiServer, path: str) -> list[Any]:
    return [request.body for request in host.asked("POST", path)]


def writers(requests: list[Request]) -> set[str]:
    return {request.headers.get("Impersonate-User", "") for request in requests}


@pytest.mark.parametrize(("kind", "path"), [("Role", ROLES), ("ClusterRole", CLUSTER_ROLES)])
async def test_binding_precedes_its_role(
    host: FakeApiServer, client: ApiClient, kind: str, path: str
) -> None:
    outcome = await apply(client, binding(kind))
    assert outcome.was_written
    assert host.live(f"{BINDINGS}/to-it")["roleRef"]["name"] == "reader"
    assert host.find(f"{path}/reader") is None, "the stand-in is left"
    [stand_in] = made(host, path)
    assert stand_in["rules"] == []
    marks = {vocabulary.WORK_ANNOTATION: WORK, vocabulary.STAND_IN_ANNOTATION: "true"}
    assert stand_in["metadata"]["annotations"] == marks
    expected = MARKS if kind == "Role" else MARKS.keys() - {vocabulary.NAMESPACE_LABEL}
    assert stand_in["metadata"]["labels"] == {key: MARKS[key] for key in expected}


async def test_binding_to_a_role_that_is_there_costs_one_write(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(role("Role", "reader", *READS))
    await apply(client, binding())
    assert [str(request) for request in host.writes()] == [f"POST {BINDINGS}"]


@pytest.mark.parametrize(("kind", "path"), [("Role", ROLES), ("ClusterRole", CLUSTER_ROLES)])
@pytest.mark.parametrize(("rules", "error"), [(UNHELD, ForbiddenError), (QUOTAS, RetryError)])
async def test_role_of_the_host_that_holds_more_stays_unbound(
    host: FakeApiServer,
    client: ApiClient,
    kind: str,
    path: str,
    rules: list[Object],
    error: type[Exception],
) -> None:
    before = host.seed(role(kind, "reader", *rules))
    with pytest.raises(error):
        await apply(client, binding(kind))
    assert host.live(f"{path}/reader") == before
    assert host.listed(BINDINGS) == []


@pytest.mark.parametrize(("allow", "is_bound"), [(None, True), (("a.io/*",), True), ((), False)])
async def test_kinds_that_no_table_knows_are_judged_by_what_the_virtual_cluster_is_allowed(
    host: FakeApiServer, client: ApiClient, allow: tuple[str, ...] | None, *, is_bound: bool
) -> None:
    store: Store[Object] = Store(RawCodec())
    writer = HostObjects(client, lambda _: store, allow_of={"branch-a": allow}.get, scopes=Scopes())
    rule = {"apiGroups": ["a.io"], "resources": ["things"], "verbs": ["create"]}
    host.seed(role("Role", "reader", rule))
    applied = writer.apply(BINDING, binding(), lambda obj, _: obj)
    if is_bound:
        assert isinstance(await applied, Applied)
    else:
        with pytest.raises(RetryError, match="create things"):
            await applied


async def test_names_that_no_work_may_bring_are_judged_as_well(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(role("Role", "vc-strong", *QUOTAS))
    with pytest.raises(RetryError):
        await apply(client, binding("Role", "vc-strong"))
    assert host.listed(BINDINGS) == []


@pytest.mark.parametrize("name", ["?watch=true", "reader?watch=true", "reader#x"])
async def test_name_of_a_role_is_one_segment_of_a_path(
    host: FakeApiServer, client: ApiClient, name: str
) -> None:
    """A watch would hold a connection until it times out, as if the host did not answer."""
    assert (await apply(client, binding("Role", name))).was_written
    assert [str(each) for each in host.requests if each.query] == []
    assert host.asked("GET", f"{ROLES}/{name}")
    assert host.listed(ROLES) == [], "the stand-in is left"


@pytest.mark.parametrize("name", ["reader?x", "reader#x"])
async def test_role_that_is_judged_is_the_one_that_is_bound(
    host: FakeApiServer, client: ApiClient, name: str
) -> None:
    host.seed(role("Role", "reader", *READS))
    host.seed(role("Role", name, *QUOTAS))
    with pytest.raises(RetryError):
        await apply(client, binding("Role", name))
    assert host.listed(BINDINGS) == []


async def test_refusal_says_which_role_holds_what(host: FakeApiServer, client: ApiClient) -> None:
    host.seed(role("Role", "reader", *READS, *QUOTAS))
    text = 'Role "reader" of the host is not bound: it allows update resourcequotas, which'
    with pytest.raises(RetryError, match=text):
        await apply(client, binding())
    assert host.writes() == []


@pytest.mark.parametrize(("rules", "error"), [(UNHELD, ForbiddenError), (QUOTAS, RetryError)])
async def test_strong_role_that_is_first_is_judged(
    host: FakeApiServer, client: ApiClient, rules: list[Object], error: type[Exception]
) -> None:
    """Somebody makes it between the answer that it is missing and the stand-in."""
    host.before("POST", ROLES, lambda: host.seed(role("Role", "reader", *rules)))
    with pytest.raises(error):
        await apply(client, binding())
    assert host.live(f"{ROLES}/reader")["rules"] == rules
    assert host.listed(BINDINGS) == []


async def test_strong_rules_in_the_stand_in_are_judged_and_kept(
    host: FakeApiServer, client: ApiClient
) -> None:
    """Somebody writes them before the binding is tried again: they are not ours to delete."""

    def strengthen() -> None:
        if host.find(f"{ROLES}/reader"):
            host.change(f"{ROLES}/reader", rules=UNHELD)

    host.before("POST", BINDINGS, strengthen, times=2)
    with pytest.raises(ForbiddenError):
        await apply(client, binding())
    assert host.live(f"{ROLES}/reader")["rules"] == UNHELD
    assert host.listed(BINDINGS) == []


async def test_role_that_took_the_place_of_the_stand_in_stays(
    host: FakeApiServer, client: ApiClient
) -> None:
    path = f"{ROLES}/reader"
    host.before("DELETE", path, lambda: host.change(path, rules=READS))
    await apply(client, binding())
    assert host.live(path)["rules"] == READS


async def test_stand_in_of_another_binding_deleted_meanwhile_is_created_again(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(role())
    path = f"{ROLES}/reader"
    host.before("POST", BINDINGS, lambda: host.remove(path))
    assert (await apply(client, binding())).was_written
    assert host.find(path) is None


async def test_stand_in_is_removed_where_the_binding_fails(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.before("POST", ROLES, lambda: host.fail(403, "Forbidden", method="POST", path=BINDINGS))
    with pytest.raises(ForbiddenError):
        await apply(client, binding())
    assert host.listed(ROLES) == []


async def test_clean_up_that_fails_hides_no_answer(host: FakeApiServer, client: ApiClient) -> None:
    host.fail(500, "InternalError", method="DELETE", path=f"{ROLES}/reader")
    applied = await apply(client, binding())
    assert applied.live == host.live(f"{BINDINGS}/to-it")
    assert host.find(f"{ROLES}/reader") is not None, "the count of orphans removes it"


async def test_clean_up_that_fails_does_not_hide_why_the_binding_failed(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.fail(500, "InternalError", method="DELETE", path=f"{ROLES}/reader")
    host.before("POST", ROLES, lambda: host.fail(403, "Forbidden", method="POST", path=BINDINGS))
    with pytest.raises(ForbiddenError):
        await apply(client, binding())


async def test_stand_in_that_is_left_is_none_once_a_work_brings_the_role(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.fail(500, "InternalError", method="DELETE", path=f"{ROLES}/reader")
    of_host = HostObjects(client, lambda _: Store(RawCodec()), scopes=Scopes())
    await of_host.apply(BINDING, binding(), lambda obj, _: obj)
    brought = role()
    brought["metadata"] |= {
        "labels": dict(MARKS),
        "annotations": {vocabulary.WORK_ANNOTATION: WORK},
    }
    roles = Resource(GroupVersionKind(GROUP, "v1", "Role"), "roles", namespaced=True)
    await of_host.apply(roles, brought, lambda obj, _: obj)
    await of_host.apply(BINDING, binding("Role", "writer"), lambda obj, _: obj)
    left = host.live(f"{ROLES}/reader")
    assert not is_stand_in(left)
    assert left["metadata"]["annotations"] == {vocabulary.WORK_ANNOTATION: WORK}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("ClusterRole", "virtual-cluster-admin"),
        ("ClusterRole", "vc-view"),
        ("Role", "vc-agent:x"),
        ("Role", "vc:x"),
    ],
)
async def test_no_stand_in_for_what_no_work_may_bring(
    host: FakeApiServer, client: ApiClient, kind: str, name: str
) -> None:
    with pytest.raises(NotFoundError, match="not found"):
        await apply(client, binding(kind, name))
    assert [str(request) for request in host.writes()] == [f"POST {BINDINGS}"]


async def test_missing_role_is_reported_without_the_right_to_create_roles(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.fail(403, "Forbidden", method="POST", path=ROLES)
    with pytest.raises(NotFoundError, match='"reader" not found'):
        await apply(client, binding())


@pytest.mark.parametrize(
    ("kind", "path", "writer"), [("Role", ROLES, "ann"), ("ClusterRole", CLUSTER_ROLES, "")]
)
async def test_stand_in_is_the_accounts_where_the_binding_is(
    host: FakeApiServer, client: ApiClient, kind: str, path: str, writer: str
) -> None:
    """The account has no rights on what has no namespace; the agent has."""
    await apply(client, binding(kind), "ann")
    about = [*host.asked("POST", path), *host.asked("DELETE", f"{path}/reader")]
    assert len(about) == 2
    assert writers(about) == {writer}
    assert writers(host.asked("POST", BINDINGS)) == {"ann"}


async def test_binding_is_corrected_after_its_role_was_deleted(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed({**binding(), "subjects": []})
    text = f'rolebindings.{GROUP} "reader" not found'
    host.fail(404, "NotFound", method="PUT", path=f"{BINDINGS}/to-it", message=text)
    await apply(client, binding())
    assert host.live(f"{BINDINGS}/to-it")["subjects"] == binding()["subjects"]
    assert host.find(f"{ROLES}/reader") is None


async def test_other_things_that_are_missing_ask_for_no_role(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.fail(404, "NotFound", method="POST", message='namespaces "hns" not found')
    with pytest.raises(NotFoundError):
        await apply(client, binding())
    assert len(host.writes()) == 1


async def test_deleted_binding_requires_no_second_role(
    host: FakeApiServer, client: ApiClient
) -> None:
    """It is called like its role, and the server says the same of both."""
    named = binding()
    named["metadata"]["name"] = "reader"
    path = f"{BINDINGS}/reader"
    host.seed({**named, "subjects": []})
    host.before("PUT", path, lambda: host.remove(path) if host.find(path) else None, times=9)
    await apply(client, named)
    assert host.live(path)["subjects"] == named["subjects"]
    assert host.listed(ROLES) == []


@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
async def test_stand_in_does_not_bring_up_the_work_whose_binding_is_refused(
    host: FakeApiServer, client: ApiClient, kind: str
) -> None:
    path = ROLES if kind == "Role" else CLUSTER_ROLES

    def refuse(place: Place, body: Object) -> Object:
        if place.served.kind == "RoleBinding":
            raise StatusError(422, "Invalid", "roleRef: Invalid value: cannot change roleRef")
        return body

    host.admission.append(refuse)
    with pytest.raises(InvalidError):
        await apply(client, binding(kind))
    [stand_in] = made(host, path)
    assert not works_of_change(None, stand_in), "it is tried again without a pause"
    assert not works_of_change(stand_in, None)
    changed = {**stand_in["metadata"], "resourceVersion": "999"}
    newer = {**stand_in, "rules": READS, "metadata": changed}
    assert works_of_change(stand_in, newer) == {("branch-a", "web-1")}


async def test_preserved_binding_is_released_though_its_role_is_missing(
    host: FakeApiServer, client: ApiClient
) -> None:
    """The server judges the role on each change of a binding, also where only marks change."""
    host.seed(binding())
    text = f'rolebindings.{GROUP} "reader" not found'
    host.fail(404, "NotFound", method="PUT", path=f"{BINDINGS}/to-it", message=text)
    store: Store[Object] = Store(RawCodec())
    await HostObjects(client, lambda _: store, scopes=Scopes()).release(BINDING, binding())
    assert vocabulary.CLUSTER_LABEL not in host.live(f"{BINDINGS}/to-it")["metadata"]["labels"]
    [stand_in] = made(host, ROLES)
    assert stand_in["metadata"]["labels"] == MARKS
    assert host.listed(ROLES) == [], "the stand-in is left"
