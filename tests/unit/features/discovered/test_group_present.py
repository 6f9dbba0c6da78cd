"""GroupPresent: the source of a discovered virtual cluster."""

import pytest

from karmada_vc_agent.cluster.registration import Origin
from karmada_vc_agent.features.discovered.feature import group_present


@pytest.mark.parametrize(
    ("source", "absence", "expected"),
    [
        ("NodeGroup a", "", ("True", "Found", "defined by NodeGroup a")),
        ("NodeGroup a", "NodeGroup a was deleted", ("False", "Gone", "NodeGroup a was deleted")),
        ("", "", ("True", "Defined", "the settings or a VirtualCluster object define it now")),
    ],
)
def test_condition_says_what_is(source: str, absence: str, expected: tuple[str, ...]) -> None:
    made = group_present(Origin(source, absence=absence) if source else None)
    assert (made["status"], made["reason"], made["message"]) == expected
