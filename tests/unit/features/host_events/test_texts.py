"""Texts of the host's events: in virtual names, of the virtual cluster alone, on one line."""

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from karmada_vc_agent.features.host_events.feature import REASON, failure_of, hub_text
from tests.unit.translation import given

OURS = (("gpu", "yes"), ("only", ""))
FOREIGN = {"edge-v-branch-b", "node-of-b"}
TAINTED = "node(s) had untolerated taint"
OURS_1, OURS_2 = f"{TAINTED} {{gpu: yes}}", f"{TAINTED} {{only: }}"
CPU = "Insufficient cpu"
ELSEWHERE = "node(s) didn't match Pod's node affinity/selector"
UIDS = ("12345678-1234-1234-1234-1234567890ab", "abcdefab-cdef-abcd-efab-cdefabcdefab")
QUOTA = 'Error creating: pods "web-5d9-abcde" is forbidden: exceeded quota: vc-quota, '


def shown(message: str, nodes: int = 2) -> str:
    return hub_text(message, given.context().names(), nodes, OURS, FOREIGN.__contains__)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("plain", "plain"),
        ("(combined from similar events): Error: no", "Error: no"),
        ("two\nlines \x1b[31m", "two lines \\x1b[31m"),
        ("web-x_edge-v-branch-a(uid)", "web-x_edge(uid)"),
        ("edge-v-branch-b/secret of node-of-b, node-1", ".../secret of ..., node-1"),
        ("my-edge-v-branch-b stays", "my-edge-v-branch-b stays"),
        ("dial web.edge-v-branch-b.svc.cluster.local:80", "dial web.....svc.cluster.local:80"),
        ("dial web.edge-v-branch-a.svc", "dial web.edge.svc"),
    ],
)
def test_text_is_in_the_names_of_the_hub(message: str, text: str) -> None:
    assert shown(message) == text


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("2 Insufficient cpu. preemption: 0/2 nodes are available: 2 x.", "2 Insufficient cpu"),
        (
            f"1 Insufficient cpu, 1 Insufficient memory, 5 {ELSEWHERE}.",
            "1 Insufficient cpu, 1 Insufficient memory",
        ),
        (
            "1 Insufficient cpu, 6 node(s) didn't match Pod's node affinity/selector.",
            "1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector",
        ),
        (
            f"1 {OURS_1}, 1 {OURS_2}, 2 {TAINTED} {{tenant: branch-b}}, 3 {ELSEWHERE}.",
            f"1 {OURS_1}, 1 {OURS_2}",
        ),
        (
            f"2 Insufficient cpu, 5 {TAINTED}(s). no new claims to deallocate, preemption: 7 x.",
            "2 Insufficient cpu",
        ),
        ("7 node(s) were unschedulable.", "2 node(s) were unschedulable"),
        (
            'persistentvolumeclaim "data" not found. preemption: 0/7 nodes are available: 7 x.',
            'persistentvolumeclaim "data" not found',
        ),
    ],
)
def test_nodes_are_counted_over_the_virtual_cluster(message: str, text: str) -> None:
    total = 2 if message.startswith("2 Insufficient cpu. ") else 7
    found = shown(f"0/{total} nodes are available: {message}")
    assert found == f"0/2 nodes are available: {text}."


def test_nodes_of_others_change_neither_the_order_nor_the_reasons() -> None:
    foreign = f"{TAINTED} {{tenant: branch-b}}"
    few = f"0/7 nodes are available: 1 {foreign}, 1 {OURS_1}, 6 {ELSEWHERE}, 9 {CPU}."
    many = f"0/90 nodes are available: 10 {OURS_1}, 6 {ELSEWHERE}, 84 {foreign}, 9 {CPU}."
    reasons = [f"2 Insufficient cpu, 2 {ELSEWHERE}, {n} {OURS_1}" for n in (1, 2)]
    assert [shown(few), shown(many)] == [f"0/2 nodes are available: {each}." for each in reasons]


def test_a_group_without_nodes_has_none() -> None:
    message = "0/7 nodes are available: 7 node(s) didn't match Pod's node affinity/selector."
    assert shown(message, 0) == "0/0 nodes are available."


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            f"Back-off restarting web-5d9-abcde_edge({UIDS[0]})",
            f"Back-off restarting web-5d9-x_edge({UIDS[1]})",
        ),
        (f"{QUOTA}used: pods=2", f"{QUOTA.replace('abcde', 'vwxyz')}used: pods=3"),
        ("0/3 nodes are available: 3 a.", "0/4 nodes are available: 4 a."),
    ],
)
def test_pods_of_one_object_have_one_failure(one: str, other: str) -> None:
    assert failure_of(one, "web") == failure_of(other, "web")


@pytest.mark.parametrize("other", ["image b", "webimage a", "image  a"])
def test_other_texts_are_other_failures(other: str) -> None:
    assert failure_of("image a", "web") != failure_of(other, "web")


@pytest.mark.parametrize(
    ("reason", "is_one"),
    [("FailedMount", True), ("", False), ("two words", False), ("a" * 129, False), ("é", False)],
)
def test_reason_is_a_word(reason: str, is_one: bool) -> None:
    assert bool(REASON.fullmatch(reason)) is is_one


@for_all(st.text(max_size=300), st.integers(0, 9))
def test_any_text_makes_one_line_without_foreign_names(message: str, nodes: int) -> None:
    message = f"{message} node-of-b 0/9 nodes are available: {message}"
    found = shown(message, nodes)
    assert found.isprintable()
    assert "node-of-b " not in found
    assert failure_of(message, "web", message[:20])
