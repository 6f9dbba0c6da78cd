"""GroupPresent: what is said of what a virtual cluster was found by."""

import pytest

from karmada_vc_agent.cluster.origins import Origin
from karmada_vc_agent.features.found.conditions import group_present


@pytest.mark.parametrize(
    ("found_by", "absence", "expected"),
    [
        ("NodeGroup a", "", ("True", "Found", "found by NodeGroup a")),
        ("NodeGroup a", "NodeGroup a is gone", ("False", "Gone", "NodeGroup a is gone")),
        ("", "", ("True", "Defined", "the settings or a VirtualCluster object define it now")),
    ],
)
def test_condition_says_what_is(found_by: str, absence: str, expected: tuple[str, ...]) -> None:
    made = group_present(Origin(found_by, absence=absence) if found_by else None)
    assert (made["status"], made["reason"], made["message"]) == expected
