"""PolicyStatusController: what it reports of policies, and what it finds by dry runs."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from karmada_vc_agent.access import admission
from karmada_vc_agent.access.admission import UNPLACED_LABEL, PolicyOwner, desired_policies, held_by
from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.features.policies.feature import (
    DISCOVERY_MAX_AGE_S,
    EVERYTHING,
    IN_EFFECT_WITHIN_S,
    INTERVAL_S,
    NEEDED_RULE,
    PROBE_AGAIN_S,
    PROBLEM_S,
    UNDECIDED_S,
    PlacementState,
    PolicyStatusController,
)
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.errors import ApiError
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import SHARED, STRICT, Tenancy
from tests.fakes import objects
from tests.fakes.pages import PAGES
from tests.fakes.served import Served
from tests.fakes.storage import Place, StatusError
from tests.fakes.virtual_time import Clock
from tests.fakes.world import AGENT, World, new_world

GROUP = "admissionregistration.k8s.io"
HOME = "agents"
OWNER = PolicyOwner(
    AGENT, HOME, "the-agent", clusters=("branch-a", "branch-b"), group_labels=("branch",)
)
POLICIES = f"/apis/{GROUP}/v1/validatingadmissionpolicies"
BINDINGS = f"/apis/{GROUP}/v1/validatingadmissionpolicybindings"
MUTATING = f"/apis/{GROUP}/v1beta1/mutatingadmissionpolicies"
PLACEMENT = f"{POLICIES}/{OWNER.name(admission.PLACEMENT)}"
CONFINES = f"{POLICIES}/{OWNER.name(admission.CONFINES)}"
PODS = "/api/v1/namespaces/edge-v-branch-a/pods"


def kinds(prefix: str, version: str) -> list[Served]:
    return [
        Served(
            f"{GROUP}/{version}",
            f"{prefix.lower()}admissionpolic{end.lower()}",
            f"{prefix}AdmissionPolicy{'Binding' if 'B' in end else ''}",
            namespaced=False,
        )
        for end in ("ies", "yBindings")
    ]


class Setting:
    """A guard and a host that acts on its policies, as far as the test says.

    acts_on: kinds of policies the host heeds, but for those of the names `unheeded`.
    is_slow: it heeds them after they were deleted. has_plugin: PodNodeSelector is on.
    """

    def __init__(
        self,
        world: World,
        owner: PolicyOwner | None = None,
        *,
        install: bool = True,
        tenancy: Tenancy = SHARED,
    ) -> None:
        self.world = world
        self.clock = Clock()
        self.acts_on = {"Validating", "Mutating"}
        self.unheeded: set[str] = set()
        self.is_slow = False
        self.has_plugin = False
        self.watched: set[str] = set()
        self.changes: list[Condition | None] = []
        host = world.host
        host.storage.served += kinds("Validating", "v1")
        host.seed(objects.namespace("kube-system"))
        world.register()
        review: bytes = b'{"status": {"userInfo": {"username": "the-agent"}}}'
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        host.answer(review, 201, path=path, times=1000)
        if owner is not None:
            host.seed(*desired_policies(owner, {"ValidatingAdmissionPolicy": "v1"}))
        host.admission.append(self._admit)
        world.restart(install_policies=install, tenancy=tenancy)
        common = world.parts.common
        common.clock = replace(common.clock, monotonic=self.clock)
        self.state = common.part(PlacementState)
        self.state.changed.subscribe(lambda: self.changes.append(self.state.placement))
        self.guard = PolicyStatusController(
            world.parts, lambda resource: self.watched.add(resource.gvk.kind)
        )

    def is_undecided(self) -> bool:
        """Return whether a new claim has the plugin PodNodeSelector probed again."""
        return list(self.guard.keys_of_namespace(None, objects.claimed())) == [EVERYTHING]

    async def events(self) -> list[tuple[str, str]]:
        """Return (reason, message) of all events about the Cluster."""
        return [(reason, message) for _, reason, message in await self.world.events()]

    def _admit(self, place: Place, pod: Object) -> Object:
        if (place.served.kind, place.name) == ("Namespace", HOME):
            self._refuse_as(OWNER.name(admission.CLAIMS))
        if (place.served.kind, place.name) == ("Namespace", "kube-system"):
            self._refuse_as(OWNER.name(admission.CONFINES))
        if place.served.kind != "Pod":
            return pod
        selector = pod["spec"].get("nodeSelector") or {}
        if place.namespace != HOME:
            if self.has_plugin and selector.get("branch") != "a":
                text = "pod node label selector conflicts with its namespace node label selector"
                raise StatusError(403, "Forbidden", text)
            return pod
        name = place.name or pod["metadata"]["name"]
        self._refuse_as(name)
        if "Mutating" in self.acts_on and name == f"probe.{OWNER.name(admission.SELECTOR)}":
            return {**pod, "spec": {**pod["spec"], "nodeSelector": {UNPLACED_LABEL: "true"}}}
        return pod

    def _refuse_as(self, name: str) -> None:
        is_obeyed = "Validating" in self.acts_on and name not in self.unheeded
        if is_obeyed and (self.is_slow or self.world.host.find(f"{BINDINGS}/{name}")):
            raise StatusError(422, "Invalid", f"ValidatingAdmissionPolicy '{name}' denied request")

    async def look(self) -> float:
        self.world.look()
        self.world.forget_requests()
        return (await self.guard.reconcile(EVERYTHING)).after_s

    async def settle(self) -> None:
        """Look until time to take effect is over."""
        await self.look()
        self.clock.advance(IN_EFFECT_WITHIN_S)
        await self.look()

    def confined(self) -> tuple[str, str, str]:
        condition = self.state.confinement
        assert condition is not None
        return condition["status"], condition["reason"], condition["message"]

    def written(self) -> list[str]:
        writes = [r for r in self.world.host.writes() if r.path.startswith(f"/apis/{GROUP}")]
        return [f"{request.method} {request.path.rsplit('/', 1)[-1]}" for request in writes]

    def found(self) -> tuple[str, str, str]:
        condition = self.state.placement
        assert condition is not None
        return condition["status"], condition["reason"], condition["message"]


@pytest.fixture
async def setting(world: World) -> Setting:
    world.host.seed(objects.namespace(HOME), objects.claimed())
    return Setting(world, OWNER)


@pytest.fixture
async def idle() -> AsyncIterator[Setting]:
    """Return a guard that is told not to install."""
    async with new_world() as world:
        world.host.seed(objects.namespace(HOME), objects.claimed())
        yield Setting(world, install=False)


async def test_policies_are_read_watched_and_reported(setting: Setting) -> None:
    assert await setting.look() == INTERVAL_S
    assert setting.written() == []
    assert setting.watched == {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert setting.found() == ("True", "PodsKept", "enforced by ValidatingAdmissionPolicy")
    assert setting.confined()[:2] == ("True", "PoliciesInPlace")
    assert await setting.events() == []


async def test_nothing_is_reported_twice(setting: Setting) -> None:
    setting.world.host.remove(PLACEMENT)
    setting.unheeded = {OWNER.name(admission.PLACEMENT)}
    await setting.settle()
    await setting.look()
    assert len(setting.changes) == 1
    assert [reason for reason, _ in await setting.events()] == ["PolicyMissing"]


async def test_what_an_earlier_process_reported_is_no_event_again(setting: Setting) -> None:
    setting.world.host.remove(PLACEMENT)
    setting.unheeded = {OWNER.name(admission.PLACEMENT)}
    await setting.settle()
    cluster = setting.world.parts.common.stores.clusters.store.get("", "branch-a")
    assert cluster is not None
    cluster["status"]["conditions"] = [setting.state.placement, setting.state.confinement]
    for expected in (1, 2):
        setting.guard = PolicyStatusController(setting.world.parts, lambda _: None)
        await setting.settle()
        await setting.events()
        assert [e["count"] for e in setting.world.hub.listed("/api/v1/events")] == [expected]
        cluster["status"]["conditions"] = []


async def test_what_no_process_reported_before_is_an_event_beside_what_one_did(
    setting: Setting,
) -> None:
    setting.world.host.remove(PLACEMENT)
    setting.unheeded = {OWNER.name(admission.PLACEMENT), OWNER.name(admission.CONFINES)}
    await setting.settle()
    cluster = setting.world.parts.common.stores.clusters.store.get("", "branch-a")
    assert cluster is not None
    cluster["status"]["conditions"] = [setting.state.placement, setting.state.confinement]
    setting.world.host.remove(CONFINES)
    setting.guard = PolicyStatusController(setting.world.parts, lambda _: None)
    await setting.settle()
    _, second = (text for reason, text in await setting.events() if reason == "PolicyMissing")
    assert OWNER.name(admission.CONFINES) in second
    assert second.endswith(" (1 more: see the conditions of the Cluster)")


async def test_what_is_wrong_in_the_same_way_is_one_line_of_the_log_and_one_event(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.host.seed(objects.namespace(HOME), objects.claimed())
    never_joined = Setting(world)
    await never_joined.settle()
    (missing,) = (text for reason, text in await never_joined.events() if reason == "PolicyMissing")
    lines = [each for each in caplog.records if getattr(each, "reason", "") == "PolicyMissing"]
    assert [vars(line)["detail"] for line in lines] == [missing]
    others = re.search(r" \((\d+) more: see the conditions of the Cluster\)$", missing)
    assert others
    assert int(others[1]) > 10


async def test_a_mutating_policy_counts_in_the_version_that_is_served(setting: Setting) -> None:
    setting.world.host.storage.served += kinds("Mutating", "v1beta1")
    policies = desired_policies(OWNER, {"MutatingAdmissionPolicy": "v1beta1"})
    setting.world.host.seed(*(each for each in policies if each["kind"].startswith("Mutating")))
    await setting.look()
    assert setting.found()[2] == "enforced by MutatingAdmissionPolicy, ValidatingAdmissionPolicy"


@pytest.mark.parametrize(
    ("policy", "is_about_placement"),
    [(OWNER.name(admission.PLACEMENT), True), (OWNER.name(admission.CONFINES), False)],
)
async def test_missing_or_weaker_policy_is_reported_and_left(
    setting: Setting, policy: str, *, is_about_placement: bool
) -> None:
    path = f"{POLICIES}/{policy}"
    found = setting.found if is_about_placement else setting.confined
    spec = setting.world.host.live(path)["spec"]
    setting.world.host.change(path, spec={**spec, "failurePolicy": "Ignore"})
    await setting.look()
    assert f"{policy} was changed and may be weaker: run karmada-vc-agent join" in found()[2]
    setting.world.host.remove(path)
    await setting.look()
    assert f"{policy} does not exist: run karmada-vc-agent join" in found()[2]
    assert setting.written() == []


async def test_foreign_policy_is_reported(setting: Setting) -> None:
    metadata = {**setting.world.host.live(PLACEMENT)["metadata"], "labels": {}}
    setting.world.host.change(PLACEMENT, metadata=metadata)
    await setting.look()
    assert f"{OWNER.name(admission.PLACEMENT)} was not created by join" in setting.found()[2]


async def test_policies_for_another_user_or_other_groups_are_reported(world: World) -> None:
    world.host.seed(objects.namespace(HOME), objects.claimed())
    older = replace(OWNER, user="somebody", clusters=(), group_labels=())
    setting = Setting(world, older)
    await setting.look()
    status, reason, message = setting.confined()
    assert (status, reason) == ("False", "PoliciesOutdated")
    for text in ("hold somebody, but the agent is the-agent", "do not know", "Node label branch"):
        assert text in message


async def test_policies_that_hold_tenants_to_other_settings_are_reported(world: World) -> None:
    world.host.seed(objects.namespace(HOME), objects.claimed())
    setting = Setting(world, OWNER, tenancy=STRICT)
    await setting.look()
    status, reason, message = setting.confined()
    assert (status, reason) == ("False", "PoliciesOutdated")
    loose = "let tenants of branch-a, branch-b write what their Works are refused: run"
    assert loose in message


@pytest.mark.parametrize(
    ("tenancy", "told"),
    [
        (STRICT, ""),
        (SHARED, "refuse tenants of branch-a, branch-b what the settings allow: run"),
    ],
)
async def test_policies_made_for_strict_are_in_order_in_strict_only(
    world: World, tenancy: Tenancy, told: str
) -> None:
    world.host.seed(objects.namespace(HOME), objects.claimed())
    held = {each for vc in world.virtual_clusters.values() for each in held_by(vc, STRICT)}
    setting = Setting(world, replace(OWNER, held=tuple(sorted(held))), tenancy=tenancy)
    await setting.look()
    status, reason, message = setting.confined()
    assert (status, reason) == (
        ("False", "PoliciesOutdated") if told else ("True", "PoliciesInPlace")
    )
    assert told in message


async def test_an_agent_that_may_not_read_policies_says_which_rule_it_lacks(
    setting: Setting,
) -> None:
    setting.world.host.fail(403, "Forbidden", path=POLICIES, times=10)
    await setting.settle()
    assert str(NEEDED_RULE) in setting.confined()[2]


async def test_a_host_without_policies_is_reported(setting: Setting) -> None:
    served = setting.world.host.storage.served
    setting.world.host.storage.served = [r for r in served if GROUP not in r.api_version]
    assert await setting.look() == PROBLEM_S
    assert setting.found()[:2] == ("False", "PoliciesNotServed")


@pytest.mark.parametrize("page", ["404 plain", "403 page", "502 page", "401 Status", "500 Status"])
@pytest.mark.parametrize("path", [f"/api/v1/namespaces/{HOME}/pods", f"/api/v1/namespaces/{HOME}"])
async def test_page_in_place_of_a_probe_is_unknown(setting: Setting, page: str, path: str) -> None:
    await setting.look()
    code, body = PAGES[page]
    setting.world.host.answer(body, code, path=path)
    with pytest.raises(ApiError):
        await setting.look()
    assert setting.found()[0] == "True"
    assert await setting.events() == []
    await setting.look()
    assert setting.confined()[0] == "True"


async def test_group_of_the_policies_that_does_not_answer_is_unknown(setting: Setting) -> None:
    setting.world.host.stale_groups = frozenset({f"{GROUP}/v1"})
    with pytest.raises(RetryError):
        await setting.look()
    setting.world.host.stale_groups = frozenset()
    assert setting.state.placement is None
    setting.clock.advance(DISCOVERY_MAX_AGE_S)
    await setting.look()
    assert setting.found()[0] == "True"


async def test_settings_without_policies_are_distinguished(idle: Setting) -> None:
    await idle.look()
    assert idle.found()[:2] == ("False", "InstallationDisabled")
    assert idle.confined()[:2] == ("False", "InstallationDisabled")


async def test_deleted_policies_are_not_reported_to_hold(idle: Setting) -> None:
    """A server goes by a policy for a moment after it was deleted."""
    idle.is_slow = True
    assert await idle.look() == PROBE_AGAIN_S
    assert idle.state.placement is None
    idle.is_slow = False
    await idle.look()
    assert idle.found()[0] == "False"


async def test_an_agent_without_virtual_clusters_waits_for_nothing(setting: Setting) -> None:
    setting.world.virtual_clusters.replace_all([])
    setting.world.host.remove("/api/v1/namespaces/edge-v-branch-a")
    await setting.look()
    await setting.state.wait_settled(0.0)
    assert setting.state.placement is None


async def test_claims_that_are_not_protected_are_reported(setting: Setting) -> None:
    setting.unheeded = {OWNER.name(admission.CLAIMS)}
    assert await setting.look() == PROBE_AGAIN_S
    setting.clock.advance(IN_EFFECT_WITHIN_S)
    await setting.look()
    status, _, message = setting.found()
    assert status == "True"
    assert f"{OWNER.name(admission.CLAIMS)} is not in effect (a probe was allowed)" in message


async def test_a_new_policy_gets_time_to_take_effect(setting: Setting) -> None:
    setting.acts_on = set()
    assert await setting.look() == PROBE_AGAIN_S
    assert setting.state.placement is None
    setting.acts_on = {"Validating"}
    await setting.look()
    assert setting.found()[0] == "True"


async def test_a_policy_that_takes_no_effect_is_reported_in_the_end(setting: Setting) -> None:
    setting.acts_on = set()
    await setting.look()
    setting.clock.advance(IN_EFFECT_WITHIN_S)
    assert await setting.look() == PROBLEM_S
    status, reason, message = setting.found()
    assert (status, reason) == ("False", "PoliciesNotInEffect")
    assert f"{OWNER.name(admission.PLACEMENT)} is not in effect (a probe was allowed)" in message


async def test_plugin_is_recognised_by_how_it_refuses(setting: Setting) -> None:
    setting.has_plugin = True
    await setting.look()
    assert setting.found()[2] == "enforced by PodNodeSelector, ValidatingAdmissionPolicy"


async def test_the_plugin_alone_is_enough(idle: Setting) -> None:
    idle.has_plugin = True
    await idle.look()
    status, _, message = idle.found()
    assert status == "True"
    assert message.startswith("enforced by PodNodeSelector; installPolicies is false")


async def test_a_namespace_that_refuses_for_another_reason_decides_nothing(
    setting: Setting,
) -> None:
    setting.world.host.fail(403, "Forbidden", method="POST", path=PODS, message="no account yet")
    assert await setting.look() == UNDECIDED_S
    assert setting.is_undecided()
    setting.has_plugin = True
    assert await setting.look() == INTERVAL_S
    assert setting.found()[2] == "enforced by PodNodeSelector, ValidatingAdmissionPolicy"
    assert not setting.is_undecided()


async def test_plugin_is_not_probed_before_there_is_a_namespace(world: World) -> None:
    world.host.seed(objects.namespace(HOME))
    setting = Setting(world, OWNER)
    assert await setting.look() == INTERVAL_S
    assert setting.is_undecided()


async def test_no_dry_run_leaves_a_pod(setting: Setting) -> None:
    await setting.look()
    assert setting.world.host.listed("/api/v1/pods") == []


async def test_workloads_wait_until_it_is_settled(setting: Setting) -> None:
    await setting.look()
    await setting.state.wait_settled(0.0)


async def test_workloads_do_not_wait_for_ever(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    await setting.state.wait_settled(10.0)
    assert "before admission policies are in effect" in caplog.text


async def test_policy_of_the_gateway_is_looked_for_where_join_installed_it(world: World) -> None:
    owner = replace(OWNER, gateway="the-gateway")
    setting = Setting(world, owner)
    await setting.look()
    assert await setting.events() == []
    world.host.remove(f"{POLICIES}/" + owner.name("gateway-confines"))
    await setting.look()
    assert {reason for reason, _ in await setting.events()} == {"PolicyMissing"}


async def test_input_of_the_policies_is_read_from_the_confining_one_alone(world: World) -> None:
    setting = Setting(world, OWNER)
    path = f"{POLICIES}/{OWNER.name('account-tokens')}"
    annotations = {admission.PARAMETERS_ANNOTATION: replace(OWNER, user="another").parameters()}
    world.host.change(
        path, metadata={**world.host.live(path)["metadata"], "annotations": annotations}
    )
    await setting.look()
    assert await setting.events() == []
