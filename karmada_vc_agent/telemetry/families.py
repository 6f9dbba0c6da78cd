"""The families of metrics of core, in tables by what they are of; docs/metrics.md shows them.

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
    """A family that is filled where things happen: a counter, or a histogram of seconds.

    help: sentences, also of docs/metrics.md.
    """

    name: str
    help: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()


class Gauge(NamedTuple):
    """A family whose values are computed at each scrape; help: as of Family."""

    help: str
    labels: tuple[str, ...] = ()
    is_counter: bool = False


class Families(NamedTuple):
    """Families by name, or by the key of what fills them."""

    gauges: Mapping[str, Gauge] = {}
    counters: Mapping[str, Family] = {}
    timers: Mapping[str, Family] = {}


AS_KARMADA = Families(
    # from the status last computed (cluster/rules/cluster_objects.py)
    gauges={
        "cluster_ready_state": Gauge(
            "1 if the last computed status is Ready; with `readyWhenUnreachable: false` also 0 "
            "while no node is.",
            (CLUSTER,),
        ),
        "cluster_node_number": Gauge("Number of nodes.", (CLUSTER,)),
        "cluster_ready_node_number": Gauge("Number of ready nodes.", (CLUSTER,)),
        "cluster_memory_allocatable_bytes": Gauge("Allocatable memory, bytes.", (CLUSTER,)),
        "cluster_cpu_allocatable_number": Gauge("Allocatable CPU, cores.", (CLUSTER,)),
        "cluster_pod_allocatable_number": Gauge("Allocatable pods.", (CLUSTER,)),
        "cluster_memory_allocated_bytes": Gauge(
            "Requested memory of pods on the nodes, bytes.", (CLUSTER,)
        ),
        "cluster_cpu_allocated_number": Gauge(
            "Requested CPU of pods on the nodes, cores.", (CLUSTER,)
        ),
        "cluster_pod_allocated_number": Gauge("Number of pods on the nodes.", (CLUSTER,)),
    },
    counters={
        "pool_get": Family(
            "pool_get_operation_total",
            "Interpreters taken for scripts; from `pool` or `new`.",
            ("name", "from"),
        ),
        "pool_put": Family(
            "pool_put_operation_total",
            "Interpreters returned; to `pool` or `destroyed`.",
            ("name", "to"),
        ),
    },
    timers={
        "cluster_sync": Family(
            "cluster_sync_status_duration_seconds",
            "Duration of computing a status and, if changed, writing it.",
            (CLUSTER,),
            _SYNC_BUCKETS,
        ),
        "workload_sync": Family(
            "work_sync_workload_duration_seconds",
            "Duration of syncing one Work; `success` or `error`.",
            ("result",),
            _WORKLOAD_BUCKETS,
        ),
    },
)
AS_FRAMEWORKS = Families(
    gauges={
        "controller_runtime_active_workers": Gauge("Number of workers in use.", ("controller",)),
        "controller_runtime_max_concurrent_reconciles": Gauge(
            "Number of workers.", ("controller",)
        ),
        "workqueue_depth": Gauge(
            "Number of keys waiting; `priority` is always `0`.", (*_QUEUE, "priority")
        ),
        "workqueue_unfinished_work_seconds": Gauge(
            "Processing time of all keys in progress, summed up.", _QUEUE
        ),
        "workqueue_longest_running_processor_seconds": Gauge(
            "Processing time of the oldest key in progress.", _QUEUE
        ),
        "leader_election_master_status": Gauge(
            "1 = leader, 0 = standby; `name` is the leader Lease. Absent without leader election.",
            ("name",),
        ),
    },
    counters={
        "reconciles": Family(
            "controller_runtime_reconcile_total",
            "Number of reconciles; `success`, `requeue_after`, `error`.",
            ("controller", "result"),
        ),
        "reconcile_errors": Family(
            "controller_runtime_reconcile_errors_total",
            "Number of failed reconciles.",
            ("controller",),
        ),
        "reconcile_panics": Family(
            "controller_runtime_reconcile_panics_total",
            "Number of reconciles that failed by a bug.",
            ("controller",),
        ),
        "queue_adds": Family("workqueue_adds_total", "Number of keys added.", _QUEUE),
        "queue_retries": Family("workqueue_retries_total", "Number of retries of keys.", _QUEUE),
        "requests": Family(
            "rest_client_requests_total",
            "Number of requests; code `<error>` without a response.",
            ("code", "method", "host"),
        ),
    },
    timers={
        "reconcile_time": Family(
            "controller_runtime_reconcile_time_seconds",
            "Duration of one reconcile.",
            ("controller",),
            _RECONCILE_BUCKETS,
        ),
        "queue_time": Family(
            "workqueue_queue_duration_seconds", "How long a key waited.", _QUEUE, _QUEUE_BUCKETS
        ),
        "work_time": Family(
            "workqueue_work_duration_seconds",
            "How long a key was processed.",
            _QUEUE,
            _QUEUE_BUCKETS,
        ),
        "request_time": Family(
            "rest_client_request_duration_seconds",
            "Time until the response; for a watch, until it starts.",
            ("verb", "host"),
            _REQUEST_BUCKETS,
        ),
    },
)
OF_CLUSTERS = Families(
    gauges={
        "virtual_cluster_works": Gauge(
            "Number of Works: `applied`, `failed`, `pending`, `waiting` (for a window), "
            "`suspended` or `deleting`.",
            (CLUSTER, "state"),
        ),
        "virtual_cluster_refused_manifests": Gauge(
            "Number of manifests that are currently refused.", (CLUSTER, "code")
        ),
        "virtual_cluster_condition_abnormal": Gauge(
            "1 while a condition of its Cluster is not normal; absent otherwise.",
            (CLUSTER, "condition"),
        ),
        "virtual_cluster_bounds_met": Gauge(
            "1 while it has more than a bound of `bounds` allows; `hostBytes`: of objects on the "
            "host, which are read again each time they are needed.",
            (CLUSTER, "bound"),
        ),
        "virtual_cluster_loop_seconds_total": Gauge(
            "Seconds that the agent computed for it; above `bounds.loopMilliseconds` a second it "
            "waits for others.",
            (CLUSTER,),
            is_counter=True,
        ),
        "virtual_cluster_nodes": Gauge("Number of its nodes.", (CLUSTER,)),
        "virtual_cluster_node_overlaps": Gauge(
            "Number of its nodes that another virtual cluster also selects.", (CLUSTER,)
        ),
        "virtual_cluster_host_objects": Gauge(
            "Number of its host objects, of the watched kinds.", (CLUSTER,)
        ),
        "virtual_cluster_queue_depth": Gauge(
            "Number of its keys waiting.", (CLUSTER, "controller")
        ),
        "virtual_cluster_queue_oldest_seconds": Gauge(
            "How long the oldest of its keys has waited.", (CLUSTER, "controller")
        ),
        "virtual_cluster_last_contact_timestamp_seconds": Gauge(
            "`hub`: when its Lease was last renewed; `host`: when the host was last seen healthy; "
            "in Unix time.",
            (CLUSTER, "server"),
        ),
        "virtual_cluster_reports_accepted": Gauge(
            "0 while the hub has not accepted its Lease or its status for a Lease duration.",
            (CLUSTER,),
        ),
        "virtual_cluster_missing_rights": Gauge(
            "Number of rights that hub or host refused the agent for it, for 30 s and longer; "
            "condition `RightsGranted` of the Cluster names one.",
            (CLUSTER,),
        ),
        "virtual_cluster_lease_ahead_seconds": Gauge(
            "How far its Lease was ahead of this machine's clock at takeover; above a few seconds, "
            "check time synchronisation.",
            (CLUSTER,),
        ),
        "virtual_cluster_endpoint_up": Gauge(
            "Whether its endpoint answered when it was last tried, by the way that the hub takes.",
            (CLUSTER,),
        ),
        "orphaned_objects": Gauge("Number of its host objects without a Work.", (CLUSTER,)),
    },
)
OF_AGENT = Families(
    gauges={
        "found_not_served": Gauge(
            "Number of NodeGroups (`nodeGroups`) or values of the node label (`discover`) that are "
            "not served; absent without any. `/readyz?verbose` says why.",
            ("source",),
        ),
        "settings_reload_successful": Gauge(
            "1 if the settings in use are those of the file, 0 if the file is invalid."
        ),
        "api_server_reachable": Gauge(
            "1 if the last request to `hub` or `host` got a response.", ("server",)
        ),
        "api_server_went_back_total": Gauge(
            "How often it went back in time, for example by a restore from a backup.",
            ("server",),
            is_counter=True,
        ),
        "hub_certificate_expiration_timestamp_seconds": Gauge(
            "When the client certificate for the hub expires, in Unix time; absent where the agent "
            "has none."
        ),
        "unreadable_objects": Gauge(
            "Number of watched objects that cannot be read, or only in part; `/readyz?verbose` "
            "names them.",
            ("server", "resource"),
        ),
        "events_dropped_total": Gauge(
            "Number of events dropped: too many, or rejected.", is_counter=True
        ),
        "karmada_vc_agent_build_info": Gauge(
            "Always 1.", ("version", "python_version", "platform")
        ),
    },
    counters={
        "watch_lists": Family(
            "watch_lists_total",
            "Number of full lists; each after the first is a relist. `resource` is `other` after "
            "the first 300.",
            ("server", "resource"),
        ),
        "watch_starts": Family(
            "watch_starts_total",
            "Number of watches opened; each after the first is a restart.",
            ("server", "resource"),
        ),
        "faults": Family(
            "object_faults_total",
            "Number of bugs met at a watched object; `part`: `watch`, `index`, `handler`.",
            ("server", "resource", "part"),
        ),
        "restarts": Family(
            "part_restarts_total", "Number of restarts of failed parts of the agent.", ("part",)
        ),
    },
)
OF_CORE = (AS_KARMADA, AS_FRAMEWORKS, OF_CLUSTERS, OF_AGENT)
NO_FAMILIES = Families()
