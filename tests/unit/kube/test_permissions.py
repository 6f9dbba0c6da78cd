"""Which rule would have allowed a request, and what is said of one that is missing."""

import pytest

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import (
    DENIALS_KEPT,
    DENIALS_KEPT_S,
    DENIED_FOR_S,
    Denials,
    ForbiddenError,
    Need,
    need_of,
)
from tests.fakes.api_server import FakeApiServer

WORKS = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works"
REFUSAL = (
    b'{"kind":"Status","reason":"Forbidden","code":403,"message":"works is forbidden: User \\"x\\" '
    b'cannot list resource \\"works\\" in API group \\"work.karmada.io\\""}'
)
QUOTA = (
    b'{"kind":"Status","reason":"Forbidden","code":403,'
    b'"message":"pods \\"a\\" is forbidden: quota"}'
)


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", WORKS, Need("list", "work.karmada.io", "works", "karmada-es-branch-a")),
        (
            "PUT",
            f"{WORKS}/web-1/status",
            Need("update", "work.karmada.io", "works/status", "karmada-es-branch-a", "web-1"),
        ),
        ("POST", "/apis/cluster.karmada.io/v1alpha1/clusters",
         Need("create", "cluster.karmada.io", "clusters")),
        ("PATCH", "/api/v1/nodes/edge-1", Need("patch", "", "nodes", "", "edge-1")),
        ("DELETE", "/api/v1/namespaces/edge", Need("delete", "", "namespaces", "", "edge")),
        ("GET", "/api/v1/namespaces", Need("list", "", "namespaces")),
        ("PUT", "/api/v1/namespaces/edge/finalize",
         Need("update", "", "namespaces/finalize", "", "edge")),
        ("DELETE", "/api/v1/namespaces/edge/pods", Need("deletecollection", "", "pods", "edge")),
        ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Aa",
         Need("get", "rbac.authorization.k8s.io", "clusterroles", "", "system:a")),
        ("GET", "/version", None),
        ("GET", "/apis/work.karmada.io/v1alpha1", None),
        ("GET", "/api", None),
    ],
)  # fmt: skip
def test_path_implies_the_rule(method: str, path: str, expected: Need | None) -> None:
    assert need_of(method, path) == expected


def test_a_watch_needs_watch() -> None:
    need = need_of("GET", WORKS, watches=True)
    assert need is not None
    assert need.verb == "watch"


def test_a_rule_reads_as_it_is_written_into_a_role() -> None:
    need = Need("update", "work.karmada.io", "works/status", "karmada-es-branch-a")
    assert str(need) == (
        "{apiGroups: [work.karmada.io], resources: [works/status], verbs: [update]} "
        "in namespace karmada-es-branch-a"
    )
    assert str(Need("patch", "", "nodes", "", "n")) == (
        '{apiGroups: [""], resources: [nodes], resourceNames: [n], verbs: [patch]} cluster-wide'
    )


async def test_a_refused_request_says_which_rule_is_missing() -> None:
    async with FakeApiServer() as server:
        client = server.client("hub")
        server.answer(REFUSAL, 403, path=WORKS)
        with pytest.raises(ForbiddenError) as caught:
            await client.get(WORKS)
    assert caught.value.need == Need("list", "work.karmada.io", "works", "karmada-es-branch-a")
    assert str(caught.value).endswith(
        "; needs rule {apiGroups: [work.karmada.io], resources: [works], verbs: [list]} in "
        "namespace karmada-es-branch-a; karmada-vc-agent join grants what the agent needs"
    )


async def test_a_refusal_of_admission_is_no_missing_rule() -> None:
    async with FakeApiServer() as server:
        client = server.client("host")
        path = "/api/v1/namespaces/edge/pods"
        server.answer(QUOTA, 403, path=path)
        with pytest.raises(ForbiddenError) as caught:
            await client.get(path)
    assert caught.value.need is None
    assert str(caught.value) == 'pods "a" is forbidden: quota'


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_right_is_missing_once_it_was_refused_for_a_while() -> None:
    clock, need = Clock(), Need("list", "", "nodes")
    denials = Denials(clock)
    denials.note(need)
    assert denials.lasting() == []
    clock.now = DENIED_FOR_S
    denials.note(need)
    assert denials.lasting() == [need]
    clock.now += DENIALS_KEPT_S - 1
    assert denials.lasting() == [need]
    clock.now += 1
    assert denials.lasting() == []
    denials.note(need)
    assert denials.lasting() == []


def test_of_more_rights_than_anybody_reads_the_first_ones_are_kept() -> None:
    clock = Clock()
    denials = Denials(clock)
    needs = [Need("get", "", "configmaps", "edge", f"map-{n}") for n in range(DENIALS_KEPT + 10)]
    for now in (0.0, DENIED_FOR_S):
        clock.now = now
        for need in needs:
            denials.note(need)
    assert denials.lasting() == needs[:DENIALS_KEPT]
    clock.now += DENIALS_KEPT_S
    denials.note(needs[-1])
    clock.now += DENIED_FOR_S
    denials.note(needs[-1])
    assert denials.lasting() == needs[-1:], "there is room again"


async def test_a_right_is_missing_no_longer_once_it_is_used(
    host: FakeApiServer, client: ApiClient
) -> None:
    clock = Clock()
    client.denials = Denials(clock)
    path = "/api/v1/namespaces/edge/configmaps"
    message = 'configmaps is forbidden: User "x" cannot list resource "configmaps"'
    host.fail(403, "Forbidden", method="GET", path=path, times=2, message=message)
    for _ in range(2):
        with pytest.raises(ForbiddenError):
            await client.get(path)
        clock.now += DENIED_FOR_S
    assert client.denials.lasting() == [Need("list", "", "configmaps", "edge")]
    await client.request("GET", path, as_user="another")
    assert client.denials.lasting(), "it is not our right"
    await client.get(path)
    assert client.denials.lasting() == []
