"""What a branch may try that one organisation wants and tenants fear: an outcome by profile."""

import copy
import uuid
from dataclasses import replace

from e2e.escapes.attempt import (
    Attempt,
    Scene,
    all_alike,
    answer,
    by_work,
    kubelet,
    refused_by_policy,
)
from e2e.escapes.by_work import NAMESPACES, RBAC, pod
from e2e.lab import accounts, objects
from e2e.lab.api import Object, collection, path_of
from e2e.lab.lab import NODES, Lab
from e2e.lab.wait import PERIODIC_S, eventually, within
from e2e.lab.works import execution_namespace


def _container(**more: Object | list[Object]) -> Object:
    return {"name": "app", "image": objects.IMAGE, **more}


STORAGE, NETWORKING = "storage.k8s.io/v1", "networking.k8s.io/v1"
_ENFORCE = "pod-security.kubernetes.io/enforce"
_NGINX, _APISIX = "nginx.ingress.kubernetes.io", "k8s.apisix.apache.org"
_SIGNS = "certificates.k8s.io"
_HELM = "helm.cattle.io"
_OPT_OUTS = (
    *("admission.gatekeeper.sh/ignore", "istio-injection", "control-plane"),
    *("resource.kubernetes.io/admin-access", "resource.k8s.io/admin-access"),
)


def _told(scene: Scene, manifest: Object, reason: str) -> str:
    """Send a manifest; return its refusal, or that it is applied and what its Work is told."""
    before = {work["metadata"]["name"] for work in scene.lab.works(scene.mine)}
    outcome = by_work(scene, manifest)
    if outcome != "applied":
        return outcome
    works = {work["metadata"]["name"] for work in scene.lab.works(scene.mine)}
    events = collection("v1", "Event", execution_namespace(scene.mine.name))

    def look() -> None:
        found = {
            (event["reason"], event["involvedObject"]["name"])
            for event in scene.lab.hub.list(events)
        }
        assert [name for name in works - before if (reason, name) in found], found

    eventually(look)
    return f"applied, reported as `{reason}`"


# --- volumes ----------------------------------------------------------------------------


def _volume(scene: Scene, **spec: object) -> Object:
    claim = {"namespace": scene.namespace, "name": "data"}
    head = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "claimRef": claim}
    name = f"{scene.lab.id}-{uuid.uuid4().hex[:4]}"
    return _object("v1", "PersistentVolume", name) | {"spec": head | spec}


def _recycle(scene: Scene) -> str:
    nfs = {"server": "192.0.2.1", "path": "/"}
    spec = {"persistentVolumeReclaimPolicy": "Recycle", "nfs": nfs}
    return by_work(scene, _volume(scene, **spec))


def _delete_on_the_host(scene: Scene) -> str:
    path = {"path": "/data/tmp/x"}
    return by_work(scene, _volume(scene, persistentVolumeReclaimPolicy="Delete", hostPath=path))


def _trap(scene: Scene) -> str:
    return by_work(scene, _volume(scene, claimRef=None, hostPath={"path": "/data"}))


def _host_path(scene: Scene) -> str:
    return all_alike(
        by_work(scene, _volume(scene, **{source: {"path": "/data"}}))
        for source in ("hostPath", "local")
    )


def _network_volume(scene: Scene) -> str:
    return by_work(scene, _volume(scene, nfs={"server": "192.0.2.1", "path": "/"}))


def _secret_of_another(scene: Scene) -> str:
    foreign = scene.theirs.host_namespace("default")
    key = "csi.storage.k8s.io/node-stage-secret"
    manifest = _object(STORAGE, "StorageClass", f"{scene.lab.id}-secret") | {
        "provisioner": "example.com/none",
        "volumeBindingMode": "WaitForFirstConsumer",
        "parameters": {f"{key}-name": "key", f"{key}-namespace": foreign},
    }
    outcome = by_work(scene, manifest)
    if outcome != "applied":
        return outcome
    try:
        named = eventually(scene.lab.host.get, path_of(manifest))["parameters"][f"{key}-namespace"]
    finally:
        scene.lab.host.delete(path_of(manifest))
    assert named != foreign
    return "a namespace of its own is named"


def _default_class(scene: Scene) -> str:
    storage = _object(STORAGE, "StorageClass", f"{scene.lab.id}-all") | {"provisioner": "x/none"}
    ingress = _object(NETWORKING, "IngressClass", f"{scene.lab.id}-all")
    ingress |= {"spec": {"controller": "x/none"}}
    for manifest, kind in ((storage, "storageclass"), (ingress, "ingressclass")):
        key = f"{kind}.kubernetes.io/is-default-class"
        manifest["metadata"]["annotations"] = {key: "true"}
    return by_work(scene, storage, ingress)


# --- what decides for the host ----------------------------------------------------------


def _namespace(scene: Scene, labels: dict[str, str]) -> Object:
    name = f"{scene.lab.id}-{uuid.uuid4().hex[:4]}"
    manifest = objects.namespace(name)
    manifest["metadata"]["labels"] = labels
    outcome = _told(scene, manifest, "MetadataDropped")
    assert outcome == "applied, reported as `MetadataDropped`", outcome
    path = f"{NAMESPACES}/{scene.mine.host_namespace(name)}"
    found: Object = eventually(scene.lab.host.get, path)["metadata"]["labels"]
    return found


def _privileged(scene: Scene) -> str:
    version = f"{_ENFORCE}-version"
    labels = _namespace(scene, {_ENFORCE: "privileged", version: "v1.22"})
    assert version not in labels
    return f"`{labels[_ENFORCE]}` of the settings stands there"


_OF_THE_NODE: tuple[Object, ...] = (
    {"hostNetwork": True},
    {"hostPID": True},
    {"hostIPC": True},
    {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]},
    {"containers": [_container(securityContext={"privileged": True})]},
    {"containers": [_container(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}})]},
    {"containers": [_container(ports=[{"containerPort": 80, "hostPort": 80}])]},
)
_NOT_BASELINE = 'violates PodSecurity "baseline:'


def _pods(namespace: str) -> list[Object]:
    return [pod(namespace, f"of-{uuid.uuid4().hex[:6]}", **spec) for spec in _OF_THE_NODE]


def _work_of_the_node(scene: Scene) -> str:
    """Have pods on the node of the other branch, which sets no `podSecurity`."""
    other = replace(scene, mine=scene.theirs)
    said = (by_work(other, each) for each in _pods(scene.namespace))
    return all_alike(_by_pod_security(each) for each in said)


def _host_of_the_node(scene: Scene) -> str:
    outcomes = []
    for each in _pods(scene.theirs.host_namespace("default")):
        each["spec"] |= {"nodeSelector": scene.theirs.selector, "schedulerName": "nobody"}
        outcomes.append(_by_pod_security(answer(str, scene.lab.host.create, each)))
        if outcomes[-1] == "done":
            scene.lab.host.delete(path_of(each), force=True)
    return all_alike(outcomes)


def _by_pod_security(said: str) -> str:
    return "refused by Pod Security" if _NOT_BASELINE in said else said


def _opt_out(scene: Scene) -> str:
    labels = _namespace(scene, dict.fromkeys(_OPT_OUTS, "x"))
    return "dropped, reported as `MetadataDropped`" if not set(_OPT_OUTS) & set(labels) else "kept"


def _aggregate(scene: Scene) -> str:
    key = "rbac.authorization.k8s.io/aggregate-to-view"
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    role = accounts.cluster_role(f"{scene.lab.id}-aggregate", rule)
    role["metadata"]["labels"] = {key: "true"}
    outcome = _told(scene, role, "MetadataDropped")
    path = f"{path_of(role)}-v-{scene.mine.name}"
    labels = eventually(scene.lab.host.get, path)["metadata"]["labels"]
    return outcome if key not in labels else "the host's `view` has it"


def _pods_with(scene: Scene, spec: Object, **annotations: str) -> Object:
    template = objects.deployment(scene.namespace, f"pods-{uuid.uuid4().hex[:4]}")
    template["spec"]["replicas"] = 0
    pods = template["spec"]["template"]
    pods["spec"] |= spec
    pods["metadata"]["annotations"] = annotations
    return template


def _copied(scene: Scene) -> str:
    theirs = scene.theirs.host_namespace("default")
    keys = (
        "replicator.v1.mittwald.de/replicate-to",
        "reflector.v1.k8s.emberstack.com/reflection-auto-namespaces",
    )
    outcomes = []
    for key in keys:
        manifest = _object("v1", "Secret", f"copied-{uuid.uuid4().hex[:4]}")
        manifest["metadata"] |= {"namespace": scene.namespace, "annotations": {key: theirs}}
        outcomes.append(_told(scene, manifest, "ControllerRights"))
    return all_alike(outcomes)


def _inline_volumes(scene: Scene) -> str:
    sources: tuple[Object, ...] = (
        {"nfs": {"server": "192.0.2.1", "path": "/"}},
        {"iscsi": {"targetPortal": "192.0.2.1", "iqn": "iqn.2026-01.com.example:x", "lun": 0}},
        {"rbd": {"monitors": ["192.0.2.1"], "image": "theirs"}},
        {"csi": {"driver": "smb.csi.k8s.io", "volumeAttributes": {"source": "//theirs/x"}}},
    )
    return by_work(
        scene, *(_pods_with(scene, {"volumes": [{"name": "v", **each}]}) for each in sources)
    )


def _addresses_of_pods(scene: Scene) -> str:
    keys = (
        *("cni.projectcalico.org/ipAddrs", "k8s.v1.cni.cncf.io/networks"),
        *("ipam.cilium.io/ipv4-pool", "net.theirs.ovn.kubernetes.io/ip_address"),
    )
    return all_alike(
        _told(scene, _pods_with(scene, {}, **{key: "theirs/x"}), "SharedAddress") for key in keys
    )


def _names_of_the_host(scene: Scene) -> str:
    manifests = []
    for spec in (
        {"type": "LoadBalancer", "loadBalancerClass": "example.com/theirs"},
        {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30070}]},
    ):
        service = objects.service(scene.namespace, f"of-host-{uuid.uuid4().hex[:4]}")
        service["spec"] |= spec
        manifests.append(service)
    host = f"calls.{scene.lab.id}.example.com"
    manifests += [
        _ingress(scene, end, f"{end}.{host}", **{f"{domain}/{end}": "http://x"})
        for domain, end in (
            *((_NGINX, "auth-url"), (_NGINX, "mirror-target")),
            *((_APISIX, "auth-uri"), (_APISIX, "svc-namespace")),
        )
    ]
    return by_work(scene, *manifests)


def _balancer_of_others(scene: Scene) -> str:
    host = f"group.{scene.lab.id}.example.com"
    key = "alb.ingress.kubernetes.io/group.name"
    return _told(scene, _ingress(scene, "group", host, **{key: "theirs"}), "SharedAddress")


def _delete_the_quota(scene: Scene) -> str:
    bot = {"kind": "ServiceAccount", "name": "bot", "namespace": scene.namespace}
    resources = ["resourcequotas", "serviceaccounts/token", "pods/binding", "pods"]
    resources += ["services/status", "pods/status", "pods/proxy", "services/proxy", "endpoints"]
    rule = {"apiGroups": [""], "resources": resources, "verbs": ["create", "delete", "get"]}
    signs = {"apiGroups": [_SIGNS], "resources": ["podcertificaterequests"], "verbs": ["create"]}
    role = _object(RBAC, "Role", "breaker", scene.namespace) | {"rules": [rule, signs]}
    ref = {"apiGroup": RBAC.partition("/")[0], "kind": "Role", "name": "breaker"}
    binding = _object(RBAC, "RoleBinding", "breaker", scene.namespace)
    by_work(scene, binding | {"subjects": [bot], "roleRef": ref})
    outcome = _told(scene, role, "RuleCut")
    within(PERIODIC_S, _can, scene, "pods", "", "delete")
    within(PERIODIC_S, _can, scene, "resourcequotas", "", "get")
    for resource, part, verb in (
        ("resourcequotas", "", "delete"),
        ("serviceaccounts", "token", "create"),
        ("pods", "binding", "create"),
        ("pods", "proxy", "create"),
        ("services", "proxy", "get"),
        ("pods", "status", "create"),
        ("services", "status", "create"),
        ("endpoints", "", "create"),
    ):
        assert not _may(scene, resource, part, verb), (resource, part, verb)
    assert not _may(scene, "podcertificaterequests", "", "create", _SIGNS)
    return f"left out; the rest is {outcome}"


def _can(scene: Scene, *what: str) -> None:
    assert _may(scene, *what), what


def _may(scene: Scene, resource: str, part: str, verb: str, group: str = "") -> bool:
    home = scene.mine.host_namespace(scene.namespace)
    wanted = {"namespace": home, "verb": verb, "resource": resource, "subresource": part}
    wanted["group"] = group
    spec = {"user": f"system:serviceaccount:{home}:bot", "resourceAttributes": wanted}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    path = collection("authorization.k8s.io/v1", "SubjectAccessReview")
    return bool(scene.lab.host.post(path, review)["status"]["allowed"])


def _blocks_all(scene: Scene) -> str:
    term = {"topologyKey": "kubernetes.io/os", "labelSelector": {}, "namespaceSelector": {}}
    named = {**term, "namespaces": [scene.theirs.host_namespace("default")]}
    anti = {"requiredDuringSchedulingIgnoredDuringExecution": [term, named]}
    template = objects.deployment(scene.namespace, "blocker")
    template["spec"]["replicas"] = 0
    template["spec"]["template"]["spec"]["affinity"] = {"podAntiAffinity": anti}
    by_work(scene, template)
    live = scene.lab.on_host(template, scene.mine)["spec"]["template"]["spec"]["affinity"]
    own = {"virtualcluster.kubeedge.io/cluster": scene.mine.name}
    for found in live["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]:
        assert found["namespaceSelector"]["matchLabels"] == own
        assert scene.theirs.host_namespace("default") not in found.get("namespaces", [])
    return "confined to its own namespaces"


def _controller_kind(scene: Scene) -> str:
    definition = scene_definition(scene.tenancy)
    kind = definition["spec"]["names"]["kind"]
    try:
        return _told(scene, _object(f"{_HELM}/v1", kind, "x", scene.namespace), "ControllerRights")
    finally:
        scene.lab.host.delete(path_of(definition))


def scene_definition(tenancy: str) -> Object:
    """Return the kind that the host serves before the agent joins; one for each profile."""
    kind = {"Shared": "HelmChart", "Strict": "HelmChartConfig"}[tenancy]
    return objects.custom_definition(_HELM, kind)


def widgets(lab: Lab) -> Object:
    """Return the definition whose name both branches are given in Strict."""
    return objects.custom_definition(f"{lab.id}.example.com")


_SYSTEM_GROUPS = (
    "virtualcluster.kubeedge.io",
    "apps.kubeedge.io",
    "cluster.karmada.io",
    "apps.k8s.io",
    "kubernetes.io",
)


GATEWAYS, DNS_ENDPOINTS = "gateway.networking.k8s.io", "externaldns.k8s.io"
SNAPSHOTS = "snapshot.storage.k8s.io"
ISTIO, MONITORS = "networking.istio.io", "monitoring.coreos.com"
OPENED = f"{ISTIO}/Sidecar"
"""What `mine` of the scene is allowed of the kinds that no table knows."""


def extensions() -> list[Object]:
    """Return kinds that hosts serve beside those of Kubernetes, as far as attempts need them."""
    found = [
        objects.custom_definition(group, kind, versions=(version,))
        for group, kind, version in (
            (GATEWAYS, "Gateway", "v1"),
            (GATEWAYS, "HTTPRoute", "v1"),
            (GATEWAYS, "TCPRoute", "v1alpha2"),
            (MONITORS, "ServiceMonitor", "v1"),
            (DNS_ENDPOINTS, "DNSEndpoint", "v1"),
            (SNAPSHOTS, "VolumeSnapshotContent", "v1"),
            ("devices.kubeedge.io", "Device", "v1beta1"),
            ("rules.kubeedge.io", "Rule", "v1"),
            (ISTIO, "VirtualService", "v1"),
            (ISTIO, "Sidecar", "v1"),
        )
    ]
    for each in found:
        each["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, for a test"}
        if each["spec"]["group"] == SNAPSHOTS:
            each["spec"]["scope"] = "Cluster"
    return found


def of_istio(namespace: str, kind: str = "VirtualService") -> Object:
    return _object(f"{ISTIO}/v1", kind, f"istio-{uuid.uuid4().hex[:4]}", namespace)


def _unknown_kind(scene: Scene) -> str:
    """Have a mesh route hosts of others."""
    return by_work(scene, of_istio(scene.namespace) | {"spec": {"hosts": ["*.example.com"]}})


def _device_elsewhere(scene: Scene) -> str:
    foreign = scene.theirs.nodes[0]
    device = _object("devices.kubeedge.io/v1beta1", "Device", "elsewhere", scene.namespace)
    rule = _object("rules.kubeedge.io/v1", "Rule", "elsewhere", scene.namespace)
    return by_work(
        scene,
        device | {"spec": {"nodeName": foreign}},
        rule | {"spec": {"sourceResource": {"topic": "t", "node_name": foreign}}},
    )


def _rule_calls(scene: Scene) -> str:
    """Have CloudCore call an address that it reaches and the branch does not."""
    rule = _object("rules.kubeedge.io/v1", "Rule", "calls", scene.namespace)
    source = {"topic": "t", "node_name": scene.mine.nodes[0]}
    target = {"resource": "http://198.51.100.7/"}
    return by_work(scene, rule | {"spec": {"sourceResource": source, "targetResource": target}})


def _snapshot_of_another(scene: Scene) -> str:
    contents = []
    for handle in ("snapshotHandle", "volumeHandle"):
        name = f"{scene.lab.id}-{handle.lower()}"
        contents.append(_object(f"{SNAPSHOTS}/v1", "VolumeSnapshotContent", name))
        contents[-1]["spec"] = {
            "driver": "x.example.com",
            "deletionPolicy": "Retain",
            "source": {handle: "theirs"},
            "volumeSnapshotRef": {"name": "s", "namespace": scene.namespace},
        }
    return by_work(scene, *contents)


PARAMETERS = {
    "parametersRef": {"group": "gateway.envoyproxy.io", "kind": "EnvoyProxy", "name": "wide"}
}
"""Of a Gateway: an EnvoyProxy says what pods run in the namespace of Envoy Gateway."""


def gateway(namespace: str, **spec: object) -> Object:
    name = f"gateway-{uuid.uuid4().hex[:4]}"
    made = _object(f"{GATEWAYS}/v1", "Gateway", name, namespace)
    listener = {"name": "web", "port": 80, "protocol": "HTTP", "hostname": f"{name}.example.com"}
    return made | {"spec": {"gatewayClassName": "of-host", "listeners": [listener]} | spec}


def _gateway_address(scene: Scene) -> str:
    return by_work(
        scene, gateway(scene.namespace, addresses=[{"type": "IPAddress", "value": "192.0.2.53"}])
    )


def _gateway_for_all(scene: Scene) -> str:
    route = _object(f"{GATEWAYS}/v1", "HTTPRoute", "wide", scene.namespace)
    wide = f"*.{scene.lab.id}.example.org"
    return all_alike(
        _told(scene, each, "HostShared")
        for each in (
            gateway(scene.namespace, listeners=[{"name": "web", "port": 80, "protocol": "HTTP"}]),
            route | {"spec": {"hostnames": [wide]}},
        )
    )


def _slice_inside(scene: Scene) -> str:
    """Have KubeEdge make a slice that looks like one that Karmada itself sends."""
    slice_ = _object("discovery.k8s.io/v1", "EndpointSlice", "inside", scene.namespace)
    key = "endpointslice.kubernetes.io/managed-by"
    slice_["metadata"]["labels"] = {key: "endpointslice-dispatch-controller.karmada.io"}
    slice_ |= {"addressType": "IPv4", "endpoints": [{"addresses": ["198.51.100.7"]}], "ports": []}
    selected = {"labelSelector": {"matchLabels": scene.mine.selector}}
    application = _object("apps.kubeedge.io/v1alpha1", "EdgeApplication", "slices", scene.namespace)
    application["spec"] = {
        "workloadTemplate": {"manifests": [slice_]},
        "workloadScope": {"targetNodeLabels": [selected]},
    }
    return by_work(scene, application)


def _infrastructure(scene: Scene) -> str:
    """Have the controller of a Gateway annotate the Service that it makes for it."""
    keys = ("external-dns.alpha.kubernetes.io/hostname", "metallb.io/loadBalancerIPs")
    manifests = (
        gateway(scene.namespace, infrastructure={"annotations": {key: "192.0.2.53"}})
        for key in keys
    )
    return all_alike(_told(scene, manifest, "SharedAddress") for manifest in manifests)


def _parameters(scene: Scene) -> str:
    return _told(scene, gateway(scene.namespace, infrastructure=PARAMETERS), "ControllerRights")


def _kinds_of_systems(scene: Scene) -> str:
    definitions = [objects.custom_definition(group) for group in _SYSTEM_GROUPS]
    outcome = by_work(scene, *definitions)
    assert not any(scene.lab.host.find(path_of(each)) for each in definitions)
    return outcome


def _kind_of_a_group_of_the_host(scene: Scene) -> str:
    """Define one more kind of a group that the host served before."""
    group = f"host.{scene.lab.id}.example.com"
    served = objects.custom_definition(group, "Gadget")
    scene.lab.host.create(served)
    try:
        eventually(scene.lab.host.get, f"/apis/{group}")
        return by_work(scene, objects.custom_definition(group))
    finally:
        scene.lab.host.delete(path_of(served))


def _shared_names(scene: Scene) -> str:
    name = f"{scene.lab.id}-taken"
    manifests = (
        objects.custom_definition(f"taken.{scene.lab.id}.example.com"),
        _object("scheduling.k8s.io/v1", "PriorityClass", name) | {"value": 1},
        _object(STORAGE, "StorageClass", name) | {"provisioner": "x/none"},
        _object(NETWORKING, "IngressClass", name) | {"spec": {"controller": "x/none"}},
    )
    try:
        return by_work(scene, *manifests)
    finally:
        for manifest in manifests:
            scene.lab.host.delete(path_of(manifest))


def _schema_under_others(scene: Scene) -> str:
    """Change a definition that only this branch brings, while the other has objects of it."""
    definition = widgets(scene.lab)
    work = scene.lab.create_work(scene.mine, "definition", definition)
    scene.lab.wait_applied(work)
    widget = _object(f"{scene.lab.id}.example.com/v1", "Widget", "w", scene.namespace)
    widget["spec"] = {"size": 7}
    other = scene.lab.create_work(scene.theirs, "widget", widget)
    scene.lab.wait_applied(other)
    closed = copy.deepcopy(definition)
    schema = closed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["x-kubernetes-preserve-unknown-fields"]
    try:
        return by_work(scene, closed)
    finally:
        live = scene.lab.host.get(scene.lab.host_path(widget, scene.theirs))
        assert live["spec"] == {"size": 7}
        scene.lab.hub.delete(other)
        scene.lab.hub.delete(work)
        scene.lab.host.delete(path_of(definition))


# --- addresses and names ----------------------------------------------------------------


def _external_ip(scene: Scene) -> str:
    service = objects.service(scene.namespace, "external")
    service["spec"]["externalIPs"] = ["192.0.2.53"]
    return by_work(scene, service)


def _endpoints(scene: Scene, *addresses: str) -> str:
    manifests = []
    for address in addresses:
        name = f"to-{address.replace('.', '-')}"
        old = _object("v1", "Endpoints", name, scene.namespace)
        old |= {"subsets": [{"addresses": [{"ip": address}], "ports": [{"port": 80}]}]}
        new = _object("discovery.k8s.io/v1", "EndpointSlice", name, scene.namespace)
        new |= {"addressType": "IPv4", "endpoints": [{"addresses": [address]}], "ports": []}
        manifests += [old, new]
    return by_work(scene, *manifests)


def _endpoints_of_the_host(scene: Scene) -> str:
    return _endpoints(scene, "198.51.100.7", "198.51.100.8")


def _endpoints_elsewhere(scene: Scene) -> str:
    return _endpoints(scene, "192.0.2.7")


def _endpoints_on_its_node(scene: Scene) -> str:
    """Act as a kubelet of the other branch: it reports the address of a node of this one."""
    host, own, alone = scene.lab.host, "192.0.2.77", "192.0.2.78"
    mine, theirs = scene.mine.nodes[0], scene.theirs.nodes[0]
    try:
        host.patch(f"{NODES}/{mine}/status", _reported(own))
        kubelet(scene, theirs).patch(f"{NODES}/{theirs}/status", _reported(own, alone))
        eventually(lambda: _refused(scene, alone))  # so the agent has seen the report
        return _endpoints(scene, own)
    finally:
        for name in (mine, theirs):
            host.patch(f"{NODES}/{name}/status", {"status": {"addresses": None}})


def _address_of_a_pod(scene: Scene) -> str:
    """Act as a kubelet: report an address outside of the pods' network for a pod of its own."""
    made = pod(scene.home, f"at-{uuid.uuid4().hex[:6]}", nodeSelector=scene.mine.selector)
    path = path_of(scene.tenant.create(made))
    try:
        node = eventually(lambda: str(scene.lab.host.get(path)["spec"]["nodeName"]))
        outcomes = [
            answer(
                refused_by_policy,
                kubelet(scene, node).patch,
                f"{path}/status",
                {"status": {"podIP": ip, "podIPs": [{"ip": ip}]}},
            )
            for ip in ("192.0.2.79", "::ffff:192.0.2.79", "0:0:0:0:0:FFFF:c000:24f")
        ]
        # Servers of 1.36 and newer take no IPv4 in IPv6 notation, from anyone.
        return all_alike(each for each in outcomes if "IPv4-mapped IPv6" not in each)
    finally:
        scene.tenant.delete(path, force=True)


def _refused(scene: Scene, address: str) -> None:
    assert _endpoints(scene, address) == _ADDRESS


def _reported(*addresses: str) -> Object:
    return {
        "status": {"addresses": [{"type": "InternalIP", "address": each} for each in addresses]}
    }


def external_names(scene: Scene) -> tuple[str, ...]:
    """Return names that lead to others, one way or another."""
    theirs = scene.theirs.host_namespace("default")
    return (
        f"web.{theirs}",
        f"10-0-0-1.{theirs}.pod.cluster.local",
        "10-0-0-1.nip.io",
        "10.0.0.1",
        "db.example.com",
    )


def external_name(namespace: str, name: str) -> Object:
    service = objects.service(namespace, f"to-{uuid.uuid4().hex[:6]}")
    service["spec"] = {"type": "ExternalName", "externalName": name}
    service["metadata"].setdefault("annotations", {})
    return service


def _external_name(scene: Scene) -> str:
    """Name what is of others, and a Service of another branch, which becomes one of its own."""
    theirs = scene.theirs.host_namespace("default")
    service = external_name(scene.namespace, f"web.{theirs}.svc.cluster.local")
    assert by_work(scene, service) == "applied"
    live = scene.lab.on_host(service, scene.mine)["spec"]["externalName"]
    assert not live.startswith(f"web.{theirs}."), live
    return by_work(scene, *(external_name(scene.namespace, each) for each in external_names(scene)))


def _account_token(scene: Scene) -> str:
    secret = _object("v1", "Secret", "token", scene.namespace)
    secret["metadata"]["annotations"] = {"kubernetes.io/service-account.name": "default"}
    return by_work(scene, secret | {"type": "kubernetes.io/service-account-token"})


def _load_balancer_ip(scene: Scene) -> str:
    service = objects.service(scene.namespace, "balanced")
    service["spec"] |= {"type": "LoadBalancer", "loadBalancerIP": "192.0.2.53"}
    return _told(scene, service, "SharedAddress")


def _dns_name(scene: Scene) -> str:
    service = objects.service(scene.namespace, "named")
    annotations = {"external-dns.alpha.kubernetes.io/hostname": "shop.example.com"}
    service["metadata"]["annotations"] = annotations
    other = objects.service(scene.namespace, "named-too")
    other["metadata"]["annotations"] = {"dns.gardener.cloud/dnsnames": "shop.example.com"}
    return all_alike(_told(scene, each, "SharedAddress") for each in (service, other))


def _ingress(scene: Scene, name: str, host: str = "", **annotations: str) -> Object:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    paths = {"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    rule = paths | ({"host": host} if host else {})
    manifest = _object(NETWORKING, "Ingress", name, scene.namespace) | {"spec": {"rules": [rule]}}
    manifest["metadata"]["annotations"] = annotations
    return manifest


def _all_hosts(scene: Scene) -> str:
    domain = f"{scene.lab.id}.example.com"
    beside = _ingress(scene, "beside", f"beside.{domain}")
    service = {"name": "web", "port": {"number": 80}}
    beside["spec"]["defaultBackend"] = {"service": service}
    wide = (_ingress(scene, name, host) for name, host in (("every", ""), ("wild", f"*.{domain}")))
    return all_alike(_told(scene, each, "HostShared") for each in (*wide, beside))


def _host_of_another(scene: Scene) -> str:
    host = f"{scene.lab.id}.example.com"
    work = scene.lab.create_work(scene.theirs, "host", _ingress(scene, "host", host))
    scene.lab.wait_applied(work)
    return all_alike(
        _told(scene, manifest, "HostShared")
        for manifest in (
            _ingress(scene, "same", host),
            _ingress(scene, "alias", f"alias.{host}", **{f"{_NGINX}/server-alias": host}),
            _ingress(scene, "aliases", f"aliases.{host}", **{"konghq.com/host-aliases": host}),
        )
    )


def _snippet(scene: Scene) -> str:
    ended = _ingress(scene, "path", "path.example.com")
    ended["spec"]["rules"][0]["http"]["paths"][0]["path"] = '/"; } location /x {'
    keys = {
        f"{_NGINX}/configuration-snippet": "x;",
        f"{_NGINX}/rewrite-target": "/; } location /x {",
        "zalando.org/skipper-routes": 'all: * -> "http://192.0.2.1";',
        "getambassador.io/config": "kind: Mapping",
        "traefik.ingress.kubernetes.io/router.pathmatcher": f"PathPrefix(`/`) || {ANY_HOST}",
    }
    by_keys = (
        _ingress(scene, key.rpartition("/")[2], "snippet.example.com", **{key: value})
        for key, value in keys.items()
    )
    return all_alike(by_work(scene, each) for each in (ended, *by_keys))


ANY_HOST = "Host(`shop.example.com`) && PathPrefix"
OF_OTHERS = "/`)||Host(`shop.example.com`)&&PathPrefix(`/"
"""A path that ends the one in a rule of Traefik, and begins another host."""


def routes_of_others(namespace: str) -> list[Object]:
    """Return routes whose matches end what they are in a rule of Traefik."""
    made = []
    for match in (
        {"path": {"type": "RegularExpression", "value": OF_OTHERS}},
        {"headers": [{"name": "x", "value": "`)||Host(`shop.example.com`)&&Header(`x`,`"}]},
        {"queryParams": [{"name": "x", "value": "`)||Host(`shop.example.com`)&&Query(`x`,`"}]},
    ):
        route = _object(f"{GATEWAYS}/v1", "HTTPRoute", f"rule-{uuid.uuid4().hex[:4]}", namespace)
        spec = {"hostnames": ["own.example.com"], "rules": [{"matches": [match]}]}
        made.append(route | {"spec": spec})
    return made


def _rules_of_others(scene: Scene) -> str:
    ended = _ingress(scene, "rule", "rule.example.com")
    ended["spec"]["rules"][0]["http"]["paths"][0]["path"] = OF_OTHERS
    return by_work(scene, ended, *routes_of_others(scene.namespace))


def _object(api_version: str, kind: str, name: str, namespace: str = "") -> Object:
    metadata: Object = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


_VOLUME = "refused, `VolumeForbidden`"
_KIND = "refused, `KindForbidden`"
_NAME = "refused, `NameReserved`"
_ADDRESS = "refused, `AddressForbidden`"
_TOLD = "applied, reported as `{}`"

ATTEMPTS = (
    Attempt("Work: a PersistentVolume that is recycled", _VOLUME, _recycle),
    Attempt(
        "Work: a PersistentVolume that deletes files of the control plane",
        _VOLUME,
        _delete_on_the_host,
    ),
    Attempt("Work: a PersistentVolume for whichever claim comes", _VOLUME, _trap),
    Attempt(
        "Work: a PersistentVolume on a path of the node", "applied", _host_path, strict=_VOLUME
    ),
    Attempt("Work: a PersistentVolume by NFS", "applied", _network_volume, strict=_VOLUME),
    Attempt(
        "Work: a VolumeSnapshotContent with the handle of a snapshot or volume of others",
        "applied",
        _snapshot_of_another,
        strict=_VOLUME,
    ),
    Attempt(
        "Work: a StorageClass with a Secret of another branch",
        "a namespace of its own is named",
        _secret_of_another,
        strict=_VOLUME,
    ),
    Attempt(
        "Work: pods with a volume elsewhere (NFS, iSCSI, Ceph, inline CSI)",
        "applied",
        _inline_volumes,
        strict=_VOLUME,
    ),
    Attempt("Work: a class that is the default of the host", _KIND, _default_class),
    Attempt(
        "Work: a Namespace for privileged pods under `podSecurity: baseline`",
        "`baseline` of the settings stands there",
        _privileged,
    ),
    Attempt(
        "Work: pods that are privileged, or have paths, ports, network, processes or IPC of the "
        "node, without `podSecurity`",
        "applied",
        _work_of_the_node,
        strict="refused by Pod Security",
    ),
    Attempt(
        "Host: the same without a Work",
        "done",
        _host_of_the_node,
        strict="refused by Pod Security",
    ),
    Attempt(
        "Work: a Namespace that opts out of policy engines and meshes",
        "dropped, reported as `MetadataDropped`",
        _opt_out,
    ),
    Attempt(
        "Work: a ClusterRole that adds to the host's `view`",
        "applied, reported as `MetadataDropped`",
        _aggregate,
    ),
    Attempt(
        "Work: a Role to delete quotas, mint tokens, have certificates signed, bind pods, reach "
        "them by proxy, and write what Works are refused",
        "left out; the rest is applied, reported as `RuleCut`",
        _delete_the_quota,
    ),
    Attempt(
        "Work: pods that keep the pods of all namespaces away",
        "confined to its own namespaces",
        _blocks_all,
    ),
    Attempt(
        "Work: a kind whose controller has rights of its own (`HelmChart`)",
        _TOLD.format("ControllerRights"),
        _controller_kind,
        strict=_KIND,
    ),
    Attempt(
        "Work: a kind that no table of the agent knows (Istio's `VirtualService`)",
        "applied",
        _unknown_kind,
        strict=_KIND,
    ),
    Attempt(
        "Work: defines kinds of Kubernetes, Karmada, KubeEdge or the agent",
        _KIND,
        _kinds_of_systems,
    ),
    Attempt(
        "Work: defines one more kind of a group that the host serves",
        "refused, `SharedObjectConflict`",
        _kind_of_a_group_of_the_host,
        strict=_NAME,
    ),
    Attempt(
        "Work: takes names that all branches share: a definition, a priority, classes",
        "applied",
        _shared_names,
        strict=_NAME,
    ),
    Attempt(
        "Work: a schema that empties the objects of another branch",
        "refused, `SharedObjectConflict`",
        _schema_under_others,
    ),
    Attempt("Work: a Service with `externalIPs`", _ADDRESS, _external_ip),
    Attempt("Work: endpoints that are pods of the host", _ADDRESS, _endpoints_of_the_host),
    Attempt(
        "Work: endpoints inside an EdgeApplication that look as if Karmada itself sent them",
        _ADDRESS,
        _slice_inside,
    ),
    Attempt("Work: endpoints elsewhere", "applied", _endpoints_elsewhere, strict=_ADDRESS),
    Attempt(
        "Work: endpoints on a node of its own, whose address a node of another branch reports, too",
        "applied",
        _endpoints_on_its_node,
        strict=_ADDRESS,
    ),
    Attempt(
        "Host: a node reports an address outside of `podCIDRs` for its pod",
        "done",
        _address_of_a_pod,
        strict="refused (422) by `pod-addresses`",
    ),
    Attempt(
        "Work: `externalName` of Services and pods of others, or elsewhere",
        "applied",
        _external_name,
        strict=_ADDRESS,
    ),
    Attempt(
        "Work: a Secret that Kubernetes fills with a token", "applied", _account_token, strict=_KIND
    ),
    Attempt(
        "Work: a Service with `loadBalancerIP`",
        _TOLD.format("SharedAddress"),
        _load_balancer_ip,
        strict=_ADDRESS,
    ),
    Attempt(
        "Work: a Service with a name for external-dns",
        _TOLD.format("SharedAddress"),
        _dns_name,
        strict=_ADDRESS,
    ),
    Attempt("Work: a Gateway with `addresses`", _ADDRESS, _gateway_address),
    Attempt(
        "Work: a Gateway that gives its Service such a name or address (`infrastructure`)",
        _TOLD.format("SharedAddress"),
        _infrastructure,
        strict=_ADDRESS,
    ),
    Attempt(
        "Work: a Gateway with parameters of a controller (`infrastructure.parametersRef`)",
        _TOLD.format("ControllerRights"),
        _parameters,
        strict="refused, `ReferenceForbidden`",
    ),
    Attempt(
        "Work: a load balancer of others by annotation",
        _TOLD.format("SharedAddress"),
        _balancer_of_others,
        strict=_ADDRESS,
    ),
    Attempt(
        "Work: pods that choose their address or network",
        _TOLD.format("SharedAddress"),
        _addresses_of_pods,
        strict=_ADDRESS,
    ),
    Attempt(
        "Work: a Service with a node port or a `loadBalancerClass`, an Ingress whose proxy calls "
        "elsewhere",
        "applied",
        _names_of_the_host,
        strict=_ADDRESS,
    ),
    Attempt(
        "Work: an Ingress for every host, or for `*.` of a domain",
        _TOLD.format("HostShared"),
        _all_hosts,
        strict="refused, `HostForbidden`",
    ),
    Attempt(
        "Work: a Gateway or a route for every host",
        _TOLD.format("HostShared"),
        _gateway_for_all,
        strict="refused, `HostForbidden`",
    ),
    Attempt(
        "Work: an Ingress for the host of another branch, also by `server-alias`",
        _TOLD.format("HostShared"),
        _host_of_another,
        strict="refused, `SharedHostConflict`",
    ),
    Attempt("Work: an Ingress that writes the proxy's configuration", _ADDRESS, _snippet),
    Attempt(
        "Work: a path, or a match of a route, that is a rule of Traefik for a host of others",
        _ADDRESS,
        _rules_of_others,
    ),
    Attempt(
        "Work: a Secret that a controller copies into namespaces of others",
        _TOLD.format("ControllerRights"),
        _copied,
        strict="refused, `ReferenceForbidden`",
    ),
    Attempt(
        "Work: a Device or a Rule on a node of another branch",
        "refused, `NodeNameForbidden`",
        _device_elsewhere,
    ),
    Attempt(
        "Work: a Rule by which CloudCore calls elsewhere", "applied", _rule_calls, strict=_ADDRESS
    ),
)
