"""What reaches beyond a virtual cluster: refused or told, by profile, and what opens it."""

from dataclasses import replace
from typing import Any, get_args

import msgspec
import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import GUARDS_IN_BOTH, SHARED, STRICT, Guard, Tenancy
from karmada_vc_agent.model.vocabulary import GATEWAY_GROUP
from karmada_vc_agent.translation.context import TranslationContext, TranslationSettings
from karmada_vc_agent.translation.guards import (
    ANNOTATIONS,
    BY_KIND,
    NETWORK_SOURCES,
    OWN_SOURCES,
    _checks,
)
from karmada_vc_agent.translation.kind_policy import NAMED_GROUPS, Code, Refusal
from karmada_vc_agent.translation.translate import HostObject, translate
from tests.unit.translation import given

CLUSTER_SCOPED = (
    *("PersistentVolume", "VolumeSnapshotContent"),
    *("StorageClass", "IngressClass", "VolumeSnapshotClass"),
)
BOUND = {"claimRef": {"namespace": "edge", "name": "data"}}
DNS = "external-dns.alpha.kubernetes.io"
NGINX = "nginx.ingress.kubernetes.io"
HAPROXY = "haproxy-ingress.github.io"


def manifest(api_version: str, kind: str, **rest: Any) -> Object:
    metadata = {"name": "x"} | ({} if kind in CLUSTER_SCOPED else {"namespace": "edge"})
    metadata |= {"annotations": rest.pop("annotations")} if "annotations" in rest else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def volume(**spec: Any) -> Object:
    return manifest("v1", "PersistentVolume", spec={**BOUND, **spec})


def ingress(host: str | None = "a.example", **annotations: str) -> Object:
    rules = [{"host": host} if host else {}]
    return manifest(
        "networking.k8s.io/v1", "Ingress", spec={"rules": rules}, annotations=annotations
    )


def at_path(path: str) -> Object:
    rule = {"host": "a.example", "http": {"paths": [{"path": path}]}}
    return ingress() | {"spec": {"rules": [rule]}}


def certified(*hosts: str) -> Object:
    return {"rules": [{"host": "a.example"}], "tls": [{"hosts": list(hosts)}]}


def gateway(*addresses: str, **listener: str) -> Object:
    api = "gateway.networking.k8s.io/v1"
    listeners = [{"name": "web", **listener}]
    values = [{"type": "IPAddress", "value": each} for each in addresses]
    return manifest(api, "Gateway", spec={"listeners": listeners, "addresses": values})


def infrastructure(**annotations: str) -> Object:
    obj = gateway(hostname="a.example")
    obj["spec"]["infrastructure"] = {"annotations": annotations}
    return obj


def route(kind: str, *hostnames: str) -> Object:
    api = "gateway.networking.k8s.io/v1"
    return manifest(api, kind, spec={"hostnames": list(hostnames)})


def service(annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    return manifest("v1", "Service", spec=spec, annotations=annotations or {})


def pods(*volumes: Object, **annotations: str) -> Object:
    template = {"metadata": {"annotations": annotations}, "spec": {"volumes": list(volumes)}}
    return manifest("apps/v1", "Deployment", spec={"template": template})


def endpoints(address: str) -> Object:
    return manifest("v1", "Endpoints", subsets=[{"addresses": [{"ip": address}]}])


def endpoint_slice(address: str, **labels: str) -> Object:
    obj = manifest("discovery.k8s.io/v1", "EndpointSlice", endpoints=[{"addresses": [address]}])
    obj["metadata"]["labels"] = labels
    return obj


def default_class(api_version: str, kind: str, key: str, value: str = "true") -> Object:
    more: Object = {"provisioner": "p", "driver": "d", "volumeBindingMode": "WaitForFirstConsumer"}
    return manifest(api_version, kind, annotations={key: value}, **more)


STORAGE, SNAPSHOTS = "storage.k8s.io/v1", "snapshot.storage.k8s.io/v1"
GUARDED = [
    *(
        (Guard.UNKNOWN_KINDS, manifest(version, kind))
        for version, kind in (
            ("networking.istio.io/v1", "VirtualService"),
            ("traefik.io/v1alpha1", "Middleware"),
            ("projectcontour.io/v1", "HTTPProxy"),
            ("apisix.apache.org/v2", "ApisixRoute"),
            ("cilium.io/v2", "CiliumNetworkPolicy"),
            ("gateway.envoyproxy.io/v1alpha1", "Backend"),
            ("acme.cert-manager.io/v1", "Challenge"),
        )
    ),
    (Guard.UNCLAIMED_VOLUMES, manifest("v1", "PersistentVolume", spec={"capacity": {}})),
    (Guard.UNCLAIMED_VOLUMES, manifest("v1", "PersistentVolume", spec={"claimRef": {"name": "x"}})),
    (Guard.HOST_PATH, volume(hostPath={"path": "/data"})),
    (Guard.HOST_PATH, volume(local={"path": "/data"})),
    (Guard.NETWORK_VOLUMES, volume(nfs={"server": "s", "path": "/"})),
    (Guard.NETWORK_VOLUMES, volume(csi={"driver": "d", "volumeHandle": "theirs"})),
    (Guard.NETWORK_VOLUMES, volume(iscsi={"targetPortal": "p"})),
    (
        Guard.NETWORK_VOLUMES,
        manifest(SNAPSHOTS, "VolumeSnapshotContent", spec={"source": {"snapshotHandle": "h"}}),
    ),
    (
        Guard.DEFAULT_CLASSES,
        default_class(STORAGE, "StorageClass", "storageclass.kubernetes.io/is-default-class"),
    ),
    (
        Guard.DEFAULT_CLASSES,
        default_class(STORAGE, "StorageClass", "storageclass.beta.kubernetes.io/is-default-class"),
    ),
    (
        Guard.DEFAULT_CLASSES,
        default_class(
            "networking.k8s.io/v1", "IngressClass", "ingressclass.kubernetes.io/is-default-class"
        ),
    ),
    (
        Guard.DEFAULT_CLASSES,
        default_class(
            SNAPSHOTS, "VolumeSnapshotClass", "snapshot.storage.kubernetes.io/is-default-class"
        ),
    ),
    (
        Guard.SHARED_KINDS,
        default_class(
            STORAGE, "StorageClass", "storageclass.kubernetes.io/is-default-class", "false"
        ),
    ),
    (Guard.EXTERNAL_ADDRESSES, service(externalIPs=["192.0.2.1"])),
    (Guard.LOAD_BALANCER_ADDRESSES, service(loadBalancerIP="192.0.2.1")),
    (Guard.LOAD_BALANCER_ADDRESSES, service({"metallb.io/loadBalancerIPs": "192.0.2.1"})),
    *(
        (Guard.LOAD_BALANCER_ADDRESSES, holder)
        for holder in (
            service({"metallb.universe.tf/allow-shared-ip": "theirs"}),
            ingress(**{"alb.ingress.kubernetes.io/group.name": "theirs"}),
            ingress(**{"kubernetes.io/ingress.global-static-ip-name": "theirs"}),
        )
    ),
    (Guard.LOAD_BALANCER_CLASSES, service(type="LoadBalancer", loadBalancerClass="x/theirs")),
    (Guard.NODE_PORTS, service(type="NodePort", ports=[{"port": 80, "nodePort": 30080}])),
    *((Guard.NETWORK_VOLUMES, pods({"name": "v", each: {}})) for each in NETWORK_SOURCES),
    *(
        (Guard.FOREIGN_ENDPOINTS, ingress(**{f"{NGINX}{end}": "x"}))
        for end in ANNOTATIONS["proxy_calls"]
    ),
    (Guard.NETWORK_VOLUMES, pods({"name": "v", "inventedIn2030": {}})),
    *((Guard.POD_ADDRESSES, pods(**{key: "192.0.2.1"})) for key in ANNOTATIONS["pod_addresses"]),
    (Guard.POD_ADDRESSES, pods(**{"net.edge.ovn.kubernetes.io/ip_address": "192.0.2.1"})),
    (
        Guard.NETWORK_VOLUMES,
        manifest(
            SNAPSHOTS,
            "VolumeSnapshotClass",
            driver="d",
            parameters={
                "csi.storage.k8s.io/snapshotter-secret-name": "s",
                "csi.storage.k8s.io/snapshotter-secret-namespace": "edge",
            },
        ),
    ),
    (Guard.FOREIGN_ENDPOINTS, endpoints("192.0.2.1")),
    (Guard.FOREIGN_ENDPOINTS, endpoint_slice("192.0.2.1")),
    *(
        (Guard.EXTERNAL_NAMES, service(type="ExternalName", externalName=name))
        for name in (
            "web.theirs",
            "web.theirs.svc.other.local",
            "10-0-0-1.theirs.pod.cluster.local",
            "10-0-0-1.nip.io",
            "10.0.0.1",
            "db.example.com",
            "WEB.THEIRS.SVC.CLUSTER.LOCAL",
        )
    ),
    (Guard.ACCOUNT_TOKENS, manifest("v1", "Secret", type="kubernetes.io/service-account-token")),
    (Guard.EXTERNAL_DNS, service({f"{DNS}/hostname": "a.example"})),
    (Guard.EXTERNAL_DNS, service({"dns.gardener.cloud/dnsnames": "a.example"})),
    (Guard.EXTERNAL_DNS, ingress(**{f"{DNS}/internal-hostname": "a.example"})),
    (Guard.EXTERNAL_DNS, manifest("externaldns.k8s.io/v1alpha1", "DNSEndpoint")),
    (Guard.WILDCARD_HOSTS, ingress(None)),
    (Guard.WILDCARD_HOSTS, ingress("*.example")),
    (Guard.WILDCARD_HOSTS, ingress(**{f"{NGINX}/server-alias": "~^.*$"})),
    (Guard.WILDCARD_HOSTS, ingress(**{f"{NGINX}/server-alias": "b.example, .example"})),
    (Guard.WILDCARD_HOSTS, ingress(**{f"{HAPROXY}/server-alias-regex": "."})),
    (Guard.WILDCARD_HOSTS, ingress(**{"konghq.com/host-aliases": "*.example"})),
    (Guard.WILDCARD_HOSTS, ingress(**{f"{HAPROXY}/redirect-from-regex": "b[.]example"})),
    (Guard.WILDCARD_HOSTS, ingress() | {"spec": certified("a.example", "*.example")}),
    (
        Guard.WILDCARD_HOSTS,
        manifest("networking.k8s.io/v1", "Ingress", spec={"defaultBackend": {"service": {}}}),
    ),
    (Guard.WILDCARD_HOSTS, ingress() | {"spec": certified() | {"defaultBackend": {"service": {}}}}),
    (
        Guard.CONTROLLER_KINDS,
        gateway(hostname="a.example")
        | {"spec": {"infrastructure": {"parametersRef": {"kind": "EnvoyProxy", "name": "x"}}}},
    ),
    (Guard.EXTERNAL_ADDRESSES, gateway("192.0.2.1", hostname="a.example")),
    (Guard.EXTERNAL_DNS, infrastructure(**{f"{DNS}/hostname": "a.example"})),
    (Guard.LOAD_BALANCER_ADDRESSES, infrastructure(**{"metallb.io/loadBalancerIPs": "192.0.2.1"})),
    (Guard.PROXY_SNIPPETS, infrastructure(**{"haproxy.org/backend-config-snippet": "x"})),
    (Guard.FOREIGN_ENDPOINTS, infrastructure(**{f"{NGINX}/auth-url": "http://theirs"})),
    (
        Guard.FOREIGN_ENDPOINTS,
        manifest("rules.kubeedge.io/v1", "Rule", spec={"targetResource": {"resource": "http://x"}}),
    ),
    (
        Guard.WILDCARD_HOSTS,
        manifest(f"{GATEWAY_GROUP}/v1", "ListenerSet", spec={"listeners": [{"hostname": "*.x"}]}),
    ),
    (
        Guard.WILDCARD_HOSTS,
        manifest("gateway.networking.x-k8s.io/v1alpha1", "XListenerSet", spec={"listeners": [{}]}),
    ),
    (Guard.WILDCARD_HOSTS, gateway()),
    (Guard.WILDCARD_HOSTS, gateway(hostname="*.example")),
    (Guard.WILDCARD_HOSTS, route("HTTPRoute", "a.example", "*.example")),
    (Guard.WILDCARD_HOSTS, route("GRPCRoute", "*.example")),
    (Guard.WILDCARD_HOSTS, route("TLSRoute", "*.example")),
    (Guard.PROXY_SNIPPETS, ingress(**{f"{NGINX}/configuration-snippet": "x"})),
    (Guard.PROXY_SNIPPETS, ingress(**{f"{NGINX}/rewrite-target": "/x; } location /y {"})),
    *((Guard.PROXY_SNIPPETS, at_path(f"/x{end}y")) for end in (";", '"', " ", "\n", "`")),
    *(
        (Guard.PROXY_SNIPPETS, route(kind) | {"spec": {"rules": [{"matches": [match]}]}})
        for kind, match in (
            ("HTTPRoute", {"path": {"type": "RegularExpression", "value": "/`)||Host(`x"}}),
            ("HTTPRoute", {"headers": [{"name": "a", "value": "`)||Host(`x"}]}),
            ("HTTPRoute", {"queryParams": [{"name": "a", "value": "`)||Host(`x"}]}),
            ("GRPCRoute", {"method": {"service": "`)||Host(`x"}}),
            ("GRPCRoute", {"method": {"method": "`)||Host(`x"}}),
        )
    ),
    (
        Guard.PROXY_SNIPPETS,
        ingress(**{"traefik.ingress.kubernetes.io/router.pathmatcher": "Host(`x`)||Path"}),
    ),
    (Guard.PROXY_SNIPPETS, ingress(**{"nginx.org/server-snippets": "x"})),
    (Guard.PROXY_SNIPPETS, ingress(**{f"{HAPROXY}/config-backend": "x"})),
    (Guard.PROXY_SNIPPETS, ingress(**{"ingress.kubernetes.io/config-backend": "x"})),
    (Guard.PROXY_SNIPPETS, service({"haproxy.org/backend-config-snippet": "x"})),
    (Guard.PROXY_SNIPPETS, service({"getambassador.io/config": "x"})),
    (Guard.PROXY_SNIPPETS, ingress(**{"zalando.org/skipper-routes": "x"})),
    (Guard.WILDCARD_HOSTS, ingress(**{f"{HAPROXY}/tcp-service-port": "443"})),
    (Guard.CONTROLLER_KINDS, service({"replicator.v1.mittwald.de/replicate-to": "theirs"})),
    *(
        (
            Guard.CONTROLLER_KINDS,
            manifest(
                "monitoring.coreos.com/v1",
                "ServiceMonitor",
                spec={"endpoints": [{"port": "x"}, file_of_prometheus]},
            ),
        )
        for file_of_prometheus in (
            {"bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"},
            *({"tlsConfig": {f"{name}File": "/x"}} for name in ("ca", "cert", "key")),
        )
    ),
    *(
        (Guard.CONTROLLER_KINDS, manifest(f"{group}/v1", kind))
        for group, kind in (
            ("apps.kruise.io", "ImagePullJob"),
            ("cdi.kubevirt.io", "DataVolume"),
            ("cilium.io", "CiliumEndpoint"),
            ("elbv2.k8s.aws", "TargetGroupBinding"),
            ("nfd.k8s-sigs.io", "NodeFeature"),
            ("argoproj.io", "Application"),
            ("argoproj.io", "ApplicationSet"),
            ("argoproj.io", "AppProject"),
            ("kustomize.toolkit.fluxcd.io", "Kustomization"),
            ("helm.toolkit.fluxcd.io", "HelmRelease"),
            ("helm.cattle.io", "HelmChart"),
            ("helm.cattle.io", "HelmChartConfig"),
            ("operators.coreos.com", "Subscription"),
            ("fleet.cattle.io", "GitRepo"),
            ("gateway.envoyproxy.io", "EnvoyProxy"),
            ("kyverno.io", "PolicyException"),
        )
    ),
]
ALWAYS = [
    volume(persistentVolumeReclaimPolicy="Recycle", nfs={"server": "s"}),
    volume(persistentVolumeReclaimPolicy="Delete", hostPath={"path": "/x/tmp/y"}),
]
HARMLESS = [
    manifest("cert-manager.io/v1", "Certificate"),
    manifest("monitoring.coreos.com/v1", "PrometheusRule"),
    volume(persistentVolumeReclaimPolicy="Retain"),
    service(type="LoadBalancer", ports=[{"port": 80}]),
    service(type="ExternalName", externalName="web.shop.svc"),
    service(type="ExternalName", externalName="web-0.web.shop.svc.cluster.local."),
    manifest("v1", "Secret", type="Opaque"),
    ingress(**{f"{NGINX}/server-alias": "b.example,c.example d.example"}),
    ingress() | {"spec": certified("a.example")},
    at_path(r"/v\d{2}(/|$)(.*)"),
    ingress(**{f"{NGINX}/rewrite-target": "/$2"}),
    gateway(hostname="a.example"),
    infrastructure(team="a"),
    route("HTTPRoute"),
    manifest("rules.kubeedge.io/v1", "Rule", spec={"targetResource": {"topic": "t"}}),
    service(type="NodePort", ports=[{"port": 80}]),
    service(type="ExternalName", externalName="db.edge.svc.cluster.local"),
    pods(*({"name": source.lower(), source: {}} for source in sorted(OWN_SOURCES - {"name"}))),
    manifest("argoproj.io/v1alpha1", "Rollout"),
    manifest("source.toolkit.fluxcd.io/v1", "GitRepository"),
    manifest("cert-manager.io/v1", "Issuer"),
]


def outcome(obj: Object, tenancy: str, *allow: str) -> HostObject | Refusal:
    context = given.context(vc={"allow": allow}, settings={"tenancy": tenancy})
    result = translate(obj, obj["kind"] not in CLUSTER_SCOPED, context)
    assert isinstance(result, HostObject | Refusal)
    return result


@pytest.mark.parametrize("tenancy", get_args(Tenancy))
@pytest.mark.parametrize(("guard", "obj"), GUARDED)
def test_what_reaches_beyond_is_refused_unless_it_is_allowed(
    guard: Guard, obj: Object, tenancy: str
) -> None:
    found = outcome(obj, tenancy)
    if tenancy == SHARED and guard not in GUARDS_IN_BOTH:
        assert isinstance(found, HostObject), found
    else:
        assert isinstance(found, Refusal)
        assert found.detail.endswith(f'an administrator can allow it with "allow: [{guard}]"')
    assert isinstance(outcome(obj, tenancy, *Guard), HostObject)
    assert isinstance(outcome(obj, STRICT, *(set(Guard) - {guard})), Refusal)


@pytest.mark.parametrize("tenancy", get_args(Tenancy))
@pytest.mark.parametrize("obj", ALWAYS)
def test_what_acts_on_nodes_of_others_is_refused_whatever_is_allowed(
    obj: Object, tenancy: str
) -> None:
    found = outcome(obj, tenancy, *Guard)
    assert isinstance(found, Refusal)
    assert found.code is Code.VOLUME_FORBIDDEN


@pytest.mark.parametrize("tenancy", get_args(Tenancy))
@pytest.mark.parametrize("obj", HARMLESS)
def test_reference_that_stays_inside_is_applied_and_not_reported(obj: Object, tenancy: str) -> None:
    found = outcome(obj, tenancy)
    assert isinstance(found, HostObject), found
    assert not found.notices


@pytest.mark.parametrize(
    ("obj", "codes"),
    [
        (manifest("argoproj.io/v1alpha1", "Application"), ["ControllerRights"]),
        (ingress(None), ["HostShared"]),
        (ingress(**{f"{DNS}/hostname": "a.example"}), ["SharedAddress"]),
        (service(loadBalancerIP="192.0.2.1"), ["SharedAddress"]),
        (volume(hostPath={"path": "/data"}), []),
        (endpoints("192.0.2.1"), []),
    ],
)
def test_exception_allowed_in_shared_is_reported(obj: Object, codes: list[str]) -> None:
    found = outcome(obj, SHARED)
    assert isinstance(found, HostObject)
    assert [notice.code for notice in found.notices] == codes


def test_one_controller_kind_can_be_allowed() -> None:
    application = manifest("argoproj.io/v1alpha1", "Application")
    project = manifest("argoproj.io/v1alpha1", "AppProject")
    assert isinstance(outcome(application, STRICT, "argoproj.io/Application"), HostObject)
    assert isinstance(outcome(project, STRICT, "argoproj.io/Application"), Refusal)


@pytest.mark.parametrize(
    ("entry", "is_opened"),
    [
        ("networking.istio.io/Gateway", True),
        ("networking.istio.io/*", True),
        ("apiextensions.k8s.io/CustomResourceDefinition/gateways.networking.istio.io", True),
        ("networking.istio.io/Sidecar", False),
        ("networking.istio.io/Gateway/x", False),
        ("apiextensions.k8s.io/CustomResourceDefinition", False),
        ("apiextensions.k8s.io/CustomResourceDefinition/sidecars.networking.istio.io", False),
    ],
)
def test_a_kind_that_no_table_knows_is_opened(entry: str, *, is_opened: bool) -> None:
    found = outcome(manifest("networking.istio.io/v1", "Gateway"), STRICT, entry)
    assert isinstance(found, HostObject) == is_opened


def test_kind_in_the_setting_for_cluster_scoped_ones_is_accepted() -> None:
    kind = "example.com/Fleet"
    settings = {"tenancy": STRICT, "cluster_scoped_kinds": {kind: "rename"}}
    fleet = manifest("example.com/v1", "Fleet")
    assert isinstance(translate(fleet, False, given.context(settings=settings)), HostObject)


def test_a_name_that_is_given_gives_nothing_else() -> None:
    key = "csi.storage.k8s.io/node-stage-secret"
    storage = default_class(STORAGE, "StorageClass", "note")
    given_name = f"{STORAGE.removesuffix('/v1')}/StorageClass/x"
    assert isinstance(outcome(storage, STRICT, given_name), HostObject)
    storage["parameters"] = {f"{key}-name": "s", f"{key}-namespace": "edge"}
    refused = outcome(storage, STRICT, given_name)
    assert isinstance(refused, Refusal)
    assert "allow: [NetworkVolumes]" in refused.detail
    storage["parameters"] = {f"{key}-name": "s", f"{key}-namespace": "${pvc.namespace}"}
    assert isinstance(outcome(storage, STRICT, given_name), HostObject)


def of_host(**settings: str) -> TranslationContext:
    context = given.context(settings=settings)
    return replace(context, is_of_host=lambda address: address.startswith("10."))


@pytest.mark.parametrize("obj", [endpoints("10.0.0.1"), endpoint_slice("10.0.0.1")])
def test_addresses_of_others_are_no_endpoints_in_shared_either(obj: Object) -> None:
    found = translate(obj, True, of_host())
    assert isinstance(found, Refusal)
    assert found.code is Code.ADDRESS_FORBIDDEN
    assert "allow: [HostEndpoints]" in found.detail


def test_slices_that_karmada_dispatches_pass_and_templates_that_look_so_do_not() -> None:
    key = "endpointslice.kubernetes.io/managed-by"
    labels = {key: "endpointslice-dispatch-controller.karmada.io"}
    slice_ = endpoint_slice("10.0.0.1", **labels)
    assert isinstance(translate(slice_, True, of_host(tenancy=STRICT)), HostObject)
    forged = endpoint_slice(
        "10.0.0.1", **labels, **{"resourcebinding.karmada.io/permanent-id": "x"}
    )
    assert isinstance(translate(forged, True, of_host()), Refusal)


def test_object_of_a_now_refused_manifest_is_identified() -> None:
    bare = manifest("v1", "PersistentVolume")
    context = replace(given.context(settings={"tenancy": STRICT}), names_only=True)
    assert isinstance(translate(bare, False, context), HostObject)
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "x"},
    }
    assert isinstance(translate(priority, False, context), HostObject)


@pytest.mark.parametrize(
    ("address", "is_theirs"),
    [
        ("10.244.3.4", True),
        ("10.96.0.10", True),
        ("010.244.003.04", True),
        ("::ffff:10.244.3.4", True),
        ("127.0.0.1", True),
        ("::1", True),
        ("169.254.169.254", True),
        ("192.0.2.1", False),
        ("db.example", False),
    ],
)
def test_addresses_of_the_host_follow_from_the_settings(address: str, is_theirs: bool) -> None:
    settings = TranslationSettings(pod_cidrs=("10.244.0.0/16",), cluster_dns=("10.96.0.10",))
    assert settings.is_of_host(address) == is_theirs


@pytest.mark.parametrize(("scope", "is_applied"), [(True, True), (False, False), (None, False)])
def test_kinds_inside_an_edge_application_have_the_scope_that_the_host_serves(
    scope: bool | None, is_applied: bool
) -> None:
    inside = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    outside = manifest(
        "apps.kubeedge.io/v1alpha1",
        "EdgeApplication",
        spec={"workloadTemplate": {"manifests": [inside]}},
    )
    context = replace(given.context(), is_namespaced=lambda _: scope)
    found = translate(outside, True, context)
    assert isinstance(found, HostObject) == is_applied, found


def test_groups_with_guards_are_not_unknown_ones() -> None:
    missing = {kind.group for kind in BY_KIND} - NAMED_GROUPS
    assert missing == set(), (
        "Strict refuses their kinds; add them to groups_inside of kind_policy.yaml"
    )


def test_a_misspelt_field_of_the_table_is_refused() -> None:
    row = {"says": "x", "at": ["kind"], "guadr": "ControllerKinds"}
    with pytest.raises(msgspec.ValidationError, match="guadr"):
        _checks([row])
