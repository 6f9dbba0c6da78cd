"""What can be switched on and off: controllers and feature gates, by Karmada's names.

Source: contract 8, 9.1, 9.4; docs/adr/0009.
"""

from collections.abc import Mapping

CLUSTER_STATUS = "clusterStatus"
EXECUTION = "execution"
WORK_STATUS = "workStatus"
SERVICE_EXPORT = "serviceExport"
ENDPOINT_SLICE_COLLECT = "endpointsliceCollect"
CERT_ROTATION = "certRotation"

CONTROLLERS: Mapping[str, bool] = {
    CLUSTER_STATUS: True,
    EXECUTION: True,
    WORK_STATUS: True,
    SERVICE_EXPORT: True,
    ENDPOINT_SLICE_COLLECT: True,
    CERT_ROTATION: False,
}
"""Controller -> whether `*` means it too. What they are is told by the flag's help."""

MULTI_CLUSTER_SERVICE = "MultiClusterService"
CLUSTER_RESOURCE_MODELING = "CustomizedClusterResourceModeling"

FEATURE_GATES: Mapping[str, bool] = {
    MULTI_CLUSTER_SERVICE: False,
    CLUSTER_RESOURCE_MODELING: True,
}
"""Gate -> its default, which is Karmada's. Gates of Karmada without a meaning here are unknown."""

_ALL = "*"
_TRUTH = {"true": True, "false": False}


def enabled_controllers(text: str) -> frozenset[str]:
    """Return which controllers `*,name,-name` turns on; what is mentioned first wins.

    Raises ValueError with what is wrong.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word != _ALL and word.removeprefix("-") not in CONTROLLERS:
            known = ", ".join(CONTROLLERS)
            raise ValueError(
                f'"{word.removeprefix("-")}" is not a known controller (there are: {known})'
            )
    enabled = frozenset(name for name in CONTROLLERS if _is_enabled(name, words))
    if WORK_STATUS in enabled and EXECUTION not in enabled:
        raise ValueError(
            f"{WORK_STATUS} reports and repairs only what {EXECUTION} applies; "
            f'write "-{EXECUTION},-{WORK_STATUS}" to run neither'
        )
    return enabled


def _is_enabled(name: str, words: list[str]) -> bool:
    for word in words:
        if word == name:
            return True
        if word == f"-{name}":
            return False
    return _ALL in words and CONTROLLERS[name]


def feature_gates(text: str) -> dict[str, bool]:
    """Return all gates as `Name=true,Other=false` sets them, the others at their default.

    Raises ValueError with what is wrong.
    """
    gates = dict(FEATURE_GATES)
    for word in text.split(","):
        name, _, value = (part.strip() for part in word.partition("="))
        if not name and not value:
            continue
        if name not in FEATURE_GATES:
            known = ", ".join(FEATURE_GATES)
            raise ValueError(f'"{name}" is not a known feature gate (there are: {known})')
        if value.lower() not in _TRUTH:
            raise ValueError(f'{name} is "{value}", must be true or false')
        gates[name] = _TRUTH[value.lower()]
    return gates
