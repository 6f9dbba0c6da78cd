"""What is kept in memory of a virtual cluster goes with its Cluster."""

from collections.abc import Mapping
from typing import Any

import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.kube.errors import ForbiddenError
from tests.fakes import objects
from tests.fakes.world import World

_MEMORIES = (
    "_memory",
    "_outcomes",
    "_cleaned",
    "_barred",
    "_depending_on_claims",
    "_users",
    "_equipped",
)


def keepers(world: World) -> list[Any]:
    return [
        world.memory,
        world.finalizer,
        world.host_objects,
        world.manifests,
        world.namespace_writer,
        world.shared_objects,
    ]


def remembered(world: World, name: str) -> set[str]:
    """Return which memories mention a virtual cluster."""
    found = set()
    for holder in keepers(world):
        for attribute in _MEMORIES:
            kept = getattr(holder, attribute, None)
            if isinstance(kept, (Mapping, set)) and name in repr(kept):
                found.add(attribute)
    return found


async def applied(world: World, name: str) -> None:
    """Make a virtual cluster leave a trace in every memory."""
    class_ = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": objects.managed("urgent"),
        "value": 1000,
    }
    works = {
        "map": objects.config_map(),
        "class": class_,
        "refused": objects.deployment(nodeSelector={"branch": "nowhere"}),
    }
    world.register(name)
    for work, manifest in works.items():
        world.hub.seed(objects.work(manifest, vc=name, name=work))
    world.look()
    for work in works:
        await world.execution.reconcile((name, work))
    world.manifests._depending_on_claims[f"karmada-es-{name}/refused"] = None


async def test_nothing_is_remembered_of_a_deleted_cluster(world: World) -> None:
    await applied(world, "branch-a")
    await applied(world, "branch-b")
    world.hub.mark_deleted(f"{CLUSTERS_PATH}/branch-a")
    world.look()
    world.hub.fail(403, "Forbidden", method="PATCH")
    with pytest.raises(ForbiddenError):
        await world.execution.reconcile(("branch-a", "map"))
    both = {"_outcomes", "_depending_on_claims", "_users", "_equipped"}
    assert remembered(world, "branch-a") == both | {"_cleaned", "_barred"}
    assert remembered(world, "branch-b") == both | {"_memory"}
    world.hub.remove(f"{CLUSTERS_PATH}/branch-a")
    world.look()
    assert remembered(world, "branch-a") == set()
    assert remembered(world, "branch-b") == both | {"_memory"}
