"""Every difference from Karmada's own agent that is meant, with its reason.

Anything else that differs fails its case, and so does an entry here that no longer occurs.
"""

from e2e.differential.compare import Allowed

_ADR = "docs/adr/0006-differences-from-karmadas-agent.md"

_TENANCY = "docs/adr/0023-two-profiles.md"
_HOSTLESS = (
    ("ingress-*", "*"),
    ("suspended-status-reported", "*"),
)

_REFUSED = ("events.*", "host.*", "works.*.status.*")
"""Where it shows that a manifest was refused."""

_SHARED_CASES = ("storage-class", "priority-class", "ingress-class", "custom-definition")

_HIDDEN = (
    "admissionregistration.k8s.io/v1.*",
    "apiregistration.k8s.io/v1.apiservices",
    "authentication.k8s.io/v1.*",
    "authorization.k8s.io/v1.*",
    "certificates.k8s.io/v1.certificatesigningrequests",
    "events.k8s.io/v1.events",
    "flowcontrol.apiserver.k8s.io/v1.*",
    "storage.k8s.io/v1.csidrivers",
    "storage.k8s.io/v1.csinodes",
    "storage.k8s.io/v1.csistoragecapacities",
    "storage.k8s.io/v1.volumeattachments",
    "v1.bindings",
    "v1.componentstatuses",
    "v1.events",
    "v1.nodes",
)
_HIDDEN_ON_SOME_HOSTS = (
    "certificates.k8s.io/v1.clustertrustbundles",
    "certificates.k8s.io/v1.podcertificaterequests",
    "flowcontrol.apiserver.k8s.io/v1beta3.*",
    "networking.k8s.io/v1.ipaddresses",
    "networking.k8s.io/v1.servicecidrs",
    "resource.k8s.io/v1.deviceclasses",
    "resource.k8s.io/v1.devicetaintrules",
    "resource.k8s.io/v1.resourceslices",
    "storage.k8s.io/v1.volumeattributesclasses",
    "storagemigration.k8s.io/v1.storageversionmigrations",
)
"""Hosts of 1.33, 1.34 and 1.37 were the first to serve them, or those of 1.31 the last."""

ALLOWED: tuple[Allowed, ...] = (
    # --- what a shared host demands -----------------------------------------------------
    *(
        Allowed(
            case,
            f"host.*.metadata.{where}",
            "an object that virtual clusters share names no single Work",
            "rewriting-rules 2, 5.1",
        )
        for case in _SHARED_CASES
        for where in (
            "annotations.resourcetemplate.karmada.io/generation",
            "annotations.resourcetemplate.karmada.io/uid",
            "annotations.work.karmada.io/*",
            "labels.work.karmada.io/permanent-id",
        )
    ),
    Allowed(
        "cluster-role-binding",
        "host.ClusterRoleBinding/*",
        "it grants in the namespaces of the virtual cluster only, by a RoleBinding in each",
        "rewriting-rules 5.2",
    ),
    Allowed(
        "volume",
        "host.PersistentVolume/*.spec.nodeAffinity",
        "a volume on a node is tied to the nodes of the virtual cluster",
        "rewriting-rules 3.4",
    ),
    *(
        Allowed(
            "unclaimed-volume",
            path,
            "a volume that names no claim may be bound by a claim of another virtual cluster",
            _TENANCY,
        )
        for path in _REFUSED
    ),
    *(
        Allowed(
            case,
            f"events.execution-controller HostShared Work/{work}",
            "an Ingress for every host takes those of other virtual clusters too",
            _TENANCY,
        )
        for case, work in _HOSTLESS
    ),
    Allowed(
        "storage-class",
        "events.execution-controller ImmediateBinding Work/storage-class",
        "volumes that are made before a pod wants them may be out of reach of the nodes",
        "rewriting-rules 3.4",
    ),
    Allowed(
        "cluster-conditions",
        "cluster.status.conditions.PlacementEnforced",
        "a condition of ours says what keeps pods on the nodes of the virtual cluster",
        "rewriting-rules 3.5",
    ),
    Allowed(
        "cluster-conditions",
        "cluster.status.conditions.RightsConfined",
        "a condition of ours says whether policies hold the agent and tenants",
        "rewriting-rules 3.5",
    ),
    Allowed(
        "cluster-rest",
        "cluster.metadata.annotations",
        "an annotation of ours names the agent that serves a Cluster",
        "rewriting-rules 1.2",
    ),
    Allowed(
        "cluster-rest",
        "cluster.metadata.labels",
        "a label of ours names the host, which virtual clusters share",
        "ADR 38",
    ),
    Allowed(
        "cluster-conditions",
        "cluster.status.conditions.NodesReachable",
        "a condition of ours says whether a node of the virtual cluster is Ready",
        "contract trap 12",
    ),
    Allowed(
        "cluster-conditions",
        "cluster.status.conditions.ObjectsOrphaned",
        "a condition of ours stays once a case before left objects without their Work",
        "ADR 60",
        sometimes=True,
    ),
    Allowed(
        "cluster-conditions",
        "cluster.status.conditions.GroupTrusted",
        "a condition of ours says whether nodes could write themselves into the group",
        "rewriting-rules 3.1",
    ),
    *(
        Allowed(
            "cluster-version-and-apis",
            f"cluster.status.apiEnablements.{hidden}",
            "what would be refused is not announced, so that Karmada does not send it",
            "rewriting-rules 5.1, 5.3; contract 4.4",
            sometimes=hidden in _HIDDEN_ON_SOME_HOSTS,
        )
        for hidden in (*_HIDDEN, *_HIDDEN_ON_SOME_HOSTS)
    ),
    Allowed(
        "role-binding-to-user",
        "host.RoleBinding/*.subjects.0.name",
        "a user of one virtual cluster is none of the host's",
        "rewriting-rules 5.2",
    ),
    *(
        Allowed(
            "namespace-forbidden",
            path,
            "kube-system is the host's own, for all virtual clusters",
            "rewriting-rules 1.3",
        )
        for path in _REFUSED
    ),
    *(
        Allowed(
            "namespace-missing",
            path,
            "Works come in no order, so a manifest claims the namespace that it needs",
            "rewriting-rules 1.3",
        )
        for path in _REFUSED
    ),
    *(
        Allowed(
            "namespace-foreign",
            path,
            "an unclaimed namespace is refused in words of its own",
            "rewriting-rules 1.2, 7",
        )
        for path in ("events.*", "works.*.status.conditions.*.message")
    ),
    *(
        Allowed(
            "manifest-to-be-named-by-the-host",
            path,
            "each attempt would make one more object that nobody finds again",
            f"{_ADR}; rewriting-rules 7",
        )
        for path in ("events.*", "works.*.status.conditions.*")
    ),
    Allowed(
        "service-*",
        "events.execution-controller NodePortReassigned Work/*",
        "the node port that the hub chose may belong to a Service of the other stories on our host",
        "rewriting-rules 4.3; e2e/differential/play.py: hosts are those of all stories",
        sometimes=True,
    ),
    Allowed(
        "*",
        "events.execution-controller SyncFailed Work/*",
        "warnings of one reason that Works repeat beyond a burst are folded into one a second",
        "docs/adr/0021-workers-causes-bounds.md",
        sometimes=True,
    ),
    Allowed(
        "recreation-fails",
        "events.* SyncFailed *",
        "the host counts what is gone out of a quota a moment later: the first refusal of either "
        "agent may name the old count, which is one event more",
        "contract 5.6",
        sometimes=True,
    ),
    *(
        Allowed(
            case,
            "*.status.conditions.0.message",
            "the scheduler counts the nodes of its host; those of kind have not as many",
            "hack/kind-e2e",
            sometimes=True,
        )
        for case in ("pod-deleted-on-host", "pod-failed", "pod-pending", "pod-succeeded")
    ),
    Allowed(
        "pod-deleted-on-host",
        "*.status.conditions",
        "karmada-agent may miss what the scheduler writes while it records that the Pod is new; "
        "nothing reports that Pod to it again",
        "contract 6.1",
        sometimes=True,
        lacking=True,
    ),
    Allowed(
        "federated-quota",
        "works.*.status.manifestStatuses.*.status.used.*",
        "the quota counts what the other cases make and delete beside it on its own host",
        "e2e/differential/play.py: all cases are run at once",
        sometimes=True,
    ),
    # --- what we do better on purpose -----------------------------------------------------
    *(
        Allowed(
            "work-with-one-manifest-twice",
            path,
            "the last one holds; karmada-agent may meet its own first one, or put it back later",
            "contract 5.4, 5.6",
            sometimes=True,
        )
        for path in ("host.ConfigMap/*.data.key", "events.* SyncFailed *")
    ),
    Allowed(
        "deployment-scaled",
        "*eneration",
        "Karmada may write the Work before its scheduler has assigned the new replicas, and again "
        "after it; karmada-agent may meet the last one only",
        "contract 5.3",
        sometimes=True,
    ),
    Allowed(
        "job-out-of-time",
        "templates.Job/*.status.*",
        "the hub freezes the counts of a finished Job as they were when its condition came",
        "contract 6.3",
        sometimes=True,
    ),
    *(
        Allowed(
            case,
            "works.*.status.manifestStatuses*",
            "all manifests are reported, where Karmada keeps the one it looked at last",
            f"{_ADR}; contract 6.1",
            sometimes=True,
        )
        for case in ("work-of-three", "work-of-deployment-and-service", "work-loses-a-manifest")
    ),
    Allowed(
        "preserved-object-vanished",
        "works.preserved-object-vanished",
        "a preserved object that is gone does not keep its Work for ever",
        f"{_ADR}; contract 5.8",
    ),
    *(
        Allowed(
            "object-of-work-deleted-on-host",
            path,
            "an object is made again whatever the name of its Work",
            f"{_ADR}; contract 5.6",
        )
        for path in ("host.ConfigMap/*", "works.*.status.conditions.*.reason")
    ),
    *(
        Allowed(
            "managed-label-removed-on-host",
            path,
            "a repair that fails is told, where Karmada leaves Applied=True",
            f"{_ADR}; contract 5.6",
        )
        for path in ("events.* SyncFailed *", "works.*.status.conditions.*")
    ),
    *(
        Allowed(
            "mark-of-work-removed-on-host",
            path,
            "who takes our mark off an object does not make us blind to it",
            f"{_ADR}; contract 5.6",
        )
        for path in ("host.*.data.key", "host.*.annotations.work.karmada.io/namespace")
    ),
)
