"""The functions of the Lua module `kube`, over plain values.

Source: contract 7.7; karmada pkg/resourceinterpreter/customized/declarative/luavm/kube.go and
the arithmetic of pkg/util/resource.go.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from karmada_vc_agent.model import quantity
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.model.quantity import Quantity

_BINARY_NAMES = ("memory", "ephemeral-storage")
_COUNTED_NAMES = ("cpu", "pods", *_BINARY_NAMES)
_HUGE_PAGES = "hugepages-"
_ATTACHABLE_VOLUMES = "attachable-volumes-"

# Where pods refer to ConfigMaps and Secrets: key of the volume source or of the reference.
_VOLUME_SECRETS = (
    ("secret", "secretName"),
    ("azureFile", "secretName"),
    ("cephfs", "secretRef", "name"),
    ("cinder", "secretRef", "name"),
    ("flexVolume", "secretRef", "name"),
    ("rbd", "secretRef", "name"),
    ("scaleIO", "secretRef", "name"),
    ("iscsi", "secretRef", "name"),
    ("storageos", "secretRef", "name"),
    ("csi", "nodePublishSecretRef", "name"),
)
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


def resource_add(quantities: Iterable[str | None]) -> str:
    """Add quantities; nil counts as zero. Raises ValueError."""
    total = Quantity(0)
    for text in quantities:
        if text is not None:
            total = total + quantity.parse(text)
    return str(total)


def resource_quantity(text: str | None) -> float:
    """Return a quantity as a number. Raises ValueError if it is negative or not finite."""
    if text is None:
        return 0.0
    number = quantity.approximate(text)
    if number < 0:
        raise ValueError(f'"{text[:80]}" is negative')
    return number


def pod_requirements(template: Object) -> Object | None:
    """Return {nodeClaim?, resourceRequest?} of a pod template, None if it requests nothing."""
    spec = _spec_of(template)
    parts = {"nodeClaim": _node_claim(spec), "resourceRequest": _requests(spec)}
    return {name: part for name, part in parts.items() if part} or None


def pod_dependencies(template: Object, namespace: str) -> list[Object]:
    """Return what a pod template refers to, each {apiVersion, kind, namespace, name}.

    Karmada returns each kind in random order; here it is sorted by name.
    """
    spec = _spec_of(template)
    account = spec.get("serviceAccountName")
    names: dict[str, set[Any]] = {
        "ConfigMap": set(_config_maps(spec)),
        "Secret": set(_secrets(spec)),
        "ServiceAccount": {account} - {"default"},
        "PersistentVolumeClaim": {
            dig(volume, "persistentVolumeClaim", "claimName") for volume in _list(spec, "volumes")
        },
    }
    return [
        {"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": name}
        for kind, listed in names.items()
        for name in sorted(filter(None, listed))
    ]


def _spec_of(template: Object) -> Object:
    spec = dig(template, "spec")
    return spec if isinstance(spec, dict) else {}


def _list(obj: Any, *path: str) -> list[Any]:
    value = dig(obj, *path)
    return value if isinstance(value, list) else []


def _node_claim(spec: Object) -> Object:
    affinity = dig(
        spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    )
    parts = {
        "hardNodeAffinity": affinity,
        "nodeSelector": spec.get("nodeSelector"),
        "tolerations": spec.get("tolerations"),
    }
    return {name: part for name, part in parts.items() if part}


def _requests(spec: Object) -> dict[str, str]:
    totals: dict[str, int] = {}
    for container in _list(spec, "containers"):
        for name, amount in _effective_requests(container).items():
            totals[name] = totals.get(name, 0) + amount
    for container in _list(spec, "initContainers"):
        for name, amount in _effective_requests(container).items():
            totals[name] = max(totals.get(name, 0), amount)
    for name, amount in _counted(spec.get("overhead") or {}).items():
        totals[name] = totals.get(name, 0) + amount
    return {name: _written(name, totals[name]) for name in sorted(totals) if totals[name] > 0}


def _effective_requests(container: Object) -> dict[str, int]:
    """Return requests by name; a limit without a request counts as a request."""
    limits = dig(container, "resources", "limits") or {}
    requests = dig(container, "resources", "requests") or {}
    return _counted({**limits, **requests})


def _counted(amounts: Object) -> dict[str, int]:
    return {name: _in_unit(name, raw) for name, raw in amounts.items() if _is_counted(name)}


def _is_counted(name: str) -> bool:
    return (
        name in _COUNTED_NAMES
        or name.startswith((_HUGE_PAGES, _ATTACHABLE_VOLUMES))
        or "kubernetes.io/" in name
        or ("/" in name and not name.startswith("requests."))
    )


def _in_unit(name: str, raw: quantity.Raw) -> int:
    return quantity.milli_units(raw) if name == "cpu" else quantity.whole_units(raw)


def _written(name: str, amount: int) -> str:
    if name == "cpu":
        return str(quantity.of_milli(amount))
    is_binary = name in _BINARY_NAMES or name.startswith(_HUGE_PAGES)
    return str(quantity.of_whole(amount, "BinarySI" if is_binary else "DecimalSI"))


def _containers(spec: Object) -> Iterator[Any]:
    for name in _CONTAINER_LISTS:
        yield from _list(spec, name)


def _config_maps(spec: Object) -> Iterator[str]:
    yield from _environment(spec, "configMapRef", "configMapKeyRef")
    for volume in _list(spec, "volumes"):
        yield dig(volume, "configMap", "name")
        for source in _list(volume, "projected", "sources"):
            yield dig(source, "configMap", "name")


def _secrets(spec: Object) -> Iterator[str]:
    for reference in _list(spec, "imagePullSecrets"):
        yield dig(reference, "name")
    yield from _environment(spec, "secretRef", "secretKeyRef")
    for volume in _list(spec, "volumes"):
        for path in _VOLUME_SECRETS:
            yield dig(volume, *path)
        for source in _list(volume, "projected", "sources"):
            yield dig(source, "secret", "name")


def _environment(spec: Object, whole: str, single: str) -> Iterator[str]:
    for container in _containers(spec):
        for source in _list(container, "envFrom"):
            yield dig(source, whole, "name")
        for variable in _list(container, "env"):
            yield dig(variable, "valueFrom", single, "name")
