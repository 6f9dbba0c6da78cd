"""Interpreter levels in Karmada's order (contract 7.1); native rules (7.2-7.4)."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from karmada_vc_agent.interpretation import third_party, user_hooks
from karmada_vc_agent.interpretation.user_hooks import (
    INTERPRET_HEALTH,
    INTERPRET_STATUS,
    RETAIN,
    InterpretationError,
    Operation,
)
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    dig,
    drop,
    gvk_of,
    key_of,
    labels_of,
    put,
)
from karmada_vc_agent.model.vocabulary import SERVICE_ACCOUNT_TOKEN

HealthRule = Callable[[Object], bool]


def _count(live: Object, field: str) -> int:
    return dig(live, "status", field) or 0


def _is_observed(live: Object) -> bool:
    return _count(live, "observedGeneration") == (dig(live, "metadata", "generation") or 0)


def _reaches_replicas(live: Object, field: str) -> bool:
    desired = dig(live, "spec", "replicas")
    return desired is None or _count(live, field) >= desired


def _is_rolled_out(live: Object) -> bool:
    """Healthy if this generation is observed, and desired replicas are updated and available."""
    return (
        _is_observed(live)
        and _reaches_replicas(live, "updatedReplicas")
        and _count(live, "availableReplicas") >= _count(live, "updatedReplicas")
    )


def _is_replica_set_healthy(live: Object) -> bool:
    """Healthy if this generation is observed, and desired replicas are available."""
    return _is_observed(live) and _reaches_replicas(live, "availableReplicas")


def _is_daemon_set_healthy(live: Object) -> bool:
    """Healthy if this generation is observed, and the pod of each node updated and available."""
    updated = _count(live, "updatedNumberScheduled")
    return (
        _is_observed(live)
        and updated >= _count(live, "desiredNumberScheduled")
        and _count(live, "numberAvailable") >= updated
    )


def _is_service_healthy(live: Object) -> bool:
    """Healthy if it is no LoadBalancer, or has an address."""
    return dig(live, "spec", "type") != "LoadBalancer" or _has_address(live)


def _has_address(live: Object) -> bool:
    """Healthy if a load balancer gave it an address or a host name."""
    ingresses = dig(live, "status", "loadBalancer", "ingress") or []
    return any(dig(ingress, "ip") or dig(ingress, "hostname") for ingress in ingresses)


def _is_claim_bound(live: Object) -> bool:
    """Healthy if it is bound."""
    return bool(dig(live, "status", "phase") == "Bound")


def _is_pod_healthy(live: Object) -> bool:
    """Healthy if it has succeeded, or runs and is ready."""
    phase = dig(live, "status", "phase")
    if phase != "Running":
        return bool(phase == "Succeeded")
    conditions = dig(live, "status", "conditions") or []
    ready = next((c for c in conditions if dig(c, "type") == "Ready"), None)
    return bool(dig(ready, "status") == "True")


def _is_budget_met(live: Object) -> bool:
    """Healthy if as many pods are healthy as desired."""
    return _count(live, "currentHealthy") >= _count(live, "desiredHealthy")


HEALTH_RULES: Mapping[GroupVersionKind, HealthRule] = {
    GroupVersionKind("apps", "v1", "Deployment"): _is_rolled_out,
    GroupVersionKind("apps", "v1", "StatefulSet"): _is_rolled_out,
    GroupVersionKind("apps", "v1", "ReplicaSet"): _is_replica_set_healthy,
    GroupVersionKind("apps", "v1", "DaemonSet"): _is_daemon_set_healthy,
    GroupVersionKind("", "v1", "Service"): _is_service_healthy,
    GroupVersionKind("networking.k8s.io", "v1", "Ingress"): _has_address,
    GroupVersionKind("", "v1", "PersistentVolumeClaim"): _is_claim_bound,
    GroupVersionKind("", "v1", "Pod"): _is_pod_healthy,
    GroupVersionKind("policy", "v1", "PodDisruptionBudget"): _is_budget_met,
}
"""A kind that is not here has no hook and is always healthy (contract 7.4)."""


ReflectRule = Callable[[Object], Object | None]

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


def _show(names: str) -> ReflectRule:
    """Make a rule that shows these fields of the status.

    names: `x`, omitted if empty or zero; `x=0`, also sent if zero; and `+`, both generations.
    """
    fields = re.findall(r"(\w+)(=0|)(?: |$)", names)

    def reflect(live: Object) -> Object | None:
        status = reflect_whole_status(live)
        if status is None:
            return None
        shown = {
            name: status.get(name) or 0 for name, is_sent in fields if is_sent or status.get(name)
        }
        if "+" not in names:
            return shown
        both = {
            "generation": dig(live, "metadata", "generation"),
            "resourceTemplateGeneration": _template_generation(live),
        }
        return {name: value for name, value in both.items() if value} | shown or None

    listed = ", ".join(f"`{name}`" for name, _ in fields)
    reflect.__doc__ = f"Show {'both generations, ' if '+' in names else ''}{listed}."
    return reflect


def reflect_whole_status(live: Object) -> Object | None:
    """Show the whole status."""
    status = live.get("status")
    return status if isinstance(status, dict) else None


def _template_generation(live: Object) -> int:
    text = annotations_of(live).get(vocabulary.TEMPLATE_GENERATION_ANNOTATION, "")
    if not _INTEGER.fullmatch(text):
        raise ValueError(f'strconv.ParseInt: parsing "{text}": invalid syntax')  # Karmada's words
    return int(text)


def _reflect_service(live: Object) -> Object | None:
    """Show `loadBalancer.ingress` of a LoadBalancer, nothing of other types."""
    status = reflect_whole_status(live)
    if status is None or dig(live, "spec", "type") != "LoadBalancer":
        return None
    ingress = dig(status, "loadBalancer", "ingress")
    return {"loadBalancer": {"ingress": ingress} if ingress else {}}


def _reflect_autoscaler(live: Object) -> Object | None:
    """Show `currentReplicas` and `desiredReplicas`."""
    shown = _show("currentReplicas desiredReplicas=0")(live)
    # Karmada sends null, its type has no omitempty there.
    return {**shown, "currentMetrics": None} if shown is not None else None


REFLECT_RULES: Mapping[GroupVersionKind, ReflectRule] = {
    **{
        third_party.kind_of(name): _show(names)
        for name, names in third_party.SHOWN["native"].items()
    },
    GroupVersionKind("", "v1", "Service"): _reflect_service,
    GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler"): _reflect_autoscaler,
}
"""For every other kind the whole status is shown (contract 7.3)."""


RetainRule = Callable[[Object, Object], Object]


def _retain_deployment(desired: Object, live: Object) -> Object:
    """Keep the live `spec.replicas`, if the label `retain-replicas` requests it."""
    if labels_of(desired).get(vocabulary.RETAIN_REPLICAS_LABEL) != "true":
        return desired
    replicas = dig(live, "spec", "replicas")
    if not isinstance(replicas, int):
        raise ValueError(f"failed to get spec.replicas from {key_of(live)}")  # noqa: TRY004
    return put(desired, replicas, "spec", "replicas")


def _retain_pod(desired: Object, live: Object) -> Object:
    """Keep the live node, ServiceAccount, volumes, and mounts of each container."""
    # Karmada decodes into its own Pod type, which drops newer fields; here they are kept.
    for field in ("nodeName", "serviceAccountName", "volumes"):
        value = dig(live, "spec", field)
        desired = put(desired, value, "spec", field) if value else drop(desired, "spec", field)
    for field in ("containers", "initContainers"):
        containers = dig(desired, "spec", field)
        if isinstance(containers, list):
            lives = dig(live, "spec", field) or []
            mounts = {dig(each, "name"): dig(each, "volumeMounts") for each in lives}
            mounted = [_with_mounts(each, mounts) for each in containers]
            desired = put(desired, mounted, "spec", field)
    return desired


def _with_mounts(container: Any, mounts: dict[Any, Any]) -> Any:
    name = dig(container, "name")
    if name not in mounts:
        return container
    mounted = mounts.pop(name)
    return put(container, mounted, "volumeMounts") if mounted else drop(container, "volumeMounts")


def _retain_service_account(desired: Object, live: Object) -> Object:
    """Keep live Secrets in addition to those of the manifest."""
    for field in ("secrets", "imagePullSecrets"):
        references = desired.get(field) or []
        names = {dig(reference, "name") for reference in references}
        added = [ref for ref in live.get(field) or [] if dig(ref, "name") not in names]
        if added:
            desired = put(desired, [*references, *added], field)
    return desired


def _keep(*paths: str) -> RetainRule:
    """Make a rule that keeps the live values of these fields."""

    def retain(desired: Object, live: Object) -> Object:
        for path in paths:
            keys = path.split(".")
            if (value := dig(live, *keys)) not in (None, "", 0):
                desired = put(desired, value, *keys)
        return desired

    retain.__doc__ = f"Keep the live {' and '.join(f'`{path}`' for path in paths)}."
    return retain


def _retain_secret(desired: Object, live: Object) -> Object:
    """Keep the live data of a ServiceAccount's token."""
    if desired.get("type") != SERVICE_ACCOUNT_TOKEN or live.get("data") is None:
        return desired
    return put(desired, live["data"], "data")


RETAIN_RULES: Mapping[GroupVersionKind, RetainRule] = {
    GroupVersionKind("apps", "v1", "Deployment"): _retain_deployment,
    GroupVersionKind("", "v1", "Pod"): _retain_pod,
    GroupVersionKind("", "v1", "Service"): _keep("spec.clusterIP", "spec.healthCheckNodePort"),
    GroupVersionKind("", "v1", "ServiceAccount"): _retain_service_account,
    GroupVersionKind("", "v1", "PersistentVolumeClaim"): _keep("spec.volumeName"),
    GroupVersionKind("", "v1", "PersistentVolume"): _keep("spec.claimRef"),
    GroupVersionKind("batch", "v1", "Job"): _keep(
        "spec.selector.matchLabels", "spec.template.metadata.labels"
    ),
    GroupVersionKind("", "v1", "Secret"): _retain_secret,
}
"""Other kinds are taken from the manifest unchanged (contract 7.2)."""


Health = Literal["Healthy", "Unhealthy"]


Rules = Mapping[Operation, Mapping[GroupVersionKind, Callable[..., Any]]]

_OPERATIONS: tuple[Operation, ...] = (RETAIN, INTERPRET_STATUS, INTERPRET_HEALTH)
_THIRD_PARTY = (third_party.RETAIN_RULES, third_party.REFLECT_RULES, third_party.HEALTH_RULES)
LEVELS: Mapping[str, Rules] = {
    "third-party": dict(zip(_OPERATIONS, _THIRD_PARTY, strict=True)),
    "native": dict(zip(_OPERATIONS, (RETAIN_RULES, REFLECT_RULES, HEALTH_RULES), strict=True)),
}
"""Level -> its rules by exact kind."""

# What a rule raises for an object of unexpected shape, such as a manifest whose spec is a text.
SHAPE_ERRORS = (AttributeError, KeyError, TypeError, ValueError)


_DEFAULTS: Mapping[Operation, Callable[..., Any]] = {
    RETAIN: lambda desired, _live: desired,
    INTERPRET_STATUS: reflect_whole_status,
    INTERPRET_HEALTH: lambda _live: True,
}


def apply_rule(operation: Operation, *objects: Object) -> Any:
    """Return the object, status or health by the first level with a rule for the kind.

    objects: desired and live for Retain (7.2), otherwise live. Raises InterpretationError.
    """
    kind = gvk_of(objects[0])
    for level, rules in LEVELS.items():
        if rule := rules[operation].get(kind):
            try:
                return rule(*objects)
            except SHAPE_ERRORS as error:
                raise InterpretationError(level, operation, str(error)) from error
    return _DEFAULTS[operation](*objects)


class Interpreter:
    """All levels in their order; awaits nothing for kinds without hooks.

    levels: those with hooks of users. now: monotonic clock, in seconds. cluster of the methods: the
    virtual cluster, for fair queuing. They raise InterpretationError.
    """

    def __init__(self, levels: Sequence[user_hooks.HookLevel], now: Callable[[], float]) -> None:
        self._levels = levels
        self._breakers = user_hooks.Breakers(now)

    async def retain(self, cluster: str, desired: Object, live: Object) -> Object:
        """Return the desired object with what the host owns (contract 7.2)."""
        kept: Object = await self._interpret(cluster, RETAIN, desired, live)
        return kept

    async def reflect_status(self, cluster: str, live: Object) -> Object | None:
        """Return the status to report of a restored object, None if there is none (7.3)."""
        status: Object | None = await self._interpret(cluster, INTERPRET_STATUS, live)
        return status

    async def interpret_health(self, cluster: str, live: Object) -> Health:
        """Return the health; a kind without a hook is healthy (contract 7.4)."""
        is_healthy = await self._interpret(cluster, INTERPRET_HEALTH, live)
        return "Healthy" if is_healthy is True else "Unhealthy"

    def interprets_health(self, kind: GroupVersionKind) -> bool:
        """Return whether a level has a health hook for a kind; otherwise it counts as healthy."""
        own = any(level.hook(kind, INTERPRET_HEALTH) for level in self._levels)
        return own or any(kind in rules[INTERPRET_HEALTH] for rules in LEVELS.values())

    async def _interpret(self, cluster: str, operation: Operation, *objects: Object) -> Any:
        kind = gvk_of(objects[0])
        for level in self._levels:
            if hook := level.hook(kind, operation):
                return await self._call(level.name, hook, cluster, operation, objects)
        return apply_rule(operation, *objects)

    async def _call(
        self,
        level: str,
        hook: user_hooks.Hook,
        cluster: str,
        operation: Operation,
        objects: Sequence[Object],
    ) -> Any:
        key = (cluster, hook.key)
        if problem := self._breakers.problem(key):
            raise InterpretationError(level, operation, problem, hook.key)
        try:
            value = await hook.call(cluster, objects)
        except user_hooks.UnavailableError as error:
            problem = f"{hook.name}: {error}"
            self._breakers.failed(key, problem)
            raise InterpretationError(level, operation, problem, hook.key) from error
        except user_hooks.HookError as error:
            self._breakers.ended(key)
            raise InterpretationError(level, operation, f"{hook.name}: {error}") from error
        self._breakers.ended(key)
        return value


BUILT_IN = Interpreter((), lambda: 0.0)
"""The built-in rules alone; it calls no hook and so needs no clock."""
