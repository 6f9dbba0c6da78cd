"""Divide one quota over many namespaces so that the sum never exceeds it (ADR 14).

Kubernetes counts per namespace. So each namespace has a ResourceQuota, and these shares never add
up to more than the whole; unused shares move to where they are needed. Amounts are whole numbers:
milli-cores for CPU, units for everything else.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from karmada_vc_agent.model import quantity, vocabulary
from karmada_vc_agent.model.objects import Object, dig, gvk_of

Amounts = Mapping[str, int]

_PODS = ("pods", "count/pods")
_PLAIN_REQUESTS = ("cpu", "memory", "ephemeral-storage")


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
    """Why a division waits. reason: in CamelCase. problem: text that the namespaces complete."""

    reason: str
    problem: str
    namespaces: tuple[str, ...] = ()

    def overlaps(self, other: "Pending") -> bool:
        """Return whether both wait for the same reason, in one namespace at least."""
        shared = set(self.namespaces) & set(other.namespaces)
        return self.reason == other.reason and (bool(shared) or self == other)


def amounts_of(quantities: Mapping[str, quantity.Raw] | None) -> dict[str, int]:
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
    if not shares:
        return {}
    parts = {resource: _divide_one(resource, total[resource], shares) for resource in total}
    return {name: {resource: part[name] for resource, part in parts.items()} for name in shares}


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
        held = {name: _held(share, resource) for name, share in shares.items()}
        free = max(0, amount - sum(held.values()))
        is_counted = all(resource in (share.enforced or {}) for share in shares.values())
        for name in sorted(shares):
            target = targets[name][resource]
            new = min(shares[name].hard.get(resource, 0), target)
            if may_raise and is_counted:
                new = max(new, min(target, held[name] + free))
                free -= max(0, new - held[name])
            result[name][resource] = new
    return result


def is_enforced(total: Amounts, share: Share, target: Amounts) -> bool:
    """Return whether the host enforces the target of a namespace."""
    return all((share.enforced or {}).get(resource) == target[resource] for resource in total)


def pending(
    total: Amounts,
    shares: Mapping[str, Share],
    targets: Mapping[str, Amounts],
    written: Mapping[str, Amounts],
    missing: Collection[str],
) -> Pending | None:
    """Return what targets lack, or None. written: spec of quotas. missing: without a quota."""
    if missing:
        return Pending("NamespaceWithoutQuota", "there is no quota yet in", tuple(sorted(missing)))
    uncounted = [n for n, share in shares.items() if total.keys() - (share.enforced or {}).keys()]
    if uncounted:
        text = "the host has not computed the usage of"
        return Pending("NotCounted", text, tuple(sorted(uncounted)))
    if all(written[name] == targets[name] for name in shares):
        return None
    holding = [n for n, s in shares.items() if any(_held(s, r) > written[n][r] for r in total)]
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
    requests, limited = (_pod_amounts(spec, field, limits) for field in ("requests", "limits"))
    one = dict.fromkeys(_PODS, 1)
    one |= {name: requests[name] for name in _PLAIN_REQUESTS if name in requests}
    one |= {f"requests.{name}": amount for name, amount in requests.items()}
    one |= {f"limits.{name}": amount for name, amount in limited.items()}
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


def _pod_count(workload: Object, nodes: int) -> tuple[int, int]:
    kind, spec = gvk_of(workload).group_kind, workload.get("spec") or {}
    if kind not in vocabulary.WITH_PODS:
        return 0, 0
    if kind == vocabulary.DAEMON_SET:
        return nodes, 0
    if kind == vocabulary.JOB:
        is_over = dig(workload, "status", "completionTime") is not None or spec.get("suspend")
        return 0 if is_over else _number(spec.get("parallelism"), 1), 0
    replicas = _number(spec.get("replicas"), 1)
    return replicas, _surge(spec, replicas) if kind == vocabulary.DEPLOYMENT else 0


def _surge(spec: Object, replicas: int) -> int:
    """Return the additional pods of a Deployment during a rollout; percentages are rounded up."""
    if not replicas or dig(spec, "strategy", "type") == "Recreate":
        return 0
    surge = dig(spec, "strategy", "rollingUpdate", "maxSurge")
    surge = "25%" if surge is None else surge
    if isinstance(surge, str) and surge.endswith("%") and surge[:-1].isdigit():
        return -(-replicas * int(surge[:-1]) // 100)
    return _number(surge, 0)


def _number(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _pod_amounts(spec: Object, field: str, limits: tuple[Object, ...]) -> Counter[str]:
    """Return requests or limits of one pod, as the scheduler and the quota count them."""
    default = _container_default(field, limits)
    total: Counter[str] = Counter()
    for container in spec.get("containers") or []:
        total.update({**default, **_stated(container, field)})
    for container in spec.get("initContainers") or []:
        total |= Counter({**default, **_stated(container, field)})
    for name, amount in amounts_of(spec.get("overhead")).items():
        if field == "requests" or name in total:  # no limit stays no limit
            total[name] += amount
    return total


def _stated(container: Object, field: str) -> dict[str, int]:
    resources = container.get("resources") or {}
    # The server uses a limit as the request if none is set.
    stated = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return amounts_of(stated if field == "requests" else resources.get("limits"))


def _container_default(field: str, limits: tuple[Object, ...]) -> dict[str, int]:
    of_requests = ("min", "max", "default", "defaultRequest")
    default: dict[str, int] = {}
    for limit in limits:
        for key in of_requests if field == "requests" else ("max", "default"):
            if limit.get("type") == "Container":
                default |= amounts_of(limit.get(key))
    return default


def _amount(name: str, raw: quantity.Raw) -> int:
    is_cpu = name.rpartition(".")[2] == "cpu"
    return quantity.milli_units(raw) if is_cpu else quantity.whole_units(raw)


def _quantity(name: str, amount: int) -> quantity.Quantity:
    resource = name.rpartition(".")[2]
    if resource == "cpu":
        return quantity.of_milli(amount)
    is_memory = resource in ("memory", "ephemeral-storage", "storage")
    return quantity.of_whole(amount, "BinarySI" if is_memory else "DecimalSI")
