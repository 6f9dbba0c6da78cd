"""The queues of all controllers: what a key is, whose turn it is, and how it backs off."""

import time
from typing import Any

from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.controllers.endpoint_slices import ServiceKey
from karmada_vc_agent.controllers.escape_detector import PodKey
from karmada_vc_agent.kube.rate_limit import TokenBucket
from karmada_vc_agent.kube.work_queue import WorkQueue
from karmada_vc_agent.views.claims import Claims

LEASE_RETRY_MAX_S = 5.0
STATUS_RETRY_MAX_S = 30.0
FEW_WORKERS = 4
ALL = "all virtual clusters"
"""The only key of a controller that looks at all of them at once."""


class Queues:
    """One queue for each controller; virtual clusters take turns in those they share.

    Where there are several, none has more than half of the workers of these.
    """

    def __init__(self, config: AgentConfig, claims: Claims) -> None:
        base_s = config.rate_limiter_base_delay
        is_shared = len(config.virtual_clusters) > 1
        few = half(FEW_WORKERS) if is_shared else 0
        self.works: WorkQueue[tuple[str, str]] = WorkQueue(
            _first,
            base_s,
            config.rate_limiter_max_delay,
            lambda: TokenBucket(
                config.rate_limiter_qps, config.rate_limiter_bucket_size, time.monotonic
            ),
            at_once=half(config.concurrent_work_syncs) if is_shared else 0,
        )
        """Keys are (virtual cluster, name of the Work)."""
        self.namespaces: WorkQueue[tuple[str, Any]] = WorkQueue(
            _first, base_s, STATUS_RETRY_MAX_S, at_once=few
        )
        """Keys are (virtual cluster, virtual namespace)."""
        self.services: WorkQueue[ServiceKey] = WorkQueue(
            _first, base_s, STATUS_RETRY_MAX_S, at_once=few
        )
        self.escapes: WorkQueue[PodKey] = WorkQueue(
            lambda key: _cluster_of(claims, key), max_delay_s=STATUS_RETRY_MAX_S, at_once=few
        )
        self.registration = _name_queue()
        self.departures = _name_queue()
        self.status = _name_queue(config.cluster_status_update_frequency)
        self.leases = _name_queue(LEASE_RETRY_MAX_S)
        self.taints = _name_queue()
        self.quotas = _name_queue()
        """Keys are names of virtual clusters."""
        self.nodes = _name_queue()
        self.orphans = _name_queue()
        self.admin_role = _name_queue()
        self.service_names = _name_queue()
        self.guard = _name_queue()
        self.certificate = _name_queue()
        """Keys of the last five are constants: each of their controllers has one thing to do."""


def half(workers: int) -> int:
    """Return how many of so many workers one virtual cluster may have."""
    return (workers + 1) // 2


def _name_queue(max_delay_s: float = STATUS_RETRY_MAX_S) -> WorkQueue[str]:
    return WorkQueue(lambda name: name, max_delay_s=max_delay_s)


def _first(key: tuple[Any, ...]) -> str:
    return str(key[0])


def _cluster_of(claims: Claims, pod: PodKey) -> str:
    claim = claims.on(pod[0])
    return claim.cluster if claim is not None else ""
