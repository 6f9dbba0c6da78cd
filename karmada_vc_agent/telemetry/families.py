"""The families of metrics of core, in tables; docs/metrics.md describes each.

Labels hold virtual clusters, controllers, kinds and codes, never Works. Names, labels and buckets
of Karmada: contract 9.6. Those of controllers, queues and clients: controller-runtime and
client-go, as a real karmada-agent shows them.
"""

from collections.abc import Mapping
from typing import NamedTuple

CLUSTER = "member_cluster"
_QUEUE = ("name", "controller")
_SYNC_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_WORKLOAD_BUCKETS = tuple(0.001 * 2**k for k in range(12))
_QUEUE_BUCKETS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1000)
_RECONCILE_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8),
    *(0.9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40),
    *(50, 60),
)
_REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)


class Family(NamedTuple):
    """A family that is filled where things happen: a counter, or a histogram of seconds."""

    name: str
    help: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()


class Gauge(NamedTuple):
    """A family whose values are computed at each scrape."""

    help: str
    labels: tuple[str, ...] = ()
    is_counter: bool = False


class Families(NamedTuple):
    """Families by name, or by the key of what fills them."""

    gauges: Mapping[str, Gauge] = {}
    counters: Mapping[str, Family] = {}
    timers: Mapping[str, Family] = {}


GAUGES: dict[str, Gauge] = {
    # Karmada's, from the status last computed (cluster/rules/cluster_objects.py)
    "cluster_ready_state": Gauge("State of the cluster (1 if ready, 0 otherwise).", (CLUSTER,)),
    "cluster_node_number": Gauge("Number of nodes in the cluster.", (CLUSTER,)),
    "cluster_ready_node_number": Gauge("Number of ready nodes in the cluster.", (CLUSTER,)),
    "cluster_memory_allocatable_bytes": Gauge("Allocatable memory, bytes.", (CLUSTER,)),
    "cluster_cpu_allocatable_number": Gauge("Allocatable CPU, cores.", (CLUSTER,)),
    "cluster_pod_allocatable_number": Gauge("Allocatable pods.", (CLUSTER,)),
    "cluster_memory_allocated_bytes": Gauge("Allocated memory, bytes.", (CLUSTER,)),
    "cluster_cpu_allocated_number": Gauge("Allocated CPU, cores.", (CLUSTER,)),
    "cluster_pod_allocated_number": Gauge("Allocated pods.", (CLUSTER,)),
    # the frameworks'
    "controller_runtime_active_workers": Gauge(
        "Currently used workers of a controller.", ("controller",)
    ),
    "controller_runtime_max_concurrent_reconciles": Gauge(
        "Number of workers of a controller.", ("controller",)
    ),
    "workqueue_depth": Gauge("Number of keys waiting in a queue.", (*_QUEUE, "priority")),
    "workqueue_unfinished_work_seconds": Gauge(
        "Seconds that the keys in progress have been processed, summed up.", _QUEUE
    ),
    "workqueue_longest_running_processor_seconds": Gauge(
        "Seconds that the oldest key in progress has been processed.", _QUEUE
    ),
    "leader_election_master_status": Gauge(
        "Whether this process is the leader (1) or a standby (0); name is the leader Lease.",
        ("name",),
    ),
    # for each virtual cluster
    "virtual_cluster_works": Gauge("Number of Works by state.", (CLUSTER, "state")),
    "virtual_cluster_refused_manifests": Gauge(
        "Number of manifests that are currently refused, by code.", (CLUSTER, "code")
    ),
    "virtual_cluster_condition_abnormal": Gauge(
        "Whether a condition of its Cluster is not normal (1), by condition.",
        (CLUSTER, "condition"),
    ),
    "virtual_cluster_bounds_met": Gauge(
        "Whether it has more than a bound allows (1), by bound.", (CLUSTER, "bound")
    ),
    "virtual_cluster_loop_seconds_total": Gauge(
        "Seconds that the agent computed for it; beyond its bound it waits for others.",
        (CLUSTER,),
        is_counter=True,
    ),
    "virtual_cluster_nodes": Gauge("Number of nodes of the virtual cluster.", (CLUSTER,)),
    "virtual_cluster_node_overlaps": Gauge(
        "Number of its nodes that another virtual cluster also selects.", (CLUSTER,)
    ),
    "virtual_cluster_host_objects": Gauge(
        "Number of its host objects, of the watched kinds.", (CLUSTER,)
    ),
    "virtual_cluster_queue_depth": Gauge(
        "Number of its keys waiting in a queue.", (CLUSTER, "controller")
    ),
    "virtual_cluster_queue_oldest_seconds": Gauge(
        "Seconds that its oldest key has been waiting.", (CLUSTER, "controller")
    ),
    "virtual_cluster_last_contact_timestamp_seconds": Gauge(
        "When its Lease was last renewed (hub), and its host last seen healthy (host), in "
        "Unix time.",
        (CLUSTER, "server"),
    ),
    "virtual_cluster_reports_accepted": Gauge(
        "Whether the hub accepted its Lease and status within the last Lease duration (1) or "
        "not (0).",
        (CLUSTER,),
    ),
    "virtual_cluster_missing_rights": Gauge(
        "Number of rights that hub or host refused the agent for it lately, for 30 s and longer.",
        (CLUSTER,),
    ),
    "virtual_cluster_lease_ahead_seconds": Gauge(
        "Seconds that its Lease was ahead of this machine's clock when the agent took it over.",
        (CLUSTER,),
    ),
    "virtual_cluster_endpoint_up": Gauge(
        "Whether its endpoint answered when it was last tried (1) or not (0).", (CLUSTER,)
    ),
    "orphaned_objects": Gauge("Number of its host objects whose Work is missing.", (CLUSTER,)),
    # for the agent
    "found_not_served": Gauge(
        "Number of NodeGroups, or of values of the node label, that are not served.", ("source",)
    ),
    "settings_reload_successful": Gauge(
        "Whether the settings in use are those of the file, as it is now."
    ),
    "api_server_reachable": Gauge(
        "Whether the API server of hub or host answers (1) or not (0).", ("server",)
    ),
    "api_server_went_back_total": Gauge(
        "Number of times the API server went back in time, for example by a restore from a backup.",
        ("server",),
        is_counter=True,
    ),
    "hub_certificate_expiration_timestamp_seconds": Gauge(
        "When the client certificate for the hub expires, in Unix time; absent without one."
    ),
    "unreadable_objects": Gauge(
        "Number of watched objects that cannot be read, or only in part.", ("server", "resource")
    ),
    "events_dropped_total": Gauge("Number of events that were dropped.", is_counter=True),
    "karmada_vc_agent_build_info": Gauge(
        "Always 1; the labels hold the version.", ("version", "python_version", "platform")
    ),
}
COUNTERS: dict[str, Family] = {
    # Karmada's
    "pool_get": Family("pool_get_operation_total", "Interpreters taken.", ("name", "from")),
    "pool_put": Family("pool_put_operation_total", "Interpreters given back.", ("name", "to")),
    # the frameworks'
    "reconciles": Family(
        "controller_runtime_reconcile_total",
        "Number of reconciles by result.",
        ("controller", "result"),
    ),
    "reconcile_errors": Family(
        "controller_runtime_reconcile_errors_total", "Number of failed reconciles.", ("controller",)
    ),
    "reconcile_panics": Family(
        "controller_runtime_reconcile_panics_total",
        "Number of reconciles that failed by a bug.",
        ("controller",),
    ),
    "queue_adds": Family("workqueue_adds_total", "Number of keys added to a queue.", _QUEUE),
    "queue_retries": Family("workqueue_retries_total", "Number of retries of keys.", _QUEUE),
    "requests": Family(
        "rest_client_requests_total", "Number of HTTP requests.", ("code", "method", "host")
    ),
    # for the agent
    "watch_lists": Family("watch_lists_total", "Number of full lists.", ("server", "resource")),
    "watch_starts": Family(
        "watch_starts_total", "Number of watches opened.", ("server", "resource")
    ),
    "faults": Family(
        "object_faults_total",
        "Number of bugs met while handling a watched object.",
        ("server", "resource", "part"),
    ),
    "restarts": Family(
        "part_restarts_total", "Number of restarts of failed parts of the agent.", ("part",)
    ),
}
TIMERS: dict[str, Family] = {
    # Karmada's
    "cluster_sync": Family(
        "cluster_sync_status_duration_seconds",
        "Duration in seconds for syncing the status of the cluster once.",
        (CLUSTER,),
        _SYNC_BUCKETS,
    ),
    "workload_sync": Family(
        "work_sync_workload_duration_seconds",
        "Duration in seconds to sync the workload to a target cluster.",
        ("result",),
        _WORKLOAD_BUCKETS,
    ),
    # the frameworks'
    "reconcile_time": Family(
        "controller_runtime_reconcile_time_seconds",
        "Duration of a reconcile in seconds.",
        ("controller",),
        _RECONCILE_BUCKETS,
    ),
    "queue_time": Family(
        "workqueue_queue_duration_seconds",
        "Seconds that a key waited for a worker.",
        _QUEUE,
        _QUEUE_BUCKETS,
    ),
    "work_time": Family(
        "workqueue_work_duration_seconds",
        "Seconds that a key was processed.",
        _QUEUE,
        _QUEUE_BUCKETS,
    ),
    "request_time": Family(
        "rest_client_request_duration_seconds",
        "Seconds until the response; for a watch, until it started.",
        ("verb", "host"),
        _REQUEST_BUCKETS,
    ),
}
OF_CORE = Families(GAUGES, COUNTERS, TIMERS)
NO_FAMILIES = Families()
