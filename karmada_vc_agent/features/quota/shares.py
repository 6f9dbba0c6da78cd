"""Divide one quota over many namespaces so that the sum never exceeds it (ADR 14).

Kubernetes counts per namespace. So each namespace has a ResourceQuota, and these shares never add
up to more than the whole; unused shares move to where they are needed. Amounts are whole numbers:
milli-cores for CPU, units for everything else.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from karmada_vc_agent.model import quantity, vocabulary
from karmada_vc_agent.model.objects import GroupKind, Object, dig, gvk_of

Amounts = Mapping[str, int]

_REQUESTS, _LIMITS = "requests.", "limits."
_PODS = ("pods", "count/pods")
_PLAIN_REQUESTS = ("cpu", "memory", "ephemeral-storage")
_SURGE = "25%"


@dataclass(frozen=True, slots=True)
class Share:
    """The quota of one namespace.

    hard: spec of the object. enforced: status.hard, None until the server has observed it.
    used: status.used. requested: by the workloads there with all their pods.
    rolling: the same during a rollout, a little more.
    """

    hard: Amounts
    enforced: Amounts | None
    used: Amounts
    requested: Amounts
    rolling: Amounts


@dataclass(frozen=True, slots=True)
class Pending:
    """The reason why a division waits.

    reason: CamelCase, as in a condition. problem: a message that the namespaces complete.
    """

    reason: str
    problem: str
    namespaces: tuple[str, ...] = ()

    def overlaps(self, other: "Pending") -> bool:
        """Return whether both wait for the same reason, in one namespace at least."""
        shared = set(self.namespaces) & set(other.namespaces)
        return self.reason == other.reason and (bool(shared) or self == other)


def amounts_of(quantities: Mapping[str, quantity.Raw] | None) -> dict[str, int]:
    """Return a map of quantities as amounts."""
    return {name: _amount(name, raw) for name, raw in (quantities or {}).items()}


def quantities_of(amounts: Amounts) -> dict[str, str]:
    """Return amounts as the server writes them."""
    return {name: str(_quantity(name, amounts[name])) for name in sorted(amounts)}


def share_of(quota: Object, requested: Amounts, rolling: Amounts) -> Share:
    """Read the share of a namespace from its ResourceQuota."""
    enforced = dig(quota, "status", "hard")
    return Share(
        hard=amounts_of(dig(quota, "spec", "hard")),
        enforced=None if enforced is None else amounts_of(enforced),
        used=amounts_of(dig(quota, "status", "used")),
        requested=requested,
        rolling=rolling,
    )


def left_of(total: Amounts, kept: Iterable[Share]) -> dict[str, int]:
    """Return what is left of a total beside shares that may not be changed."""
    shares = list(kept)
    return {
        resource: max(0, amount - sum(_held(share, resource) for share in shares))
        for resource, amount in total.items()
    }


def divide(total: Amounts, shares: Mapping[str, Share]) -> dict[str, dict[str, int]]:
    """Return the target of each namespace; together never more than `total`.

    First what is used, then what is requested, the smallest first, then what rollouts need; then
    evenly. A division that still suffices is kept, so that a new pod does not change every quota:
    one in which each has half of an even part of the rest, and one at least while it lasts.
    """
    targets: dict[str, dict[str, int]] = {name: {} for name in shares}
    if not shares:
        return targets
    for resource, amount in total.items():
        for name, share in _divide_one(resource, amount, shares).items():
            targets[name][resource] = share
    return targets


def next_hard(
    total: Amounts,
    shares: Mapping[str, Share],
    targets: Mapping[str, Amounts],
    *,
    may_raise: bool,
) -> dict[str, dict[str, int]]:
    """Return what to write to each quota now, on the way to the targets.

    Lowering is first. A share is raised only by what no other one holds, and one that is lowered
    holds its amount until it is written and the server enforces it: pods are admitted against that.
    So the sum of what is enforced never exceeds the total, also where a write fails.
    may_raise: False while a namespace has no quota. Nothing is raised either while the server has
    not computed the usage of one of them.
    """
    result: dict[str, dict[str, int]] = {name: {} for name in shares}
    for resource, amount in total.items():
        target = {name: targets[name][resource] for name in shares}
        lowered = {n: min(s.hard.get(resource, 0), target[n]) for n, s in shares.items()}
        held = {n: _held(s, resource) for n, s in shares.items()}
        is_counted = all(resource in (share.enforced or {}) for share in shares.values())
        if not (may_raise and is_counted):
            for name in shares:
                result[name][resource] = lowered[name]
            continue
        free = max(0, amount - sum(held.values()))
        for name in sorted(shares):
            new = max(lowered[name], min(target[name], held[name] + free))
            free -= max(0, new - held[name])
            result[name][resource] = new
    return result


def settled(
    total: Amounts, shares: Mapping[str, Share], targets: Mapping[str, Amounts]
) -> list[str]:
    """Return the namespaces in which the host enforces the target."""
    return [
        name
        for name, share in shares.items()
        if all((share.enforced or {}).get(r) == targets[name][r] for r in total)
    ]


def pending(
    total: Amounts,
    shares: Mapping[str, Share],
    targets: Mapping[str, Amounts],
    written: Mapping[str, Amounts],
    missing: Collection[str],
) -> Pending | None:
    """Return what is missing between the quotas and their targets, None if nothing.

    written: current spec of the quotas. missing: namespaces without a quota.
    """
    if missing:
        text = "there is no quota yet in"
        return Pending("NamespaceWithoutQuota", text, tuple(sorted(missing)))
    uncounted = [n for n, share in shares.items() if total.keys() - (share.enforced or {}).keys()]
    if uncounted:
        text = "the host has not computed the usage of"
        return Pending("NotCounted", text, tuple(sorted(uncounted)))
    if all(written[name] == targets[name] for name in shares):
        return None
    holding = [
        name
        for name, share in shares.items()
        if any(_held(share, r) > written[name][r] for r in total)
    ]
    text = "the host does not enforce the lowered quota yet in"
    return Pending("NotLowered", text, tuple(sorted(holding)))


def requested_by(
    workload: Object, limits: tuple[Object, ...], nodes: int
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the requests of all pods of a workload, normally and during a rollout, by quota name.

    limits: of the virtual cluster, for containers without values. nodes: of the virtual cluster;
    each may get a pod of a DaemonSet.
    """
    pods, surge = _pod_count(workload, nodes)
    spec = dig(workload, "spec", "template", "spec")
    if not pods or not isinstance(spec, dict):
        return {}, {}
    one: dict[str, int] = dict.fromkeys(_PODS, 1)
    for field, prefix in (("requests", _REQUESTS), ("limits", _LIMITS)):
        for name, amount in _pod_amounts(spec, field, limits).items():
            one[prefix + name] = amount
            if field == "requests" and name in _PLAIN_REQUESTS:
                one[name] = amount
    return (
        {name: amount * pods for name, amount in one.items()},
        {name: amount * (pods + surge) for name, amount in one.items()},
    )


def _divide_one(resource: str, amount: int, shares: Mapping[str, Share]) -> dict[str, int]:
    used = {name: share.used.get(resource, 0) for name, share in shares.items()}
    free = amount - sum(used.values())
    if free < 0:
        # More is used than allowed: nothing is evicted, and nothing new starts until it fits again.
        all_used = sum(used.values())
        return {name: use * amount // all_used for name, use in used.items()}
    granted = dict(used)
    for wish_of in (attrgetter("requested"), attrgetter("rolling")):
        wishes = {name: wish_of(share).get(resource, 0) for name, share in shares.items()}
        needs = {name: max(0, wish - granted[name]) for name, wish in wishes.items()}
        for name in sorted(shares, key=lambda name: (needs[name], name)):
            grant = min(needs[name], free)
            granted[name] += grant
            free -= grant
    each, rest = divmod(free, len(shares))
    current = {name: share.hard.get(resource, 0) for name, share in shares.items()}
    spare = [current[name] - granted[name] for name in shares]
    part = max(1, -(-each // 2))
    serves = min(spare) >= 0 and sum(min(s, part) for s in spare) >= min(free, part * len(shares))
    if sum(current.values()) == amount and serves:
        return current
    return {n: granted[n] + each + (place < rest) for place, n in enumerate(sorted(shares))}


def _held(share: Share, resource: str) -> int:
    """Return what a share may be enforced with now, or by its next status."""
    amounts = (share.hard, share.enforced or {}, share.used)
    return max(each.get(resource, 0) for each in amounts)


def _replicas(workload: Object, _nodes: int) -> tuple[int, int]:
    """Count `spec.replicas`."""
    return _number(_spec(workload).get("replicas"), 1), 0


def _rolling_replicas(workload: Object, nodes: int) -> tuple[int, int]:
    """Count `spec.replicas`, and `maxSurge` more while it rolls."""
    replicas, _ = _replicas(workload, nodes)
    return replicas, _surge(_spec(workload), replicas)


def _one_for_each_node(_workload: Object, nodes: int) -> tuple[int, int]:
    """Count one for each node of the virtual cluster."""
    return nodes, 0


def _parallelism(workload: Object, _nodes: int) -> tuple[int, int]:
    """Count `spec.parallelism` until it is complete; zero while it is suspended."""
    is_complete = dig(workload, "status", "completionTime") is not None
    if is_complete or _spec(workload).get("suspend"):
        return 0, 0
    return _number(_spec(workload).get("parallelism"), 1), 0


PodCount = Callable[[Object, int], tuple[int, int]]
"""(workload, nodes) -> its number of pods, and the additional ones during a rollout."""

POD_COUNTS: Mapping[GroupKind, PodCount] = {
    vocabulary.DEPLOYMENT: _rolling_replicas,
    vocabulary.STATEFUL_SET: _replicas,
    vocabulary.DAEMON_SET: _one_for_each_node,
    vocabulary.REPLICA_SET: _replicas,
    GroupKind("", "ReplicationController"): _replicas,
    vocabulary.JOB: _parallelism,
}
"""Kinds that declare their number of pods; all are served in version v1."""


def _pod_count(workload: Object, nodes: int) -> tuple[int, int]:
    count = POD_COUNTS.get(gvk_of(workload).group_kind)
    return count(workload, nodes) if count else (0, 0)


def _spec(workload: Object) -> Object:
    return workload.get("spec") or {}


def _surge(spec: Object, replicas: int) -> int:
    """Return the additional pods of a Deployment during a rollout; percentages are rounded up."""
    if not replicas or dig(spec, "strategy", "type") == "Recreate":
        return 0
    surge = dig(spec, "strategy", "rollingUpdate", "maxSurge")
    surge = _SURGE if surge is None else surge
    if isinstance(surge, str) and surge.endswith("%") and surge[:-1].isdigit():
        return -(-replicas * int(surge[:-1]) // 100)
    return _number(surge, 0)


def _number(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _pod_amounts(spec: Object, field: str, limits: tuple[Object, ...]) -> dict[str, int]:
    """Return requests or limits of one pod, as the scheduler and the quota count them."""
    default = _container_default(field, limits)
    total: dict[str, int] = {}
    for container in spec.get("containers") or []:
        for name, amount in {**default, **_stated(container, field)}.items():
            total[name] = total.get(name, 0) + amount
    for container in spec.get("initContainers") or []:
        for name, amount in {**default, **_stated(container, field)}.items():
            total[name] = max(total.get(name, 0), amount)
    for name, amount in amounts_of(spec.get("overhead")).items():
        if field == "requests" or name in total:  # no limit stays no limit
            total[name] = total.get(name, 0) + amount
    return total


def _stated(container: Object, field: str) -> dict[str, int]:
    resources = container.get("resources") or {}
    # The server uses a limit as the request if none is set.
    stated = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return amounts_of(stated if field == "requests" else resources.get("limits"))


def _container_default(field: str, limits: tuple[Object, ...]) -> dict[str, int]:
    default: dict[str, int] = {}
    keys = (
        ("min", "max", "default", "defaultRequest") if field == "requests" else ("max", "default")
    )
    for limit in limits:
        if limit.get("type") == "Container":
            for key in keys:
                default |= amounts_of(limit.get(key))
    return default


def _is_cpu(name: str) -> bool:
    return name.rpartition(".")[2] == "cpu"


def _amount(name: str, raw: quantity.Raw) -> int:
    return quantity.milli_units(raw) if _is_cpu(name) else quantity.whole_units(raw)


def _quantity(name: str, amount: int) -> quantity.Quantity:
    if _is_cpu(name):
        return quantity.of_milli(amount)
    is_memory = name.rpartition(".")[2] in ("memory", "ephemeral-storage", "storage")
    return quantity.of_whole(amount, "BinarySI" if is_memory else "DecimalSI")
