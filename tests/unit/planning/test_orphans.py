"""Which host objects no Work stands behind."""

from typing import Any

import pytest

from karmada_vc_agent.model.domain import CLUSTER_LABEL, WORK_ANNOTATION
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.planning.orphans import is_orphan, work_of


def live(work: str = "karmada-es-branch-a/web", cluster: str = "branch-a", **more: Any) -> Object:
    metadata: Object = {"name": "web", "labels": {CLUSTER_LABEL: cluster} if cluster else {}}
    if work:
        metadata["annotations"] = {WORK_ANNOTATION: work}
    return {"metadata": metadata | more}


def test_an_object_whose_work_is_there_is_none() -> None:
    assert work_of(live()) == "web"
    assert not is_orphan(live(), {"web"})


def test_an_object_whose_work_is_gone_is_one() -> None:
    assert is_orphan(live(), {"other"})


@pytest.mark.parametrize(
    "obj",
    [
        live(work=""),
        live(work="/"),
        live(cluster=""),
        live(cluster="branch-b"),
        live(work="elsewhere/web"),
        live(ownerReferences=[{"kind": "Service", "name": "web", "controller": True}]),
    ],
)
def test_what_no_work_of_the_cluster_made_is_none(obj: Object) -> None:
    assert not is_orphan(obj, set())


def test_an_owner_that_does_not_control_makes_no_difference() -> None:
    assert is_orphan(live(ownerReferences=[{"kind": "X", "name": "x"}]), set())
