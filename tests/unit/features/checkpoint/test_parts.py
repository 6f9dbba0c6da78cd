"""CheckpointParts: what a leader begins with."""

from dataclasses import replace

import pytest
from msgspec import structs

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH, AgentState
from karmada_vc_agent.feature_list import CONFIG, FEATURES
from karmada_vc_agent.features.checkpoint.entries import CheckpointSecrets, Reason
from karmada_vc_agent.features.checkpoint.feature import (
    CheckpointParts,
    _not_written,
    checkpoint_kept,
    contact_s,
    is_of_checkpoint,
)
from karmada_vc_agent.features.checkpoint.reader import Checkpoint, read
from karmada_vc_agent.features.checkpoint.writer import EVERYTHING, Outdated
from karmada_vc_agent.kube.errors import ForbiddenError, KubeError, Need
from karmada_vc_agent.model.quantity import Duration
from karmada_vc_agent.runner.parts import Parts
from tests.fakes.world import World
from tests.unit.features.checkpoint.scene import expected, secret


async def test_a_hub_that_answered_between_reading_and_serving_is_taken_note_of(
    world: World,
) -> None:
    """The checkpoint was read while it was not known which hub there is."""
    secrets = CheckpointSecrets(world.host_client, "agents", "agent")
    saved = read([secret()], expected(hub=""))
    outdated = Outdated(AgentState(world.host_client, "agents", "agent"))
    checkpoint = Checkpoint(secrets, saved, outdated, is_hub_away=True)
    common = replace(world.common, provided=(checkpoint,), hub_uid=lambda: "hub-2")
    parts = Parts(common, FEATURES)
    assert parts.common.part(CheckpointParts).offline.saved.refusals["a"].reason is Reason.HUB


def forbidden(*, by_rbac: bool) -> ForbiddenError:
    error = ForbiddenError(403, "Forbidden", "no")
    error.need = Need("get", "", "secrets", "agents", "agent-checkpoint-0") if by_rbac else None
    return error


@pytest.mark.parametrize(
    ("error", "reason", "text"),
    [
        (forbidden(by_rbac=True), "NoRights", "run karmada-vc-agent join"),
        (forbidden(by_rbac=False), "NotWritten", "log says why"),
        (KubeError("broken"), "NotWritten", "log says why"),
    ],
)
def test_join_is_advised_for_missing_rights_only(error: KubeError, reason: str, text: str) -> None:
    """A quota and a webhook answer Forbidden, too."""
    told = _not_written(error)
    assert told[0] == reason
    assert text in told[1]


@pytest.mark.parametrize(("max_age_s", "expected_s"), [(0, 600.0), (3600, 600.0), (60, 15.0)])
def test_contact_is_noted_long_before_it_would_be_too_old(
    max_age_s: float, expected_s: float
) -> None:
    assert contact_s(structs.replace(CONFIG(), offline_max_age=Duration(max_age_s))) == expected_s


@pytest.mark.parametrize(
    ("need", "is_spared"),
    [
        (Need("get", "", "secrets", "agents", "agent-checkpoint-0"), True),
        (Need("patch", "", "secrets", "agents", "agent-checkpoint-31"), True),
        (Need("create", "", "secrets", "agents"), True),
        (Need("get", "", "secrets", "agents", "karmada-kubeconfig"), False),
        (Need("get", "", "configmaps", "agents", "agent-checkpoint-0"), False),
        (Need("create", "coordination.k8s.io", "leases", "agents"), False),
    ],
)
def test_the_rights_to_its_secrets_and_no_others_are_spared(need: Need, *, is_spared: bool) -> None:
    assert is_of_checkpoint("agent", need) == is_spared


async def test_who_was_deleted_on_the_hub_has_no_age(world: World) -> None:
    secrets = CheckpointSecrets(world.host_client, "agents", "agent")
    outdated = Outdated(AgentState(world.host_client, "agents", "agent"))
    checkpoint = Checkpoint(secrets, read([], expected()), outdated)
    parts = Parts(replace(world.common, provided=(checkpoint,)), FEATURES).common.part(
        CheckpointParts
    )
    world.register("branch-a")
    parts.writer.clusters.store.replace_all([world.hub.live(f"{CLUSTERS_PATH}/branch-a")], "100")
    assert [sample.labels for sample in parts.samples()] == [("branch-a",)]
    parts.writer.clusters.store.replace_all([], "101")
    assert list(parts.samples()) == []


async def test_what_is_written_counts_as_kept_once_the_next_start_would_use_it(
    world: World,
) -> None:
    secrets = CheckpointSecrets(world.host_client, "agents", "agent")
    outdated = Outdated(AgentState(world.host_client, "agents", "agent"))
    checkpoint = Checkpoint(secrets, read([], expected()), outdated)
    parts = Parts(replace(world.common, provided=(checkpoint,)), FEATURES)
    await outdated.note(EVERYTHING)
    assert checkpoint_kept(parts, world.vc()) is None, "the condition stays as it is"
    await outdated.clear(EVERYTHING)
    kept = checkpoint_kept(parts, world.vc())
    assert kept is not None
    assert kept["status"] == "True"
