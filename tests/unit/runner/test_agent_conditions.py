"""CredentialRenewed, LeaseNamespaceExists: on all Clusters while it fails, and after it did."""

import pytest

from tests.fakes.reported import Reported
from tests.fakes.world import World


@pytest.fixture
def renewed(world: World) -> Reported:
    return Reported(world, "CredentialRenewed")


async def test_what_never_failed_is_no_condition(world: World, renewed: Reported) -> None:
    assert renewed.condition(world.vc(), {}) == []


async def test_failure_is_reported_until_it_succeeds_and_each_change_once(
    world: World, renewed: Reported
) -> None:
    changes: list[str] = []
    made = world.parts.credential
    made.changed.subscribe(lambda: changes.append(made.reason))
    for reason in ("RequestPending", "RequestPending", "ReadOnly"):
        made.fail(reason, f"it is {reason}")
    (failing,) = renewed.condition(world.vc(), {})
    assert (failing["status"], failing["reason"]) == ("False", "ReadOnly")
    made.succeed()
    (after,) = renewed.condition(world.vc(), {"conditions": [failing]})
    assert after["status"] == "True"
    assert changes == ["RequestPending", "ReadOnly", ""]
