"""What tenants may write past their Works: an outcome by profile, as for what Works bring."""

import uuid
from collections.abc import Iterator

from e2e.escapes.attempt import (
    Attempt,
    Scene,
    all_alike,
    answer,
    by_work,
    refused_by_policy,
    refused_by_rbac,
)
from e2e.escapes.by_profile import (
    DNS_ENDPOINTS,
    GATEWAYS,
    ISTIO,
    MONITORS,
    PARAMETERS,
    external_name,
    external_names,
    gateway,
    of_istio,
    routes_of_others,
)
from e2e.escapes.by_work import pod
from e2e.lab import accounts, objects
from e2e.lab.api import Api, ApiError, Object, path_of
from e2e.lab.wait import PERIODIC_S, eventually, within

ALLOWED = ("LoadBalancerAddresses", "ExternalDNS", "WildcardHosts", "ExternalNames")
"""What the other branch of the scene is allowed."""
_ADDRESS = "192.0.2.53"
_ADDRESS_KEYS = (
    "metallb.io/loadBalancerIPs",
    "metallb.universe.tf/loadBalancerIPs",
    "kube-vip.io/loadbalancerIPs",
    "lbipam.cilium.io/ips",
    "io.cilium/lb-ipam-ips",
    "metallb.universe.tf/allow-shared-ip",
    "service.antrea.io/external-ip-pool",
    "service.kubernetes.io/tke-existed-lbid",
    "kubernetes.io/elb.id",
)
PROXY_CALLS = (
    "nginx.ingress.kubernetes.io/auth-url",
    "nginx.ingress.kubernetes.io/mirror-target",
    "traefik.ingress.kubernetes.io/router.middlewares",
    *("k8s.apisix.apache.org/auth-uri", "k8s.apisix.apache.org/svc-namespace"),
)
_BALANCERS = ("alb.ingress.kubernetes.io/group.name", "kubernetes.io/ingress.global-static-ip-name")
_DNS = "external-dns.alpha.kubernetes.io"
_ALIAS = "nginx.ingress.kubernetes.io/server-alias"


def _name() -> str:
    return f"hand-{uuid.uuid4().hex[:6]}"


def _service(namespace: str, address: str = "", **annotations: str) -> Object:
    manifest = objects.service(namespace, _name())
    manifest["spec"]["type"] = "LoadBalancer"
    if address:
        manifest["spec"]["loadBalancerIP"] = address
    manifest["metadata"]["annotations"] = annotations
    return manifest


def _ingress(namespace: str, *hosts: str, **annotations: str) -> Object:
    """Return an Ingress; without any hosts it has a default backend alone."""
    backend: Object = {"service": {"name": "web", "port": {"number": 80}}}
    http = {"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    rules = [http | ({"host": host} if host else {}) for host in hosts]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": _name(), "namespace": namespace, "annotations": annotations},
        "spec": {"rules": rules} if rules else {"defaultBackend": backend},
    }


def _plain(manifest: Object, host: str) -> Object:
    """Return an object of the same kind that every profile lets through."""
    namespace = manifest["metadata"]["namespace"]
    return _service(namespace) if manifest["kind"] == "Service" else _ingress(namespace, host)


def _change_to(manifest: Object) -> Object:
    """Return a merge patch that makes a plain object say what a manifest does."""
    spec: Object = {"rules": None, "defaultBackend": None}
    if manifest["kind"] == "Service":
        spec = {"loadBalancerIP": None}
    if manifest["spec"].get("externalName"):
        spec = {"type": None, "externalName": None, "ports": None, "selector": None}
    found = {key: manifest["spec"].get(key) for key in spec}
    return {"metadata": {"annotations": manifest["metadata"]["annotations"]}, "spec": found}


def _elsewhere(scene: Scene, namespace: str) -> Iterator[Object]:
    for name in external_names(scene):
        yield external_name(namespace, name)
    theirs = scene.theirs if namespace == scene.home else scene.mine
    yield external_name(namespace, f"web.{theirs.host_namespace('default')}.svc.cluster.local.")
    yield external_name(namespace, f"x.svc.{_ambiguous(scene)}.svc.cluster.local")


def _ambiguous(scene: Scene) -> str:
    """Return the name of a namespace of branch `b-v-<mine>`, but for the hash."""
    return f"shop-v-b-v-{scene.mine.name}--0123456789ab"


def _balanced(scene: Scene, namespace: str) -> Iterator[Object]:
    yield _service(namespace, _ADDRESS)
    for key in _ADDRESS_KEYS:
        yield _service(namespace, **{key: _ADDRESS})
    for key in _BALANCERS:
        yield _ingress(namespace, f"balanced.{scene.lab.id}.example.com", **{key: "theirs"})


def _named(scene: Scene, namespace: str) -> Iterator[Object]:
    host = f"named.{scene.lab.id}.example.com"
    for key in (f"{_DNS}/hostname", f"{_DNS}/internal-hostname", "dns.gardener.cloud/dnsnames"):
        yield _service(namespace, **{key: host})
        yield _ingress(namespace, host, **{key: host})


def _wide(scene: Scene, namespace: str) -> Iterator[Object]:
    domain = f"{scene.lab.id}.example.com"
    yield _ingress(namespace)
    yield _ingress(namespace, "")
    beside = _ingress(namespace, f"beside.{domain}")
    beside["spec"] |= _ingress(namespace)["spec"]
    yield beside
    yield _ingress(namespace, f"wide.{domain}", f"*.{domain}")
    for alias in (f"~^.*{domain}", f".{domain}"):
        yield _ingress(namespace, f"wide.{domain}", **{_ALIAS: alias})
    yield _ingress(namespace, f"wide.{domain}", **{"konghq.com/host-aliases": f"*.{domain}"})
    port = "haproxy-ingress.github.io/tcp-service-port"
    yield _ingress(namespace, f"wide.{domain}", **{port: "443"})


def _outcome(scene: Scene, tenant: Api, manifests: Iterator[Object]) -> str:
    """Try to make objects so, and to change plain ones until they are."""
    outcomes = []
    for manifest in manifests:
        outcomes.append(answer(refused_by_policy, tenant.create, manifest))
        if outcomes[-1] == "done":
            tenant.delete(path_of(manifest))
        plain = tenant.create(_plain(manifest, f"plain.{scene.lab.id}.example.com"))
        change = _change_to(manifest)
        outcomes.append(answer(refused_by_policy, tenant.patch, path_of(plain), change))
        if annotations := manifest["metadata"]["annotations"]:
            through = f"{path_of(plain)}/status"
            only = {"metadata": {"annotations": annotations}}
            outcomes.append(answer(refused_by_policy, tenant.patch, through, only))
        tenant.delete(path_of(plain))
    return all_alike(outcomes)


def _load_balancer(scene: Scene) -> str:
    return _outcome(scene, scene.tenant, _balanced(scene, scene.home))


def _dns_name(scene: Scene) -> str:
    return _outcome(scene, scene.tenant, _named(scene, scene.home))


def _hosts(scene: Scene) -> str:
    return _outcome(scene, scene.tenant, _wide(scene, scene.home))


def _external_name(scene: Scene) -> str:
    """Name what is of others; what is of its own stays allowed."""
    for namespace in (scene.home, scene.mine.host_namespace(scene.namespace)):
        for ending in ("", ".cluster.local", ".cluster.local."):
            own = external_name(scene.home, f"web.{namespace}.svc{ending}")
            scene.tenant.delete(path_of(scene.tenant.create(own)))
    return _outcome(scene, scene.tenant, _elsewhere(scene, scene.home))


def _of_host(scene: Scene) -> str:
    """Try a class of load balancers, and what a shared proxy would call, or take, of others."""
    service = objects.service(scene.home, _name())
    service["spec"] |= {"type": "LoadBalancer", "loadBalancerClass": "example.com/theirs"}
    host = f"calls.{scene.lab.id}.example.com"
    manifests = [service]
    manifests += [_ingress(scene.home, host, **{key: "http://theirs/x"}) for key in PROXY_CALLS]
    outcomes = []
    for manifest in manifests:
        outcomes.append(answer(refused_by_policy, scene.tenant.create, manifest))
        if outcomes[-1] == "done":
            scene.tenant.delete(path_of(manifest))
    return all_alike(outcomes)


def _pods(scene: Scene) -> str:
    """Try pods with volumes elsewhere, and annotations for addresses and names of pods."""
    outcomes = []
    annotations = {
        "cni.projectcalico.org/ipAddrs": '["198.51.100.7"]',
        "cni.projectcalico.org/allowedSourcePrefixes": '["198.51.100.0/24"]',
        "ipam.cilium.io/ipv4-pool": "theirs",
        "net.theirs.ovn.kubernetes.io/ip_address": "198.51.100.7",
        "k8s.ovn.org/routing-namespaces": scene.theirs.host_namespace("default"),
        f"{_DNS}/hostname": "x.y",
    }
    volumes: tuple[Object, ...] = (
        {"nfs": {"server": "192.0.2.1", "path": "/"}},
        {"iscsi": {"targetPortal": "192.0.2.1", "iqn": "iqn.2026-01.com.example:x", "lun": 0}},
        {"cephfs": {"monitors": ["192.0.2.1"]}},
        {"rbd": {"monitors": ["192.0.2.1"], "image": "theirs"}},
        {"glusterfs": {"endpoints": "theirs", "path": "/"}},
        {"csi": {"driver": "smb.csi.k8s.io", "volumeAttributes": {"source": "//theirs/x"}}},
    )
    specs: list[Object] = [{"volumes": [{"name": "v", **each}]} for each in volumes]
    for spec, named in (
        *((each, {}) for each in specs),
        *(({}, {k: v}) for k, v in annotations.items()),
    ):
        made = pod(scene.home, _name(), nodeSelector=scene.mine.selector, **spec)
        made["metadata"]["annotations"] = named
        outcomes.append(answer(refused_by_policy, scene.tenant.create, made))
        if outcomes[-1] == "done":
            scene.tenant.delete(path_of(made), force=True)
    plain = scene.tenant.create(pod(scene.home, _name(), nodeSelector=scene.mine.selector))
    change = {"metadata": {"annotations": {f"{_DNS}/hostname": "x.y"}}}
    outcomes.append(answer(refused_by_policy, scene.tenant.patch, path_of(plain), change))
    scene.tenant.delete(path_of(plain), force=True)
    return all_alike(outcomes)


def _routes(scene: Scene) -> str:
    """Try Gateways, routes and public names; what is of its own stays possible."""
    route: Object = {"apiVersion": f"{GATEWAYS}/v1", "kind": "HTTPRoute"}
    route["metadata"] = {"name": _name(), "namespace": scene.home}
    homes = [scene.home, scene.mine.host_namespace(scene.namespace)]
    parents = [{"name": "own"}, *({"name": "own", "namespace": each} for each in homes)]
    for own in (gateway(scene.home), route | {"spec": {"parentRefs": parents}}):
        scene.tenant.delete(path_of(scene.tenant.create(own)))
    public = route | {"apiVersion": f"{DNS_ENDPOINTS}/v1", "kind": "DNSEndpoint"}
    dns = {f"{_DNS}/hostname": "x.example.com"}
    manifests = (
        gateway(scene.home, listeners=[{"name": "web", "port": 80, "protocol": "HTTP"}]),
        gateway(scene.home, infrastructure={"annotations": dns}),
        gateway(scene.home, infrastructure={"annotations": {_ADDRESS_KEYS[0]: _ADDRESS}}),
        route | {"spec": {"hostnames": [f"*.{scene.lab.id}.example.org"]}},
        *(
            route | {"spec": {"parentRefs": [{"name": "public", "namespace": namespace}]}}
            for namespace in ("kube-system", _ambiguous(scene))
        ),
        route
        | {"apiVersion": f"{GATEWAYS}/v1alpha2", "kind": "TCPRoute"}
        | {"spec": {"parentRefs": [{"name": "public", "namespace": "kube-system"}]}},
        route | {"metadata": route["metadata"] | {"annotations": dns}, "spec": {}},
        public | {"spec": {"endpoints": [{"dnsName": "x.example.com"}]}},
    )
    outcomes = []
    for manifest in manifests:
        outcomes.append(answer(refused_by_policy, scene.tenant.create, manifest))
        if outcomes[-1] == "done":
            scene.tenant.delete(path_of(manifest))
    return all_alike(outcomes)


def _gateway_address(scene: Scene) -> str:
    wide = gateway(scene.home, addresses=[{"type": "IPAddress", "value": _ADDRESS}])
    return answer(refused_by_policy, scene.tenant.create, wide)


def _rules_of_others(scene: Scene) -> str:
    routes = routes_of_others(scene.home)
    return all_alike(answer(refused_by_policy, scene.tenant.create, each) for each in routes)


def _parameters(scene: Scene) -> str:
    wide = gateway(scene.home, infrastructure=PARAMETERS)
    outcome = answer(refused_by_policy, scene.tenant.create, wide)
    if outcome == "done":
        scene.tenant.delete(path_of(wide))
    return outcome


def _allowed(scene: Scene) -> str:
    home = scene.theirs.host_namespace("default")
    tenant = accounts.service_account(scene.lab.host, home, "allowed", scene.lab.directory)
    subject = accounts.subject(home, "allowed")
    scene.lab.host.create(accounts.role_binding(home, "cluster-admin", subject))
    eventually(tenant.patch, f"/api/v1/namespaces/{home}", {"metadata": {}})  # changes nothing
    return all_alike(
        _outcome(scene, tenant, manifests(scene, home))
        for manifests in (_balanced, _named, _wide, _elsewhere)
    )


def _older(scene: Scene) -> str:
    """Have an administrator write all that, and try to change something else of it."""
    outcomes = []
    for manifests in (_balanced, _named, _wide, _elsewhere):
        for manifest in manifests(scene, scene.home):
            scene.lab.host.create(manifest)
            change = {"metadata": {"annotations": {f"{scene.lab.id}/note": "x"}}}
            path = path_of(manifest)
            outcomes.append(answer(refused_by_policy, scene.tenant.patch, path, change))
            scene.tenant.delete(path)
    return all_alike(outcomes)


_REFUSED = "refused (422) by `shared-proxies`"


def _unknown_kind(scene: Scene) -> str:
    return _by_admin(scene, of_istio(scene.home))


def _only_translated(scene: Scene) -> str:
    """Have the host's Prometheus send its token to what it scrapes."""
    monitor: Object = {"apiVersion": f"{MONITORS}/v1", "kind": "ServiceMonitor"}
    monitor["metadata"] = {"name": _name(), "namespace": scene.home}
    token = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    monitor["spec"] = {"endpoints": [{"bearerTokenFile": token}]}
    return _by_admin(scene, monitor)


def _by_admin(scene: Scene, manifest: Object) -> str:
    """Try it with what any branch is given, which the agent writes as the host serves more."""
    account = _name()
    tenant = accounts.service_account(scene.lab.host, scene.home, account, scene.lab.directory)
    binding = accounts.role_binding(
        scene.home, "virtual-cluster-admin", accounts.subject(scene.home, account)
    )
    binding["metadata"]["name"] = account
    scene.lab.host.create(binding)
    expected = "done" if scene.tenancy == "Shared" else "forbidden (403), no right"

    def look() -> str:
        scene.lab.agents[0].join()  # roles of tenants are the host's: others have another profile
        tenant.get(path_of(manifest).rpartition("/")[0])
        outcome = answer(refused_by_rbac, tenant.create, manifest)
        assert outcome == expected, outcome
        return outcome

    return within(PERIODIC_S, look)


def _code(error: ApiError) -> str:
    return f"refused ({error.code})"


def _unknown_by_gateway(scene: Scene) -> str:
    expected = "done" if scene.tenancy == "Shared" else "refused (403)"

    def look() -> str:
        scene.lab.agents[0].join()  # as above
        outcome = answer(_code, scene.operator.create, of_istio(scene.namespace))
        assert outcome == expected, outcome
        return outcome

    return within(PERIODIC_S, look)


def _unknown_and_allowed(scene: Scene) -> str:
    """Bring one by a Work, with a Role that lets operators write them, and write another."""
    rule = {"apiGroups": [ISTIO], "resources": ["sidecars"], "verbs": ["*"]}
    name, here = _name(), scene.namespace
    role = accounts.cluster_role(name, rule) | {"kind": "Role"}
    binding = accounts.role_binding(
        here,
        name,
        {"kind": "Group", "apiGroup": accounts.RBAC, "name": "karmada-access"},
    )
    binding["roleRef"]["kind"], role["metadata"]["namespace"] = "Role", here
    assert by_work(scene, role, binding) == "applied"
    within(PERIODIC_S, scene.operator.create, of_istio(here, "Sidecar"))
    return by_work(scene, of_istio(here, "Sidecar"))


ATTEMPTS = (
    Attempt(
        "Tenant: a Service with `loadBalancerIP`, or this or a load balancer by annotation",
        "done",
        _load_balancer,
        strict=_REFUSED,
    ),
    Attempt(
        "Tenant: a Service or an Ingress with a name for external-dns",
        "done",
        _dns_name,
        strict=_REFUSED,
    ),
    Attempt(
        "Tenant: an Ingress for every host, for `*.` of a domain, or for a pattern",
        "done",
        _hosts,
        strict=_REFUSED,
    ),
    Attempt(
        "Tenant: `externalName` of Services and pods of others, or elsewhere",
        "done",
        _external_name,
        strict=_REFUSED,
    ),
    Attempt(
        "Tenant: a Service with `loadBalancerClass`, an Ingress whose proxy calls elsewhere",
        "done",
        _of_host,
        strict=_REFUSED,
    ),
    Attempt(
        "Tenant: a Gateway or a route for every host or with a name for external-dns, a "
        "DNSEndpoint",
        "done",
        _routes,
        strict="refused (422) by `shared-routes`",
    ),
    Attempt(
        "Tenant: a Gateway with `addresses`", "refused (422) by `shared-routes`", _gateway_address
    ),
    Attempt(
        "Tenant: a match of a route that is a rule of Traefik for a host of others",
        "refused (422) by `shared-routes`",
        _rules_of_others,
    ),
    Attempt(
        "Tenant: a Gateway with parameters of a controller (`infrastructure.parametersRef`)",
        "done",
        _parameters,
        strict="refused (422) by `shared-routes`",
    ),
    Attempt(
        "Tenant: a pod with a volume elsewhere, or an address, a network or a public name that it "
        "chooses",
        "done",
        _pods,
        strict="refused (422) by `pod-limits`",
    ),
    Attempt("Tenant: addresses, names and hosts where `allow` names them", "done", _allowed),
    Attempt("Tenant: changes something else of such objects that were there", "done", _older),
    Attempt(
        "Tenant: a kind that no table of the agent knows, by `virtual-cluster-admin`",
        "done",
        _unknown_kind,
        strict="forbidden (403), no right",
    ),
    Attempt(
        "Tenant: a kind that only the translation of Works confines (`ServiceMonitor`), by "
        "`virtual-cluster-admin`",
        "done",
        _only_translated,
        strict="forbidden (403), no right",
    ),
    Attempt(
        "Gateway: a kind that no table of the agent knows",
        "done",
        _unknown_by_gateway,
        strict="refused (403)",
    ),
    Attempt(
        "Gateway: such a kind where `allow` names it, by a Role of a Work; and a Work with one",
        "applied",
        _unknown_and_allowed,
    ),
)
