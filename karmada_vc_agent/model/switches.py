"""Controllers and feature gates that can be enabled and disabled, by Karmada's names.

Karmada's agent has no `hostEvents`. Source: contract 8, 9.1, 9.4; docs/adr/0009.
"""

from collections.abc import Collection, Mapping

from karmada_vc_agent.model.texts import either

CLUSTER_STATUS = "clusterStatus"
EXECUTION = "execution"
WORK_STATUS = "workStatus"
SERVICE_EXPORT = "serviceExport"
ENDPOINT_SLICE_COLLECT = "endpointsliceCollect"
CERT_ROTATION = "certRotation"
HOST_EVENTS = "hostEvents"

CONTROLLERS: Mapping[str, bool] = {
    CLUSTER_STATUS: True,
    EXECUTION: True,
    WORK_STATUS: True,
    SERVICE_EXPORT: True,
    ENDPOINT_SLICE_COLLECT: True,
    CERT_ROTATION: False,
    HOST_EVENTS: True,
}
"""Controller -> whether `*` always includes it. The help of the flag describes them."""

MULTI_CLUSTER_SERVICE = "MultiClusterService"
CLUSTER_RESOURCE_MODELING = "CustomizedClusterResourceModeling"

FEATURE_GATES: Mapping[str, bool] = {
    MULTI_CLUSTER_SERVICE: False,
    CLUSTER_RESOURCE_MODELING: True,
}
"""Gate -> its default, as in Karmada. Gates of Karmada without meaning here are unknown."""

_ALL = "*"
_TRUTH = {"true": True, "false": False}


def enabled_controllers(text: str, also: Collection[str] = ()) -> frozenset[str]:
    """Return the controllers that `*,foo,-foo` enables; the first match wins.

    also: those that `*` includes here, too. Raises ValueError with the problem.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word != _ALL and word.removeprefix("-") not in CONTROLLERS:
            raise ValueError(
                f'"{word.removeprefix("-")}" is not a controller, must be {either(CONTROLLERS)}'
            )
    enabled = frozenset(name for name in CONTROLLERS if _is_enabled(name, words, also))
    if not enabled:
        raise ValueError(f'"{text}" enables no controller; write * for those on by default')
    if WORK_STATUS in enabled and EXECUTION not in enabled:
        raise ValueError(
            f"{WORK_STATUS} reports and repairs only what {EXECUTION} applies; write "
            f'"-{EXECUTION},-{WORK_STATUS}" to disable both'
        )
    return enabled


def _is_enabled(name: str, words: list[str], also: Collection[str]) -> bool:
    for word in words:
        if word == name:
            return True
        if word == f"-{name}":
            return False
    return _ALL in words and (CONTROLLERS[name] or name in also)


def feature_gates(text: str) -> dict[str, bool]:
    """Return all gates as `Name=true,Other=false` sets them, others at their default.

    Raises ValueError with the problem.
    """
    gates = dict(FEATURE_GATES)
    for word in text.split(","):
        name, _, value = (part.strip() for part in word.partition("="))
        if not name and not value:
            continue
        if name not in FEATURE_GATES:
            raise ValueError(f'"{name}" is not a feature gate, must be {either(FEATURE_GATES)}')
        if value.lower() not in _TRUTH:
            raise ValueError(f'{name} is "{value}", must be true or false')
        gates[name] = _TRUTH[value.lower()]
    return gates
