"""Switches: which controllers and gates a text turns on, and what it may not say."""

import pytest

from karmada_vc_agent.model.virtual_cluster import (
    CONTROLLERS,
    FEATURE_GATES,
    enabled_controllers,
    feature_gates,
)

ON_BY_DEFAULT = {"clusterStatus", "execution", "workStatus", "serviceExport"} | {
    "endpointsliceCollect",
    "hostEvents",
}


@pytest.mark.parametrize(
    ("text", "enabled"),
    [
        ("*", ON_BY_DEFAULT),
        ("*,certRotation", ON_BY_DEFAULT | {"certRotation"}),
        (" * , certRotation ", ON_BY_DEFAULT | {"certRotation"}),
        ("certRotation,*", ON_BY_DEFAULT | {"certRotation"}),
        ("*,-serviceExport", ON_BY_DEFAULT - {"serviceExport"}),
        ("-serviceExport,*,serviceExport", ON_BY_DEFAULT - {"serviceExport"}),
        ("serviceExport,*,-serviceExport", ON_BY_DEFAULT),
        ("*,*", ON_BY_DEFAULT),
        ("execution,workStatus", {"execution", "workStatus"}),
        ("execution", {"execution"}),
    ],
)
def test_controllers_are_what_karmada_makes_of_the_text(text: str, enabled: set[str]) -> None:
    assert enabled_controllers(text) == enabled


@pytest.mark.parametrize(
    ("text", "is_on"),
    [("*", True), ("*,-certRotation", False), ("-certRotation,*", False), ("execution", False)],
)
def test_all_means_what_is_on_for_this_agent_too(text: str, is_on: bool) -> None:
    assert ("certRotation" in enabled_controllers(text, ("certRotation",))) is is_on


@pytest.mark.parametrize("text", ["cert-rotation", "*,-certrotation", "-*"])
def test_unknown_controller_is_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(ValueError, match="is not a controller, must be clusterStatus, ") as raised:
        enabled_controllers(text)
    assert all(name in str(raised.value) for name in CONTROLLERS)


@pytest.mark.parametrize("text", ["", " ,", "-execution"])
def test_text_that_enables_no_controller_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"enables no controller; write \* for those"):
        enabled_controllers(text)


@pytest.mark.parametrize("text", ["*,-execution", "workStatus"])
def test_work_status_without_execution_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match='write "-execution,-workStatus"'):
        enabled_controllers(text)


def test_gates_not_named_keep_their_default() -> None:
    assert feature_gates("") == FEATURE_GATES
    assert feature_gates("MultiClusterService=true") == {**FEATURE_GATES} | {
        "MultiClusterService": True
    }
    assert not any(
        feature_gates(
            " CustomizedClusterResourceModeling = False , MultiClusterService=false "
        ).values()
    )


def test_unknown_gate_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match='"Failover" is not a feature gate, must be') as raised:
        feature_gates("MultiClusterService=true,Failover=true")
    assert all(name in str(raised.value) for name in FEATURE_GATES)


@pytest.mark.parametrize("text", ["MultiClusterService", "MultiClusterService=yes"])
def test_gate_without_a_truth_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be true or false"):
        feature_gates(text)
