"""As whom `leave` gives namespaces up while policies protect them, and when the policies go."""

import json
from typing import Any

import pytest

from karmada_vc_agent.access import admission
from karmada_vc_agent.access.admission import (
    GROUP,
    PolicyOwner,
    desired_policies,
    is_about_placement,
)
from karmada_vc_agent.commands.shared import CommandError
from karmada_vc_agent.install.leave import give_up_policies
from karmada_vc_agent.install.leave_steps import Leaving, claims_user
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ForbiddenError, PageError
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.vocabulary import AGENT_LABEL
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer
from tests.fakes.pages import PAGES
from tests.fakes.served import Served

LEAVING = Leaving("branch-a", "agent", "agents", preserve=False, timeout_s=1.0)
ACCOUNT = "system:serviceaccount:agents:agent"
OWNER = PolicyOwner("agent", "agents", ACCOUNT)
POLICIES = f"/apis/{GROUP}/v1/validatingadmissionpolicies"
BINDINGS = f"/apis/{GROUP}/v1/validatingadmissionpolicybindings"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
MAY = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def about_placement(owner: PolicyOwner) -> list[Object]:
    return [
        each for each in desired_policies(owner, {}) if is_about_placement(each["metadata"]["name"])
    ]


@pytest.fixture
def protected(host: FakeApiServer) -> FakeApiServer:
    """Return a host with the policies of an agent."""
    for plural, end in (("policies", "Policy"), ("policybindings", "PolicyBinding")):
        resource, kind = f"validatingadmission{plural}", f"ValidatingAdmission{end}"
        host.storage.served.append(Served(f"{GROUP}/v1", resource, kind, namespaced=False))
    host.seed(objects.namespace("agents"), *about_placement(OWNER))
    return host


def be(host: FakeApiServer, name: str, *allowed: bool) -> None:
    """Let the host say who we are, and what is allowed, question by question."""
    host.answer(json.dumps({"status": {"userInfo": {"username": name}}}).encode(), 201, path=WHO)
    for answer in allowed:
        host.answer(json.dumps({"status": {"allowed": answer}}).encode(), 201, path=MAY)


def asked(host: FakeApiServer) -> list[tuple[str, str, str]]:
    found: list[Any] = [
        (request.body["spec"]["resourceAttributes"], request.headers)
        for request in host.asked("POST", MAY)
    ]
    return [
        (what["verb"], what["resource"], headers.get("Impersonate-User", ""))
        for what, headers in found
    ]


async def test_without_policies_no_one_is_impersonated(
    host: FakeApiServer, client: ApiClient
) -> None:
    assert await claims_user(client, "agent") == ""
    assert host.writes() == []


@pytest.mark.parametrize("page", ["404 plain", "404 Status of a cluster", "502 page"])
async def test_page_in_place_of_a_policy_is_not_a_host_without_policies(
    protected: FakeApiServer, client: ApiClient, page: str
) -> None:
    with protected.in_front(PAGES[page]), pytest.raises(PageError):
        await claims_user(client, "agent")


async def test_account_of_the_agent_itself_impersonates_no_one(
    protected: FakeApiServer, client: ApiClient
) -> None:
    be(protected, ACCOUNT)
    assert await claims_user(client, "agent") == ""


async def test_an_administrator_acts_as_the_account_of_the_agent(
    protected: FakeApiServer, client: ApiClient
) -> None:
    be(protected, "admin", True)
    assert await claims_user(client, "agent") == ACCOUNT
    assert asked(protected) == [("impersonate", "serviceaccounts", "")]


async def test_denied_impersonation_of_the_agent_is_reported_with_the_rule(
    protected: FakeApiServer, client: ApiClient
) -> None:
    be(protected, "somebody", False)
    with pytest.raises(CommandError) as raised:
        await claims_user(client, "agent")
    first, rule = str(raised.value).splitlines()
    assert f"lets only {ACCOUNT} release namespaces" in first
    assert rule == (
        '  {apiGroups: [""], resources: [serviceaccounts], resourceNames: [agent], '
        "verbs: [impersonate]} in namespace agents"
    )


async def test_unreadable_policies_are_reported_with_the_rule(
    protected: FakeApiServer, client: ApiClient
) -> None:
    path = f"{POLICIES}/{OWNER.name(admission.CLAIMS)}"
    text = 'User "somebody" cannot get resource "validatingadmissionpolicies"'
    protected.fail(403, "Forbidden", path=path, message=text)
    with pytest.raises(ForbiddenError, match=r"needs rule .*validatingadmissionpolicies"):
        await claims_user(client, "agent")


async def test_policies_go_with_the_last_virtual_cluster(
    protected: FakeApiServer, client: ApiClient
) -> None:
    said: list[str] = []
    protected.seed(objects.claimed("branch-a", agent="agent"))
    await give_up_policies(client, LEAVING, said.append)
    assert protected.listed(POLICIES) == protected.listed(BINDINGS) == []
    assert len(said) == 5
    assert said[-1].startswith("host: remove ValidatingAdmissionPolicy ")


async def test_policies_are_removed_though_the_agent_namespace_was_deleted_first(
    protected: FakeApiServer, client: ApiClient
) -> None:
    protected.remove("/api/v1/namespaces/agents")
    await give_up_policies(client, LEAVING, lambda _: None)
    assert protected.listed(POLICIES) == []


@pytest.mark.parametrize("left", [True, False])
async def test_policies_stay_while_another_virtual_cluster_is_registered(
    protected: FakeApiServer, client: ApiClient, *, left: bool
) -> None:
    record = {"uid": "", "settings": ""} | ({"has_left": True} if left else {})
    state = objects.config_map("agent-state", "agents")
    state["data"] = {"cluster.branch-a": '{"uid": "", "settings": ""}'}
    state["data"]["cluster.branch-b"] = json.dumps(record)
    protected.seed(state)
    await give_up_policies(client, LEAVING, lambda _: None)
    assert len(protected.listed(POLICIES)) == (0 if left else 2)


async def test_policies_stay_while_another_virtual_cluster_has_namespaces(
    protected: FakeApiServer, client: ApiClient
) -> None:
    protected.seed(objects.claimed("branch-b", agent="agent"))
    await give_up_policies(client, LEAVING, lambda _: None)
    assert len(protected.listed(POLICIES)) == 2


async def test_policies_of_another_agent_are_not_touched(
    protected: FakeApiServer, client: ApiClient
) -> None:
    other = PolicyOwner("other", "others", "x")
    protected.seed(
        *(
            each
            for each in desired_policies(other, {})
            if each["metadata"]["name"] == other.name(admission.CLAIMS)
        )
    )
    await give_up_policies(client, LEAVING, lambda _: None)
    assert {labels["metadata"]["labels"][AGENT_LABEL] for labels in protected.listed(POLICIES)} == {
        "other"
    }
