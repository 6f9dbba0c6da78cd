"""A Cluster that another agent of the host has served for a while, and does no longer."""

import asyncio

import pytest

from karmada_vc_agent.model.vocabulary import AGENT_ANNOTATION
from karmada_vc_agent.work.works import applied_of
from tests.fakes import objects
from tests.fuzz.served_ways import TENANT, field

CLUSTER = f"/apis/cluster.karmada.io/v1alpha1/clusters/{TENANT}"
WORK = f"/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{TENANT}/works/meanwhile"


@pytest.mark.parametrize("cluster_wide", [False, True])
async def test_works_of_a_cluster_that_is_ours_again_are_applied(*, cluster_wide: bool) -> None:
    """With no change of a node, nor of the Cluster but its annotation."""
    async with field(works_cluster_wide=cluster_wide) as running:

        def annotate(**annotations: str) -> None:
            live = running.hub.live(CLUSTER)
            running.hub.seed({**live, "metadata": {**live["metadata"], "annotations": annotations}})

        def is_applied() -> bool:
            applied = applied_of(running.hub.live(WORK).get("status"))
            return applied is not None and applied["status"] == "True"

        annotate(**{AGENT_ANNOTATION: "others/agent"})
        await asyncio.sleep(30.0)
        running.hub.seed(objects.work(objects.config_map("late"), vc=TENANT, name="meanwhile"))
        await asyncio.sleep(30.0)
        assert not is_applied()
        annotate()
        await running.until(is_applied, "not applied")
