"""What cannot move is told in few words; all else stays as the host says it."""

import pytest

from karmada_vc_agent.model.objects import Object, gvk_of
from karmada_vc_agent.translation.kind_policy import Code
from karmada_vc_agent.translation.placement import explain_immutable
from tests.fakes import objects

REQUIRED = {"branch": "a", "disk": "ssd"}
FORMER = {"branch": "a"}
JOB_ANSWER = 'Job.batch "once" is invalid: spec.template: Invalid value: {}: field is immutable'
POD_ANSWER = 'Pod "p" is invalid: spec: Forbidden: pod updates may not change fields other than'


def pod(**spec: object) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


@pytest.mark.parametrize(
    ("answer", "live", "path"),
    [
        (JOB_ANSWER, objects.job(nodeSelector=FORMER), "spec.template.spec.nodeSelector"),
        (POD_ANSWER, pod(nodeSelector=FORMER), "spec.nodeSelector"),
    ],
    ids=["job", "pod"],
)
def test_object_on_former_nodes_is_immutable(answer: str, live: Object, path: str) -> None:
    refusal = explain_immutable(answer, gvk_of(live), live, REQUIRED)
    assert refusal is not None
    assert (refusal.code, refusal.path) == (Code.IMMUTABLE, path)
    assert refusal.detail.startswith(f"{path} cannot be changed to select disk=ssd; ")


def test_all_missing_labels_are_named_in_order() -> None:
    live = pod()
    refusal = explain_immutable(POD_ANSWER, gvk_of(live), live, REQUIRED)
    assert refusal is not None
    assert "select branch=a,disk=ssd;" in refusal.detail


@pytest.mark.parametrize(
    ("answer", "live"),
    [
        (JOB_ANSWER, None),
        (JOB_ANSWER, objects.job(nodeSelector={**REQUIRED, "size": "big"})),
        ("spec.parallelism: must be greater than or equal to 0", objects.job(nodeSelector=FORMER)),
        ("spec.selector: field is immutable", objects.deployment(nodeSelector=FORMER)),
    ],
    ids=["nothing-there", "selects-the-nodes", "another-error", "a-kind-that-rolls"],
)
def test_other_answers_are_left_as_they_are(answer: str, live: Object | None) -> None:
    gvk = gvk_of(live or objects.job())
    assert explain_immutable(answer, gvk, live, REQUIRED) is None
