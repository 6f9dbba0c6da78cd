"""The agent's own rights in a namespace that it claimed: made once, waited for, put right."""

import asyncio

import pytest

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.discovery import SELF_ACCESS_REVIEWS_PATH, SELF_RULES_REVIEWS_PATH
from karmada_vc_agent.kube.errors import ForbiddenError
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualNamespace
from karmada_vc_agent.work import namespace_writer
from karmada_vc_agent.work.namespace_writer import BINDINGS, NamespaceRights
from tests.fakes.api_server import FakeApiServer

EDGE = HostNamespace("edge-v-branch-a")
BOUND = BINDINGS.path(EDGE)
OWN, KINDS = "vc-agent:agent", "vc-agent:agent:kinds"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ALWAYS = 10_000


def may(host: FakeApiServer, *, allowed: bool, times: int = ALWAYS) -> None:
    """Answer the next questions for rights."""
    text = b"true" if allowed else b"false"
    host.answer(
        b'{"status": {"allowed": %s}}' % text, 201, path=SELF_ACCESS_REVIEWS_PATH, times=times
    )


class Setting:
    """Rights of one agent, and the store that its bindings are watched into."""

    def __init__(self, host: FakeApiServer, client: ApiClient) -> None:
        self.host = host
        self.client = client
        self.store: Store[Object] = Store(RawCodec())
        self.rights = self.new(follows_kinds=True)
        metadata = {"name": EDGE}
        host.seed({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        name = b'{"status": {"userInfo": {"username": "system:serviceaccount:home:agent"}}}'
        host.answer(name, 201, path=WHO, times=ALWAYS)

    def new(self, *, follows_kinds: bool) -> NamespaceRights:
        return NamespaceRights(
            self.client,
            lambda _: self.store,
            "agent",
            follows_kinds=follows_kinds,
            clock=lambda: asyncio.get_running_loop().time(),
        )

    async def ensure(self, uid: str = "u1") -> None:
        await self.rights.ensure("branch-a", VirtualNamespace("edge"), EDGE, uid)

    def bound(self) -> dict[str, str]:
        """Return the bindings, and the role that each binds."""
        found = self.host.listed(BOUND)
        return {each["metadata"]["name"]: each["roleRef"]["name"] for each in found}

    def watched(self) -> None:
        """Have the watch told of the bindings as they are."""
        self.store.replace_all(self.host.listed(BOUND), "1")


@pytest.fixture
def setting(host: FakeApiServer, client: ApiClient) -> Setting:
    return Setting(host, client)


async def test_rights_are_given_and_waited_for(setting: Setting) -> None:
    may(setting.host, allowed=False, times=3)
    may(setting.host, allowed=True)
    await setting.ensure()
    roles = {OWN: "vc-agent:agent:namespace", KINDS: "virtual-cluster-admin"}
    assert setting.bound() == roles
    made = setting.host.live(f"{BOUND}/{OWN}")
    account = {"kind": "ServiceAccount", "name": "agent", "namespace": "home"}
    assert made["subjects"] == [account]
    assert "branch-a" in made["metadata"]["labels"].values()


async def test_in_strict_it_is_not_bound_to_what_grows_by_itself(setting: Setting) -> None:
    setting.rights = setting.new(follows_kinds=False)
    may(setting.host, allowed=False, times=1)
    may(setting.host, allowed=True)
    await setting.ensure()
    assert setting.bound() == {OWN: "vc-agent:agent:namespace"}


async def test_who_has_rights_of_its_own_makes_no_binding(setting: Setting) -> None:
    may(setting.host, allowed=True)
    await setting.ensure()
    assert setting.bound() == {}
    asked = len(setting.host.asked("POST", SELF_ACCESS_REVIEWS_PATH))
    await setting.ensure()
    assert len(setting.host.asked("POST", SELF_ACCESS_REVIEWS_PATH)) == asked, "known by now"


async def test_who_has_rights_in_all_namespaces_is_reviewed_once(setting: Setting) -> None:
    rule = b'{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}'
    answer = b'{"status": {"resourceRules": [%s]}}' % rule
    setting.host.answer(answer, 201, path=SELF_RULES_REVIEWS_PATH)
    for name in ("edge-v-branch-a", "other-v-branch-a"):
        virtual = VirtualNamespace(name.partition("-")[0])
        await setting.rights.ensure("branch-a", virtual, HostNamespace(name), "u1")
    assert [request.path for request in setting.host.requests] == [SELF_RULES_REVIEWS_PATH]


async def test_who_has_rights_of_its_own_makes_none_either_once_all_are_listed(
    setting: Setting,
) -> None:
    may(setting.host, allowed=True)
    await setting.ensure()
    setting.watched()
    await setting.ensure()
    assert setting.bound() == {}
    asked = len(setting.host.requests)
    await setting.ensure()
    assert len(setting.host.requests) == asked, "known by now"


async def test_binding_deleted_before_all_were_listed_returns(setting: Setting) -> None:
    may(setting.host, allowed=False, times=1)
    may(setting.host, allowed=True, times=3)
    await setting.ensure()
    setting.rights = setting.new(follows_kinds=True)
    may(setting.host, allowed=True, times=3)
    await setting.ensure()
    setting.host.remove(f"{BOUND}/{OWN}")
    setting.watched()
    may(setting.host, allowed=False, times=1)
    may(setting.host, allowed=True)
    await setting.ensure()
    assert set(setting.bound()) == {OWN, KINDS}


async def test_rights_are_remembered_of_a_number_of_namespaces(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespace_writer, "REMEMBERED", 2)
    rights = setting.new(follows_kinds=True)
    may(setting.host, allowed=True)
    for number in range(5):
        host = HostNamespace(f"ns-{number}")
        await rights.ensure("branch-a", VirtualNamespace("edge"), host, "u1")
    assert len(rights._held) == 2


async def test_rights_not_granted_are_requested_again_later(setting: Setting) -> None:
    may(setting.host, allowed=False)
    with pytest.raises(RetryError, match="run karmada-vc-agent join"):
        await setting.ensure()


async def test_refusal_that_lasts_is_reported(setting: Setting) -> None:
    """A server may not know the claim yet, on which its policy rests; then it must."""
    may(setting.host, allowed=False)
    setting.host.fail(403, "Forbidden", method="POST", path=BOUND, times=3)
    with pytest.raises(RetryError):
        await setting.ensure()
    assert set(setting.bound()) == {OWN, KINDS}, "a refusal for a moment is waited out"
    setting.rights = setting.new(follows_kinds=True)
    setting.host.fail(403, "Forbidden", method="POST", path=BOUND, times=ALWAYS)
    with pytest.raises(ForbiddenError):
        await setting.ensure()


async def test_binding_of_another_role_is_put_right(setting: Setting) -> None:
    wrong = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": OWN, "namespace": EDGE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [],
    }
    setting.host.seed(wrong)
    may(setting.host, allowed=False, times=1)
    may(setting.host, allowed=True)
    await setting.ensure()
    assert setting.bound()[OWN] == "vc-agent:agent:namespace"
    assert setting.host.live(f"{BOUND}/{OWN}")["subjects"]


async def test_deleted_binding_returns(setting: Setting) -> None:
    may(setting.host, allowed=False, times=1)
    may(setting.host, allowed=True, times=3)
    await setting.ensure()
    setting.watched()
    await setting.ensure()
    setting.host.remove(f"{BOUND}/{OWN}")
    setting.watched()
    may(setting.host, allowed=True)
    await setting.ensure()
    assert set(setting.bound()) == {OWN, KINDS}


SOMEBODY = {"kind": "ServiceAccount", "name": "somebody", "namespace": "home"}
VIEW = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}


@pytest.mark.parametrize("name", [OWN, KINDS])
@pytest.mark.parametrize("change", [{"subjects": [SOMEBODY]}, {"subjects": []}, {"roleRef": VIEW}])
async def test_binding_that_says_something_else_is_put_right(
    setting: Setting, name: str, change: Object
) -> None:
    may(setting.host, allowed=False, times=1)
    may(setting.host, allowed=True)
    await setting.ensure()
    before = _content(setting.host.live(f"{BOUND}/{name}"))
    setting.host.seed({**setting.host.live(f"{BOUND}/{name}"), **change})
    setting.watched()
    await setting.ensure()
    assert _content(setting.host.live(f"{BOUND}/{name}")) == before


async def test_binding_that_says_the_same_is_left_alone(setting: Setting) -> None:
    """What others put on it, and what a server fills in, is not compared."""
    may(setting.host, allowed=False, times=1)
    may(setting.host, allowed=True)
    await setting.ensure()
    live = setting.host.live(f"{BOUND}/{OWN}")
    live["metadata"]["labels"]["team"] = "x"
    live = setting.host.seed(live)
    setting.watched()
    setting.host.requests.clear()
    await setting.ensure()
    assert setting.host.live(f"{BOUND}/{OWN}") == live
    assert [each.path for each in setting.host.writes() if each.method != "POST"] == []


async def test_bindings_not_yet_listed_are_believed(setting: Setting) -> None:
    may(setting.host, allowed=False, times=1)
    may(setting.host, allowed=True)
    await setting.ensure()
    setting.host.remove(f"{BOUND}/{OWN}")
    await setting.ensure()  # the watch has not listed yet
    assert set(setting.bound()) == {KINDS}


async def test_own_bindings_are_recognised_and_kept_after_a_start(setting: Setting) -> None:
    may(setting.host, allowed=False, times=1)
    may(setting.host, allowed=True)
    await setting.ensure()
    setting.watched()
    setting.rights = setting.new(follows_kinds=True)
    await setting.ensure()
    setting.host.change(f"{BOUND}/{OWN}", subjects=[SOMEBODY])
    setting.watched()
    await setting.ensure()
    assert setting.host.live(f"{BOUND}/{OWN}")["subjects"] != [SOMEBODY]


async def test_an_administrator_leaves_bindings_of_another_account_alone(setting: Setting) -> None:
    may(setting.host, allowed=False, times=1)
    may(setting.host, allowed=True)
    await setting.ensure()
    setting.host.change(f"{BOUND}/{OWN}", subjects=[SOMEBODY])
    setting.watched()
    setting.rights = setting.new(follows_kinds=True)
    for _ in range(2):
        await setting.ensure()
        assert setting.host.live(f"{BOUND}/{OWN}")["subjects"] == [SOMEBODY]


def _content(binding: Object) -> Object:
    return {part: binding[part] for part in ("roleRef", "subjects")}


async def test_recreated_namespace_gets_its_own(setting: Setting) -> None:
    for uid in ("u1", "u2"):
        may(setting.host, allowed=False, times=1)
        may(setting.host, allowed=True, times=3)
        await setting.ensure(uid)
        assert set(setting.bound()) == {OWN, KINDS}, uid
        for name in (OWN, KINDS):
            setting.host.remove(f"{BOUND}/{name}")
