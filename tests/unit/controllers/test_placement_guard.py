"""PlacementGuard: what it installs, restores and leaves alone; what it finds out by dry runs."""

from collections.abc import AsyncIterator

import pytest

from karmada_vc_agent.controllers.placement_guard import (
    ASK_AGAIN_S,
    EVERYTHING,
    IN_EFFECT_WITHIN_S,
    LOOK_AGAIN_S,
    NEEDED_RULE,
    TROUBLED_S,
    UNDECIDED_S,
    GuardSettings,
    PlacementGuard,
)
from karmada_vc_agent.kube.discovery import Discovery
from karmada_vc_agent.kube.errors import ConflictError
from karmada_vc_agent.model.domain import AGENT_LABEL
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.status.conditions import Condition
from karmada_vc_agent.translation.admission_policies import UNPLACED_LABEL, PolicyOwner
from tests.fakes import objects
from tests.fakes.served import Served
from tests.fakes.storage import Place, StatusError
from tests.fakes.virtual_time import Clock
from tests.fakes.world import AGENT, World, new_world

GROUP = "admissionregistration.k8s.io"
HOME = "agents"
OWNER = PolicyOwner(AGENT, HOME, "the-agent")
POLICIES = f"/apis/{GROUP}/v1/validatingadmissionpolicies"
BINDINGS = f"/apis/{GROUP}/v1/validatingadmissionpolicybindings"
MUTATING = f"/apis/{GROUP}/v1beta1/mutatingadmissionpolicies"
PLACEMENT = f"{POLICIES}/{OWNER.placement_policy}"
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

    def __init__(self, world: World, *, install: bool = True, reviews: int = 1000) -> None:
        self.world = world
        self.clock = Clock()
        self.acts_on = {"Validating", "Mutating"}
        self.unheeded: set[str] = set()
        self.is_slow = False
        self.has_plugin = False
        self.is_needed = True
        self.watched: set[str] = set()
        self.changes: list[Condition | None] = []
        host = world.host
        host.storage.served += kinds("Validating", "v1")
        review: bytes = b'{"status": {"userInfo": {"username": "the-agent"}}}'
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        host.answer(review, 201, path=path, times=reviews)
        host.admission.append(self._admit)
        self.guard = PlacementGuard(
            world.host_client,
            Discovery(world.host_client, self.clock),
            world.claims,
            world.virtual_clusters,
            GuardSettings(AGENT, HOME, install),
            is_needed=lambda: self.is_needed,
            watch=lambda resource: self.watched.add(resource.gvk.kind),
            on_change=lambda: self.changes.append(self.guard.condition()),
            clock=self.clock,
        )

    def _admit(self, place: Place, pod: Object) -> Object:
        if (place.served.kind, place.name) == ("Namespace", HOME):
            self._refuse_as(OWNER.claims_policy)
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
        if "Mutating" in self.acts_on and name == f"probe.{OWNER.selector_policy}":
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

    def written(self) -> list[str]:
        writes = [r for r in self.world.host.writes() if r.path.startswith(f"/apis/{GROUP}")]
        return [f"{request.method} {request.path.rsplit('/', 1)[-1]}" for request in writes]

    def found(self) -> tuple[str, str, str]:
        condition = self.guard.condition()
        assert condition is not None
        return condition["status"], condition["reason"], condition["message"]


@pytest.fixture
async def setting(world: World) -> Setting:
    world.host.seed(objects.namespace(HOME), objects.claimed())
    return Setting(world)


@pytest.fixture
async def idle() -> AsyncIterator[Setting]:
    """Return a guard that is told not to install."""
    async with new_world() as world:
        world.host.seed(objects.namespace(HOME), objects.claimed())
        yield Setting(world, install=False)


async def test_policies_are_installed_watched_and_reported(setting: Setting) -> None:
    assert await setting.look() == LOOK_AGAIN_S
    assert len(setting.world.host.listed(POLICIES)) == 2
    assert len(setting.world.host.listed(BINDINGS)) == 3
    assert setting.watched == {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert setting.found() == ("True", "PodsKept", "held by ValidatingAdmissionPolicy")


async def test_nothing_is_written_and_told_twice(setting: Setting) -> None:
    await setting.look()
    await setting.look()
    assert setting.written() == []
    assert len(setting.changes) == 1


async def test_a_new_process_writes_the_same_and_changes_nothing(setting: Setting) -> None:
    await setting.look()
    before = setting.world.host.listed(POLICIES)
    await Setting(setting.world).look()
    assert setting.world.host.listed(POLICIES) == before


async def test_a_mutating_policy_is_installed_in_the_version_that_is_served(
    setting: Setting,
) -> None:
    setting.world.host.storage.served += kinds("Mutating", "v1beta1")
    await setting.look()
    assert len(setting.world.host.listed(MUTATING)) == 1
    assert setting.found()[2] == "held by MutatingAdmissionPolicy, ValidatingAdmissionPolicy"


async def test_a_deleted_policy_comes_back(setting: Setting) -> None:
    await setting.look()
    setting.world.host.remove(PLACEMENT)
    await setting.look()
    assert setting.written() == ["POST validatingadmissionpolicies"]
    assert setting.world.host.live(PLACEMENT)["spec"]["failurePolicy"] == "Fail"


async def test_a_changed_policy_is_set_right(setting: Setting) -> None:
    await setting.look()
    before = setting.world.host.live(PLACEMENT)["spec"]
    setting.world.host.change(PLACEMENT, spec={**before, "failurePolicy": "Ignore"})
    await setting.look()
    assert setting.world.host.live(PLACEMENT)["spec"] == before


async def test_a_policy_of_an_older_agent_is_replaced(setting: Setting) -> None:
    older = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": OWNER.placement_policy, "labels": {AGENT_LABEL: AGENT, "kept": "yes"}},
        "spec": {"validations": [{"expression": "true"}]},
    }
    setting.world.host.seed(older)
    await setting.look()
    live = setting.world.host.live(PLACEMENT)
    assert len(live["spec"]["validations"]) == 3
    assert live["metadata"]["labels"]["kept"] == "yes"


async def test_a_policy_that_lost_its_mark_is_still_ours(setting: Setting) -> None:
    await setting.look()
    metadata = {**setting.world.host.live(PLACEMENT)["metadata"], "labels": {}}
    setting.world.host.change(PLACEMENT, metadata=metadata, spec={})
    await setting.look()
    live = setting.world.host.live(PLACEMENT)
    assert live["metadata"]["labels"] == {AGENT_LABEL: AGENT}
    assert live["spec"]["failurePolicy"] == "Fail"


async def test_a_foreign_policy_is_left_and_reported(setting: Setting) -> None:
    foreign = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": OWNER.placement_policy},
        "spec": {"validations": []},
    }
    setting.world.host.seed(foreign)
    setting.acts_on = set()
    assert await setting.look() == ASK_AGAIN_S
    setting.clock.advance(IN_EFFECT_WITHIN_S)
    assert await setting.look() == TROUBLED_S
    assert setting.world.host.live(PLACEMENT)["spec"] == {"validations": []}
    status, reason, message = setting.found()
    assert (status, reason) == ("False", "ForeignPolicy")
    assert f"{OWNER.placement_policy} was not made by agent {AGENT}" in message


async def test_missing_rights_are_reported_with_the_rule_to_add(setting: Setting) -> None:
    for path in (POLICIES, BINDINGS):
        setting.world.host.fail(403, "Forbidden", method="POST", path=path, times=100)
    assert await setting.look() == TROUBLED_S
    status, reason, message = setting.found()
    assert (status, reason) == ("False", "InstallationForbidden")
    assert message.endswith(str(NEEDED_RULE))
    assert setting.watched == set()


async def test_a_policy_that_the_host_does_not_take_is_reported(setting: Setting) -> None:
    setting.world.host.storage.served += kinds("Mutating", "v1beta1")
    setting.world.host.fail(
        422, "Invalid", method="POST", path=MUTATING, message="no such function"
    )
    await setting.look()
    setting.clock.advance(IN_EFFECT_WITHIN_S)
    setting.acts_on = {"Validating"}
    setting.world.host.fail(
        422, "Invalid", method="POST", path=MUTATING, message="no such function"
    )
    await setting.look()
    status, _, message = setting.found()
    assert status == "True"
    assert message.endswith(
        f"the host does not take MutatingAdmissionPolicy {OWNER.selector_policy}: no such function"
    )


async def test_a_host_without_policies_is_reported(setting: Setting) -> None:
    served = setting.world.host.storage.served
    setting.world.host.storage.served = [r for r in served if GROUP not in r.api_version]
    assert await setting.look() == TROUBLED_S
    assert setting.found()[:2] == ("False", "PoliciesNotServed")


async def test_nothing_is_installed_when_the_settings_say_so(idle: Setting) -> None:
    await idle.look()
    assert idle.written() == []
    assert idle.found()[:2] == ("False", "InstallationDisabled")


@pytest.fixture
async def unwilling(setting: Setting) -> Setting:
    """Return a guard that is told not to install, where an earlier process did."""
    await setting.look()
    setting.world.host.admission.clear()
    setting.world.host.storage.served = setting.world.host.storage.served[:-2]
    return Setting(setting.world, install=False)


def unmark(world: World) -> None:
    """Make the policies look like those of somebody else."""
    for path in (POLICIES, BINDINGS):
        for policy in world.host.listed(path):
            name = policy["metadata"]["name"]
            world.host.change(f"{path}/{name}", metadata={**policy["metadata"], "labels": {}})


async def test_policies_of_an_earlier_process_go_when_they_are_not_wanted(
    unwilling: Setting,
) -> None:
    assert await unwilling.look() == TROUBLED_S
    assert unwilling.world.host.listed(POLICIES) == unwilling.world.host.listed(BINDINGS) == []
    assert [text.partition(" ")[0] for text in unwilling.written()] == ["DELETE"] * 5
    assert unwilling.found()[:2] == ("False", "InstallationDisabled")


async def test_policies_that_are_gone_are_not_told_to_hold(
    unwilling: Setting,
) -> None:
    """A server goes by a policy for a moment after it was deleted."""
    unwilling.is_slow = True
    assert await unwilling.look() == ASK_AGAIN_S
    assert unwilling.guard.condition() is None
    unwilling.is_slow = False
    await unwilling.look()
    assert unwilling.found()[0] == "False"


async def test_policies_of_somebody_else_stay_and_count(unwilling: Setting) -> None:
    unmark(unwilling.world)
    await unwilling.look()
    assert unwilling.written() == []
    assert unwilling.found()[0] == "True"


async def test_policies_that_cannot_be_removed_are_reported(unwilling: Setting) -> None:
    unwilling.world.host.fail(403, "Forbidden", method="GET", path=BINDINGS)
    await unwilling.look()
    message = unwilling.found()[2]
    assert "installPolicies is false" in message
    assert message.endswith(str(NEEDED_RULE))


async def test_policies_go_with_the_last_virtual_cluster(setting: Setting) -> None:
    await setting.look()
    setting.is_needed = False
    assert await setting.look() == LOOK_AGAIN_S
    assert setting.world.host.listed(POLICIES) == setting.world.host.listed(BINDINGS) == []
    setting.is_needed = True
    await setting.look()
    assert len(setting.world.host.listed(POLICIES)) == 2


async def test_an_agent_without_virtual_clusters_installs_nothing_and_waits_for_nothing(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    setting.is_needed = False
    setting.world.host.fail(403, "Forbidden", method="GET", path=BINDINGS)
    await setting.look()
    assert setting.written() == []
    await setting.guard.wait_settled(0.0)
    assert "Leaving admission policies behind" in caplog.text


async def test_an_agent_that_may_not_know_its_name_installs_nothing(world: World) -> None:
    world.host.seed(objects.namespace(HOME))
    nameless = Setting(world, reviews=0)
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    world.host.fail(403, "Forbidden", path=path, times=2)
    await nameless.look()
    assert nameless.written() == []
    assert "resources: [selfsubjectreviews]" in nameless.found()[2]


async def test_claims_that_are_not_protected_are_reported(setting: Setting) -> None:
    setting.unheeded = {OWNER.claims_policy}
    assert await setting.look() == ASK_AGAIN_S
    setting.clock.advance(IN_EFFECT_WITHIN_S)
    await setting.look()
    status, _, message = setting.found()
    assert status == "True"
    assert f"{OWNER.claims_policy} is not in effect (a probe was let through)" in message


async def test_a_new_policy_gets_time_to_take_effect(setting: Setting) -> None:
    setting.acts_on = set()
    assert await setting.look() == ASK_AGAIN_S
    assert setting.guard.condition() is None
    setting.acts_on = {"Validating"}
    await setting.look()
    assert setting.found()[0] == "True"


async def test_a_policy_that_takes_no_effect_is_reported_in_the_end(setting: Setting) -> None:
    setting.acts_on = set()
    await setting.look()
    setting.clock.advance(IN_EFFECT_WITHIN_S)
    assert await setting.look() == TROUBLED_S
    status, reason, message = setting.found()
    assert (status, reason) == ("False", "PoliciesNotInEffect")
    assert f"{OWNER.placement_policy} is not in effect (a probe was let through)" in message


async def test_the_plugin_is_known_by_how_it_refuses(setting: Setting) -> None:
    setting.has_plugin = True
    await setting.look()
    assert setting.found()[2] == "held by PodNodeSelector, ValidatingAdmissionPolicy"


async def test_the_plugin_alone_is_enough(idle: Setting) -> None:
    idle.has_plugin = True
    await idle.look()
    status, _, message = idle.found()
    assert status == "True"
    assert message.startswith("held by PodNodeSelector; installPolicies is false")


async def test_a_namespace_that_refuses_for_another_reason_decides_nothing(
    setting: Setting,
) -> None:
    setting.world.host.fail(403, "Forbidden", method="POST", path=PODS, message="no account yet")
    assert await setting.look() == UNDECIDED_S
    assert setting.guard.is_undecided()
    setting.has_plugin = True
    assert await setting.look() == LOOK_AGAIN_S
    assert setting.found()[2] == "held by PodNodeSelector, ValidatingAdmissionPolicy"
    assert not setting.guard.is_undecided()


async def test_nobody_is_asked_about_the_plugin_before_there_is_a_namespace(world: World) -> None:
    world.host.seed(objects.namespace(HOME))
    setting = Setting(world)
    assert await setting.look() == LOOK_AGAIN_S
    assert setting.guard.is_undecided()


async def test_no_dry_run_leaves_a_pod(setting: Setting) -> None:
    await setting.look()
    assert setting.world.host.listed("/api/v1/pods") == []


async def test_workloads_wait_until_it_is_settled(setting: Setting) -> None:
    await setting.look()
    await setting.guard.wait_settled(0.0)


async def test_workloads_do_not_wait_for_ever(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    await setting.guard.wait_settled(10.0)
    assert "before admission policies are in effect" in caplog.text


async def test_a_lost_race_is_left_to_the_queue(setting: Setting) -> None:
    await setting.look()
    setting.world.host.change(PLACEMENT, spec={})
    setting.world.host.fail(409, "Conflict", method="PUT", path=PLACEMENT)
    with pytest.raises(ConflictError):
        await setting.look()
