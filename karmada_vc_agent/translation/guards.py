"""What in a manifest may affect others than its virtual cluster (ADR 23)."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from karmada_vc_agent.model import user_text, vocabulary
from karmada_vc_agent.model.objects import (
    GroupKind,
    GroupVersionKind,
    Object,
    annotations_of,
    dig,
    gvk_of,
    labels_of,
    values_at,
)
from karmada_vc_agent.model.virtual_cluster import Guard
from karmada_vc_agent.model.vocabulary import (
    GATEWAY_GROUP,
    SERVICE_ACCOUNT_TOKEN,
    SLICE_MANAGED_BY_LABEL,
)
from karmada_vc_agent.translation import kind_policy
from karmada_vc_agent.translation.context import Notice, NoticeCode, TranslationContext
from karmada_vc_agent.translation.kind_policy import (
    Code,
    RefusedError,
    has_rights_of_its_own,
    pod_spec_paths,
)
from karmada_vc_agent.translation.own_steps import own_service


def _annotations() -> Iterator[tuple[str, ...]]:
    """Yield each table of shared_annotations.yaml; an item is a key, or a domain with names."""
    text = Path(__file__).with_name("shared_annotations.yaml").read_bytes()
    for rows in user_text.load_yaml(text).values():
        parts = ([row] if isinstance(row, str) else _under(row) for row in rows)
        yield tuple(chain.from_iterable(parts))


def _under(row: Mapping[str, Iterable[str]]) -> Iterator[str]:
    return (f"{domain}/{name}" for domain, names in row.items() for name in names)


DNS_NAMES, HOST_KEYS, LOAD_BALANCER_KEYS, POD_ADDRESSES, PROXY_CALLS, COPIES = _annotations()

OWN_SOURCES = frozenset(
    (
        "name",
        *("configMap", "downwardAPI", "emptyDir", "ephemeral", "gitRepo", "hostPath", "image"),
        *("persistentVolumeClaim", "projected", "secret"),
    )
)
"""Keys of volumes of pods: the name, and what is of the pod's node or namespace or a registry."""
NETWORK_SOURCES = (
    *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc"),
    *("flexVolume", "flocker", "gcePersistentDisk", "glusterfs", "iscsi", "nfs"),
    *("photonPersistentDisk", "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos"),
    "vsphereVolume",
)
"""All others that the API server knows: a policy cannot ask for what it does not name."""


_TLS_HOSTS = "spec.tls[].hosts[]"
"""Of an Ingress: issuers make a certificate for them."""
_ROUTE_HOSTS, _LISTENER_HOSTS = "spec.hostnames[]", "spec.listeners[].hostname"

HOLDERS: Mapping[GroupKind, str] = {
    GroupKind("networking.k8s.io", "Ingress"): "spec.rules[].host",
    GroupKind(GATEWAY_GROUP, "HTTPRoute"): _ROUTE_HOSTS,
    GroupKind(GATEWAY_GROUP, "GRPCRoute"): _ROUTE_HOSTS,
    GroupKind(GATEWAY_GROUP, "TLSRoute"): _ROUTE_HOSTS,
    GroupKind(GATEWAY_GROUP, "Gateway"): _LISTENER_HOSTS,
    GroupKind(GATEWAY_GROUP, "ListenerSet"): _LISTENER_HOSTS,
    vocabulary.LISTENER_SET_BEFORE: _LISTENER_HOSTS,
}
"""Kind -> the path of the hosts that its objects use."""


def holds_names(gvk: GroupVersionKind) -> bool:
    """Return whether objects of a kind use shared names."""
    return gvk.group_kind in HOLDERS


def shared_names(obj: Object) -> dict[str, str]:
    """Return the hosts that an object uses, in lower case, each with its first path."""
    return dict(reversed(list(_names_in(obj))))


def _names_in(obj: Object) -> Iterator[tuple[str, str]]:
    place = HOLDERS.get(gvk_of(obj).group_kind)
    if place is None:
        return
    for key, value in annotations_of(obj).items():
        if key.endswith(HOST_KEYS):
            for host in re.split(r"[\s,]+", value.lower()):
                if host and not host.startswith(("~", "*", ".")):  # guards.py has wildcards
                    yield host, f'metadata.annotations["{key}"]'
    for path, value in chain(values_at(obj, place), values_at(obj, _TLS_HOSTS)):
        if value and isinstance(value, str):
            yield value.lower(), path


class _Finding(NamedTuple):
    """Something that may affect others, and its path; without a guard it is always refused."""

    code: Code
    path: str
    problem: str
    guard: Guard | None = None


Find = Callable[[Object, TranslationContext], Iterator[_Finding]]


Check = tuple[Find, Mapping[Guard, NoticeCode | None]]
"""A search, and the guards that may let a finding pass, each with the notice for it.

It reads the original manifest, with virtual names. A finding without a guard, or with one that is
not listed, is always refused; others by profile and `allow` (model/virtual_cluster.py).
"""


def pass_guards(
    obj: Object, gvk: GroupVersionKind, context: TranslationContext, *, is_shared: bool
) -> Iterator[Notice]:
    """Refuse the first finding that is not allowed; yield a notice for each guard that passes."""
    kind, reported = f"{gvk.group}/{gvk.kind}/{dig(obj, 'metadata', 'name')}", set()
    checks = [*BY_KIND.get(gvk.group_kind, ()), *OF_ALL]
    if has_rights_of_its_own(gvk.group_kind):
        checks.append(OF_CONTROLLER_KINDS)
    if is_shared:
        checks.append(OF_SHARED_KINDS)
    for find, guards in checks:
        for code, path, problem, guard in find(obj, context):
            if guard is None:
                raise RefusedError(code, path, problem)
            if guard not in guards or context.refuses(guard, kind):
                detail = f'{problem}; an administrator can allow it with "allow: [{guard}]"'
                raise RefusedError(code, path, detail)
            notice = guards[guard]
            if notice is not None and guard not in reported:
                reported.add(guard)
                yield Notice(notice, problem)


# --- volumes ----------------------------------------------------------------------------

_NOT_A_SOURCE = frozenset(
    (
        *("accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity"),
        *("persistentVolumeReclaimPolicy", "storageClassName", "volumeMode"),
        "volumeAttributesClassName",
    )
)
_ON_THE_NODE = ("hostPath", "local")


def _volume(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    """Find storage that may belong to others, a missing claim, and, refused always, recycling."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    forbidden = Code.VOLUME_FORBIDDEN
    path = "spec.persistentVolumeReclaimPolicy"
    reclaim = spec.get("persistentVolumeReclaimPolicy")
    if reclaim == "Recycle":
        problem = f'{path} "Recycle" runs a pod on any node to empty the volume; use Retain'
        yield _Finding(forbidden, path, problem)
    if reclaim == "Delete" and spec.get("hostPath"):
        problem = f'{path} "Delete" of a hostPath deletes files of the control plane; use Retain'
        yield _Finding(forbidden, path, problem)
    if not (dig(spec, "claimRef", "name") and dig(spec, "claimRef", "namespace")):
        problem = (
            "spec.claimRef is not set, so claims of other virtual clusters may bind the volume; "
            "set its name and namespace"
        )
        yield _Finding(forbidden, "spec.claimRef", problem, Guard.UNCLAIMED_VOLUMES)
    for source in sorted(key for key in spec if key not in _NOT_A_SOURCE and spec[key]):
        if source in _ON_THE_NODE:
            problem = f"spec.{source} is a directory or disk of a node"
            yield _Finding(forbidden, f"spec.{source}", problem, Guard.HOST_PATH)
        else:
            problem = f"spec.{source} refers to storage that may belong to others"
            yield _Finding(forbidden, f"spec.{source}", problem, Guard.NETWORK_VOLUMES)


def _snapshot_content(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    """Find handles of snapshots and volumes that may belong to others."""
    for handle in ("snapshotHandle", "volumeHandle"):
        if dig(obj, "spec", "source", handle):
            path = f"spec.source.{handle}"
            problem = f"{path} refers to storage that may belong to others"
            yield _Finding(Code.VOLUME_FORBIDDEN, path, problem, Guard.NETWORK_VOLUMES)


def _class_secrets(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    """Find Secrets in a namespace: all who name the class have its storage, and read the name."""
    parameters = obj.get("parameters")
    for key, value in parameters.items() if isinstance(parameters, dict) else ():
        if str(key).lower().endswith("namespace") and "${" not in str(value):
            path = f'parameters["{key}"]'
            problem = f"{path} {value} lets all who name the class use the Secret there"
            yield _Finding(Code.VOLUME_FORBIDDEN, path, problem, Guard.NETWORK_VOLUMES)


def _pods(obj: Object, context: TranslationContext) -> Iterator[_Finding]:
    """Find, in pods, volumes elsewhere, also inline CSI, and chosen addresses and networks."""
    for path, is_partial in pod_spec_paths(gvk_of(obj), context.settings.pod_templates):
        parent, _, last = path.rpartition(".")
        holders = values_at(obj, parent) if parent else iter([("", obj)])
        for where, pod in () if is_partial else holders:
            head = f"{where}." if where else ""
            yield from _volumes_of(dig(pod, last), f"{head}{last}")
            for key in sorted(k for k in annotations_of(pod) if k.endswith(POD_ADDRESSES)):
                here = f'{head}metadata.annotations["{key}"]'
                problem = f"{here} chooses an address or a network that others may have"
                yield _Finding(Code.ADDRESS_FORBIDDEN, here, problem, Guard.POD_ADDRESSES)


def _volumes_of(spec: Any, path: str) -> Iterator[_Finding]:
    volumes = dig(spec, "volumes")
    for i, volume in enumerate(volumes if isinstance(volumes, list) else ()):
        for source in sorted(volume.keys() - OWN_SOURCES) if isinstance(volume, dict) else ():
            here = f"{path}.volumes[{i}].{source}"
            problem = f"{here} refers to storage that may belong to others"
            yield _Finding(Code.VOLUME_FORBIDDEN, here, problem, Guard.NETWORK_VOLUMES)


_DEFAULT_CLASS = re.compile(r"/is-default-(virt-)?class$")


def _default_class(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    """Find annotations that make a class the default one."""
    for key, value in annotations_of(obj).items():
        if _DEFAULT_CLASS.search(key) and value == "true":
            path = f'metadata.annotations["{key}"]'
            problem = f"{path} would apply to all virtual clusters"
            yield _Finding(Code.KIND_FORBIDDEN, path, problem, Guard.DEFAULT_CLASSES)


_BALANCER_KEYS = frozenset(LOAD_BALANCER_KEYS)

# --- addresses --------------------------------------------------------------------------


def _service(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    """Find `externalIPs`, `loadBalancerIP`, `loadBalancerClass` and node ports."""
    code = Code.ADDRESS_FORBIDDEN
    for path, address in values_at(obj, "spec.externalIPs[]"):
        problem = f'{path} "{address}" would take over that address on the whole host'
        yield _Finding(code, path, problem, Guard.EXTERNAL_ADDRESSES)
    if address := dig(obj, "spec", "loadBalancerIP"):
        yield _balanced("spec.loadBalancerIP", address)
    for where, problem, guard in (
        ("spec.loadBalancerClass", "is a name of the host", Guard.LOAD_BALANCER_CLASSES),
        ("spec.ports[].nodePort", "is a port of all nodes", Guard.NODE_PORTS),
    ):
        for path, value in values_at(obj, where):
            if value:
                yield _Finding(code, path, f"{path} {value} {problem}", guard)


def _gateway_addresses(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    """Find `addresses`: controllers make them externalIPs of a Service of their own."""
    for path, address in values_at(obj, "spec.addresses[].value"):
        problem = f'{path} "{address}" would take over that address on the whole host'
        yield _Finding(Code.ADDRESS_FORBIDDEN, path, problem, Guard.EXTERNAL_ADDRESSES)


def _gateway_infrastructure(obj: Object, context: TranslationContext) -> Iterator[_Finding]:
    """Find what the Service of a Gateway would be refused: controllers copy annotations.

    And parameters of a controller: those of Envoy Gateway are pods in a namespace of the host.
    """
    path = "spec.infrastructure"
    if dig(obj, *path.split("."), "parametersRef"):
        here = f"{path}.parametersRef"
        problem = f"a controller makes of {here} what it says, with rights of its own"
        yield _Finding(Code.REFERENCE_FORBIDDEN, here, problem, Guard.CONTROLLER_KINDS)
    made = {"metadata": {"annotations": dig(obj, *path.split("."), "annotations")}}
    for find in (_external_dns, _load_balancer_keys, _proxy_calls, _snippets):
        for finding in find(made, context):
            where = finding.path.replace("metadata", path, 1)
            problem = finding.problem.replace("metadata", path, 1)
            yield finding._replace(path=where, problem=problem)


def _load_balancer_keys(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    """Find annotations that choose a load balancer or its address."""
    annotations = annotations_of(obj)
    for key in sorted(annotations.keys() & _BALANCER_KEYS):
        if annotations[key]:
            yield _balanced(f'metadata.annotations["{key}"]', annotations[key])


def _balanced(path: str, value: Any) -> _Finding:
    problem = f"{path} {value} belongs to the host; other virtual clusters may claim it too"
    return _Finding(Code.ADDRESS_FORBIDDEN, path, problem, Guard.LOAD_BALANCER_ADDRESSES)


def _external_name(obj: Object, context: TranslationContext) -> Iterator[_Finding]:
    """Find an `externalName` other than a Service in a namespace of its own."""
    path = "spec.externalName"
    name = dig(obj, *path.split("."))
    if name and not (isinstance(name, str) and own_service(name, context.settings.cluster_domain)):
        problem = (
            f'{path} "{name}" is not known to belong to the virtual cluster; write '
            "<service>.<namespace>.svc"
        )
        yield _Finding(Code.ADDRESS_FORBIDDEN, path, problem, Guard.EXTERNAL_NAMES)


def _endpoints(obj: Object, context: TranslationContext) -> Iterator[_Finding]:
    """Find addresses, except in slices that Karmada itself sends for a MultiClusterService."""
    if _is_dispatched(obj):
        return
    for where in (
        "subsets[].addresses[].ip",
        "subsets[].notReadyAddresses[].ip",
        "endpoints[].addresses[]",
    ):
        for path, address in values_at(obj, where):
            code, guard = Code.ADDRESS_FORBIDDEN, Guard.FOREIGN_ENDPOINTS
            if context.is_of_host(str(address)):
                problem = f'{path} "{address}" belongs to a node, pod or Service of others'
                yield _Finding(code, path, problem, Guard.HOST_ENDPOINTS)
            problem = f'{path} "{address}" is not known to belong to the virtual cluster'
            yield _Finding(code, path, problem, guard)


def _is_dispatched(obj: Object) -> bool:
    """Return whether Karmada itself sends a slice, for a MultiClusterService; templates cannot."""
    labels = labels_of(obj)
    return labels.get(SLICE_MANAGED_BY_LABEL) in vocabulary.MADE_BY_KARMADA and (
        not any(label in labels for label in vocabulary.BINDING_LABELS)
    )


# --- DNS names and proxies --------------------------------------------------------------

_SNIPPET = re.compile(r"[/-]snippets?$")
PROXY_CONFIGS = (
    *("haproxy-ingress.github.io/config-", "ingress.kubernetes.io/config-"),
    *(f"zalando.org/skipper-{what}" for what in ("filter", "predicate", "routes")),
    *("getambassador.io/config", "traefik.ingress.kubernetes.io/router.pathmatcher"),
)
"""Beginnings of keys: parts of a proxy's configuration, up to routes for any host."""
PATTERN_ENDS = ("/server-alias-regex", "/redirect-from-regex", "/tcp-service-port")
"""Annotations of an Ingress with a pattern for hosts, or that take a port from all."""
ALIASES = "^[ ,]*([A-Za-z0-9][A-Za-z0-9.-]*([ ,]+|$))*$"
"""Names that match one host each; a leading dot, `*`, `~` and the like match many."""
INGRESS_NGINX = "nginx.ingress.kubernetes.io/"
"""Writes paths and values of its annotations into its configuration, in which these end it; Traefik
makes paths and what routes match parts of a rule, in which a backtick ends them:"""
ENDS_OF_VALUES = r"[;{}\r\n]"
ENDS_OF_PATHS = r'[;\s"`]'


def _external_dns(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    """Find annotations that request a name outside of the cluster."""
    for key, value in annotations_of(obj).items():
        if key in DNS_NAMES and value:
            path = f'metadata.annotations["{key}"]'
            problem = f"{path} {value} is a public name; other virtual clusters may claim it too"
            yield _Finding(Code.ADDRESS_FORBIDDEN, path, problem, Guard.EXTERNAL_DNS)


def _dns_endpoint(_obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    """Find each object: external-dns publishes its names."""
    problem = "kind DNSEndpoint creates public names; other virtual clusters may claim them too"
    yield _Finding(Code.KIND_FORBIDDEN, "kind", problem, Guard.EXTERNAL_DNS)


def _snippets(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    """Find annotations that change the configuration of a proxy."""
    for key, value in annotations_of(obj).items():
        is_more = key.startswith(INGRESS_NGINX) and re.search(ENDS_OF_VALUES, str(value))
        if is_more or _SNIPPET.search(key) or key.startswith(PROXY_CONFIGS):
            yield _configures(f'metadata.annotations["{key}"]')


def _paths(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    """Find paths that are more than a path in the configuration of a proxy."""
    for path, value in values_at(obj, "spec.rules[].http.paths[].path"):
        if re.search(ENDS_OF_PATHS, str(value)):
            yield _configures(path)


def _matches(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    """Find what a route matches that is more than that in a rule of a proxy."""
    of_http = ("path.value", "headers[].value", "queryParams[].value")
    for where in (*of_http, "method.service", "method.method"):
        for path, value in values_at(obj, f"spec.rules[].matches[].{where}"):
            if "`" in str(value):
                yield _configures(path)


def _configures(path: str) -> _Finding:
    problem = f"{path} changes the configuration of a shared proxy"
    return _Finding(Code.ADDRESS_FORBIDDEN, path, problem, Guard.PROXY_SNIPPETS)


def _copies(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    """Find annotations by which a controller copies an object into, or from, other namespaces."""
    for key, value in annotations_of(obj).items():
        if key.startswith(COPIES) and value:
            path = f'metadata.annotations["{key}"]'
            problem = f"a controller copies by {path} between namespaces, with rights of its own"
            yield _Finding(Code.REFERENCE_FORBIDDEN, path, problem, Guard.CONTROLLER_KINDS)


def _scraped_by_files(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    """Find files of the host's Prometheus, which it sends to what it scrapes: its token is one."""
    tls = (f"tlsConfig.{name}File" for name in ("ca", "cert", "key"))
    for field in ("bearerTokenFile", *tls):
        for path, value in values_at(obj, f"spec.endpoints[].{field}"):
            if value:
                problem = f"{path} is a file of the Prometheus that scrapes, with its own rights"
                yield _Finding(Code.REFERENCE_FORBIDDEN, path, problem, Guard.CONTROLLER_KINDS)


def _proxy_calls(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    """Find annotations by which a shared proxy calls addresses, or takes objects, of others."""
    for key, value in annotations_of(obj).items():
        if key.endswith(PROXY_CALLS) and value:
            path = f'metadata.annotations["{key}"]'
            problem = f"{path} {value} is not known to belong to the virtual cluster"
            yield _Finding(Code.ADDRESS_FORBIDDEN, path, problem, Guard.FOREIGN_ENDPOINTS)


def _rule_calls(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    """Find a URL: CloudCore calls it, from the host's network."""
    path = "spec.targetResource.resource"
    if url := dig(obj, *path.split(".")):
        problem = f"{path} {url} is not known to belong to the virtual cluster"
        yield _Finding(Code.ADDRESS_FORBIDDEN, path, problem, Guard.FOREIGN_ENDPOINTS)


def _hosts(path: str, *, is_needed: bool) -> Find:
    """Make a search for hosts at a path that match many; is_needed: none matches all."""
    parent, _, last = path.rpartition(".")

    def check(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
        holders = values_at(obj, parent) if parent else iter([("", obj)])
        for where, holder in holders:
            value = dig(holder, last.removesuffix("[]"))
            here = f"{where}.{last}" if where else last
            if is_needed and not value:
                yield _many(f"{here} is not set, which matches every host", here)
            for host in value if isinstance(value, list) else [value]:
                if isinstance(host, str) and host.startswith("*"):
                    yield _many(f'{here} "{host}" matches many hosts', here)

    what = ", and where none is set" if is_needed else ""
    check.__doc__ = f"Find patterns at `{path}`{what}: they match hosts of others."
    return check


def _ingress(obj: Object, context: TranslationContext) -> Iterator[_Finding]:
    """Find rules, certificates, backends and aliases that match many hosts or every host."""
    if dig(obj, "spec", "defaultBackend"):
        path = "spec.defaultBackend"
        yield _many(f"{path} matches every host without a rule", path)
    yield from _hosts("spec.rules[].host", is_needed=True)(obj, context)
    yield from _hosts("spec.tls[].hosts[]", is_needed=False)(obj, context)
    for key, value in annotations_of(obj).items():
        is_pattern = key.endswith(PATTERN_ENDS) and value
        if is_pattern or (key.endswith(HOST_KEYS) and not re.match(ALIASES, str(value))):
            path = f'metadata.annotations["{key}"]'
            yield _many(f"{path} {value} matches many hosts", path)


def _many(problem: str, path: str) -> _Finding:
    problem = f"{problem}, also those of other virtual clusters"
    return _Finding(Code.HOST_FORBIDDEN, path, problem, Guard.WILDCARD_HOSTS)


def _account_token(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    """Find a Secret that Kubernetes fills with a token of an account."""
    if obj.get("type") == SERVICE_ACCOUNT_TOKEN:
        problem = (
            f'Kubernetes would write a token of the host into a Secret of type "{obj["type"]}", '
            "which does not expire; mount a projected token into the pod"
        )
        yield _Finding(Code.KIND_FORBIDDEN, "type", problem, Guard.ACCOUNT_TOKENS)


def _controller_kind(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    """Find each object: a controller with rights of its own reconciles it."""
    kind = gvk_of(obj).kind
    problem = f"a controller with rights of its own reconciles kind {kind}"
    yield _Finding(Code.KIND_FORBIDDEN, "kind", problem, Guard.CONTROLLER_KINDS)


def _shared_name(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    """Find each object: all virtual clusters share its name."""
    gvk = gvk_of(obj)
    problem = (
        f'all virtual clusters share the names of kind {gvk.kind}; "allow: [{gvk.group}/{gvk.kind}/'
        f'{dig(obj, "metadata", "name")}]" gives it this one'
    )
    yield _Finding(Code.NAME_RESERVED, "metadata.name", problem, Guard.SHARED_KINDS)


def _unknown_kind(obj: Object, context: TranslationContext) -> Iterator[_Finding]:
    """Find each object of a kind of a group that no table names, so that no rule holds it."""
    kind = gvk_of(obj).group_kind
    if kind_policy.is_named(kind) or kind in context.settings.cluster_scoped_kinds:
        return
    if not kind_policy.opens_kind(context.vc.allow, kind.group, kind_policy.plurals_of(kind.kind)):
        problem = (
            f"what kind {kind.kind} of {kind.group} may reach no table says; "
            f'"allow: [{kind.group}/{kind.kind}]" permits this kind'
        )
        yield _Finding(Code.KIND_FORBIDDEN, "kind", problem, Guard.UNKNOWN_KINDS)


_VOLUME = (
    _volume,
    {Guard.UNCLAIMED_VOLUMES: None, Guard.HOST_PATH: None, Guard.NETWORK_VOLUMES: None},
)
_SERVICE = (
    _service,
    {
        Guard.EXTERNAL_ADDRESSES: NoticeCode.SHARED_ADDRESS,
        Guard.LOAD_BALANCER_ADDRESSES: NoticeCode.SHARED_ADDRESS,
        **dict.fromkeys((Guard.LOAD_BALANCER_CLASSES, Guard.NODE_PORTS)),
    },
)
_CLASS = (_class_secrets, {Guard.NETWORK_VOLUMES: None})
_ENDPOINTS = (_endpoints, {Guard.HOST_ENDPOINTS: None, Guard.FOREIGN_ENDPOINTS: None})
_DNS = {Guard.EXTERNAL_DNS: NoticeCode.SHARED_ADDRESS}
_BALANCER = {Guard.LOAD_BALANCER_ADDRESSES: NoticeCode.SHARED_ADDRESS}
_INFRASTRUCTURE = {
    **_DNS,
    **_BALANCER,
    **dict.fromkeys((Guard.FOREIGN_ENDPOINTS, Guard.PROXY_SNIPPETS)),
    Guard.CONTROLLER_KINDS: NoticeCode.CONTROLLER_RIGHTS,
}
_BY_OTHERS = {Guard.CONTROLLER_KINDS: NoticeCode.CONTROLLER_RIGHTS}
_MANY_HOSTS = {Guard.WILDCARD_HOSTS: NoticeCode.HOST_SHARED}
_LISTENERS = (_hosts("spec.listeners[].hostname", is_needed=True), _MANY_HOSTS)
_ROUTE = (_hosts("spec.hostnames[]", is_needed=False), _MANY_HOSTS)
_MATCHES: Check = (_matches, {Guard.PROXY_SNIPPETS: None})

BY_KIND: Mapping[GroupKind, tuple[Check, ...]] = {
    vocabulary.PERSISTENT_VOLUME: (_VOLUME,),
    GroupKind("snapshot.storage.k8s.io", "VolumeSnapshotContent"): (
        (_snapshot_content, {Guard.NETWORK_VOLUMES: None}),
    ),
    GroupKind("", "Secret"): ((_account_token, {Guard.ACCOUNT_TOKENS: None}),),
    vocabulary.STORAGE_CLASS: (_CLASS,),
    GroupKind("snapshot.storage.k8s.io", "VolumeSnapshotClass"): (_CLASS,),
    vocabulary.SERVICE: (_SERVICE, (_external_name, {Guard.EXTERNAL_NAMES: None})),
    GroupKind("", "Endpoints"): (_ENDPOINTS,),
    vocabulary.ENDPOINT_SLICE: (_ENDPOINTS,),
    GroupKind("networking.k8s.io", "Ingress"): (
        (_ingress, _MANY_HOSTS),
        (_paths, {Guard.PROXY_SNIPPETS: None}),
    ),
    GroupKind("externaldns.k8s.io", "DNSEndpoint"): ((_dns_endpoint, _DNS),),
    GroupKind("monitoring.coreos.com", "ServiceMonitor"): ((_scraped_by_files, _BY_OTHERS),),
    GroupKind(GATEWAY_GROUP, "Gateway"): (
        (_gateway_addresses, {Guard.EXTERNAL_ADDRESSES: None}),
        (_gateway_infrastructure, _INFRASTRUCTURE),
        _LISTENERS,
    ),
    GroupKind(GATEWAY_GROUP, "ListenerSet"): (_LISTENERS,),
    vocabulary.LISTENER_SET_BEFORE: (_LISTENERS,),
    GroupKind("rules.kubeedge.io", "Rule"): ((_rule_calls, {Guard.FOREIGN_ENDPOINTS: None}),),
    GroupKind(GATEWAY_GROUP, "HTTPRoute"): (_ROUTE, _MATCHES),
    GroupKind(GATEWAY_GROUP, "GRPCRoute"): (_ROUTE, _MATCHES),
    GroupKind(GATEWAY_GROUP, "TLSRoute"): (_ROUTE,),
}
OF_ALL: tuple[Check, ...] = (
    (_default_class, {Guard.DEFAULT_CLASSES: None}),
    (_external_dns, _DNS),
    (_load_balancer_keys, _BALANCER),
    (_proxy_calls, {Guard.FOREIGN_ENDPOINTS: None}),
    (_pods, {Guard.NETWORK_VOLUMES: None, Guard.POD_ADDRESSES: NoticeCode.SHARED_ADDRESS}),
    (_snippets, {Guard.PROXY_SNIPPETS: None}),
    (_copies, _BY_OTHERS),
    (_unknown_kind, {Guard.UNKNOWN_KINDS: None}),
)
"""For objects of every kind."""
OF_CONTROLLER_KINDS: Check = (_controller_kind, _BY_OTHERS)
"""For objects of kinds in CONTROLLER_KINDS (kind_policy.py)."""
OF_SHARED_KINDS: Check = (_shared_name, {Guard.SHARED_KINDS: None})
"""For objects of the kinds that all virtual clusters share."""
