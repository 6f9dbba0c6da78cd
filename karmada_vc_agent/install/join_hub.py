"""The input of `join`, its checks and rights on the hub; every step can be repeated."""

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from karmada_vc_agent.access.admission import PolicyOwner
from karmada_vc_agent.access.agent_objects import HostInstall, pod_affinity
from karmada_vc_agent.access.rights import HUB_SECRET, HubAccess, hub_objects, named_clusters
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH, agent_id, agent_of, cluster_id
from karmada_vc_agent.cluster.rules.cluster_objects import served_by_another
from karmada_vc_agent.commands.shared import CommandError, waiting
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.install import host_rights
from karmada_vc_agent.install.apply_objects import MANAGER, Changes, apply_all
from karmada_vc_agent.kube import certificates
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import ServedApis
from karmada_vc_agent.kube.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    NotServedError,
    PageError,
    UnauthorizedError,
)
from karmada_vc_agent.kube.flows import retry_on
from karmada_vc_agent.kube.kubeconfig import read_kubeconfig, read_server, server_credentials
from karmada_vc_agent.kube.new_keys import new_request
from karmada_vc_agent.kube.transport import Credentials, make_ssl_context
from karmada_vc_agent.model import versions, vocabulary
from karmada_vc_agent.model.objects import Object, annotations_of, dig
from karmada_vc_agent.model.user_text import plain_address
from karmada_vc_agent.runner.hub_presence import check_apart, check_karmada
from karmada_vc_agent.runner.parts import Described

SIGNING_S = 60.0
POLL_S = 0.2
RENEW_BELOW = 0.2
"""`join` replaces a certificate with less than this fraction of its lifetime left."""
HUB_NAME = "karmada-apiserver"
_ATTEMPTS = 5


def user_entry(certificate: bytes, key: bytes) -> Object:
    """Return the user entry of a kubeconfig for a client certificate, both in PEM."""
    return {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }


async def request_certificate(
    hub: ApiClient, user: str, prefix: str, lifetime_s: int, *, approves: bool
) -> tuple[Object, str]:
    """Have the hub sign a client certificate; return its entry of a kubeconfig, and the CSR's name.

    approves: approve the CSR as the user of `hub`; otherwise the hub's own controller approves what
    a bootstrap token may request. Raises KubeError, CommandError.
    """
    parts = {NameOID.ORGANIZATION_NAME: vocabulary.AGENTS_GROUP, NameOID.COMMON_NAME: user}
    subject = x509.Name([x509.NameAttribute(kind, text) for kind, text in parts.items()])
    key, request = new_request(subject)
    name = f"{prefix}-{secrets.token_hex(3)[:5]}"
    csr = certificates.signing_request(name, request, lifetime_s)
    csr["metadata"]["labels"] = {vocabulary.SYSTEM_LABEL: "true"}
    await hub.create(certificates.SIGNING_REQUESTS_PATH, csr)
    if approves:
        await retry_on(ConflictError, _ATTEMPTS, lambda: _approve(hub, name))
    return user_entry(await _wait_signed(hub, name), key), name


def kubeconfig_text(cluster: Object, name: str, user: Object) -> str:
    """Return a kubeconfig with the names of `karmadactl register` (contract 1.7 point 7)."""
    context = f"{name}@{HUB_NAME}"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": HUB_NAME, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": context, "context": {"cluster": HUB_NAME, "user": name}}],
        "current-context": context,
    }
    return str(yaml.safe_dump(content, sort_keys=False))


def is_valid_for(kubeconfig: str, cluster: Object, common_name: str) -> bool:
    """Return whether a kubeconfig, "" = none, is for this server and user, and not near its end."""
    try:
        content: Any = yaml.safe_load(kubeconfig)
        data = dig(content, "users", 0, "user", "client-certificate-data")
        certificate = certificates.read_certificate(base64.b64decode(data))
    except (yaml.YAMLError, TypeError, ValueError):
        return False
    return (
        dig(content, "clusters", 0, "cluster") == cluster
        and [text for oid, text in certificate.subject if oid == certificates.COMMON_NAME]
        == [common_name.encode()]
        and certificate.remaining(datetime.now(UTC)) > RENEW_BELOW
    )


async def _approve(hub: ApiClient, name: str) -> None:
    path = f"{certificates.SIGNING_REQUESTS_PATH}/{name}"
    csr = await hub.get(path)
    conditions = dig(csr, "status", "conditions") or []
    if any(condition["type"] == "Approved" for condition in conditions):
        return  # the hub's controller was faster: it also approves requests of administrators
    approved = {
        "type": "Approved",
        "status": "True",
        "reason": "KarmadaVcAgentJoin",
        "message": "Approved by the administrator who ran karmada-vc-agent join.",
    }
    csr["status"] = {**(csr.get("status") or {}), "conditions": [*conditions, approved]}
    await hub.replace(f"{path}/approval", csr)


async def _wait_signed(hub: ApiClient, name: str) -> bytes:
    csr: Object = {}
    try:
        async with waiting(f"the hub to sign CertificateSigningRequest {name}", SIGNING_S):
            while not (certificate := dig(csr, "status", "certificate")):
                await asyncio.sleep(POLL_S)
                csr = await hub.get(f"{certificates.SIGNING_REQUESTS_PATH}/{name}")
                if reason := certificates.request_refusal(csr):
                    raise CommandError(f"CertificateSigningRequest {name}: {reason}")
            return base64.b64decode(certificate)
    except TimeoutError:
        is_approved = dig(csr, "status", "conditions")
        said = "although it is approved" if is_approved else "it is not approved"
        raise CommandError(
            f"CertificateSigningRequest {name} was not signed within {SIGNING_S:.0f} s ({said}); "
            "check that controller agentcsrapproving runs in karmada-controller-manager and "
            "csrsigning in the hub's kube-controller-manager. A hub made by karmada-operator lets "
            "no bootstrap token be approved: use --karmada-kubeconfig there"
        ) from None


CLUSTER_INFO_PATH = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
_SIGNATURE_PREFIX = "jws-kubeconfig-"
_TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
RETRY_S, SIGNED_WITHIN_S = 1.0, 30.0
"""The hub signs cluster-info for a new token shortly after the token was created."""
GENERATOR = vocabulary.USER_PREFIX + "rbac-generator"
GENERATOR_LIFETIME_S = 600
"""The shortest lifetime that Kubernetes signs; the key is discarded long before."""


def token_problem(text: str) -> str:
    """Return what is wrong with a bootstrap token, `<id>.<secret>`, or "". Never has the token."""
    must = "it must have six characters, a dot, sixteen characters"
    return "" if _TOKEN.fullmatch(text) else f"is not a valid bootstrap token: {must}"


def hash_problem(text: str) -> str:
    """Return what is wrong with a `--discovery-token-ca-cert-hash`, or ""."""
    must = "it must be sha256: and 64 hexadecimal digits"
    return "" if _HASH.fullmatch(text) else f'"{text}" is not a valid hash: {must}'


def public_key_hash(authority: bytes) -> str:
    """Return `sha256:<hex>` of the public key of a certificate authority in PEM."""
    key = x509.load_pem_x509_certificate(authority).public_key()
    der = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def verified_kubeconfig(cluster_info: Object, token: str) -> str:
    """Return the kubeconfig in a cluster-info that is signed with this token. Raises CommandError.

    The signature is a detached JWS, HS256 with the token's secret, and made once more to compare.
    """
    content = dig(cluster_info, "data", "kubeconfig") or ""
    token_id, _, secret = token.partition(".")
    signature = dig(cluster_info, "data", _SIGNATURE_PREFIX + token_id)
    if not signature:
        raise CommandError(
            f'the hub does not know token "{token_id}": it is wrong or has expired; create '
            "one with kubectl-karmada token create"
        )
    head = _base64url(f'{{"alg":"HS256","kid":"{token_id}"}}'.encode())
    signed = f"{head}.{_base64url(content.encode())}".encode()
    mac = hmac.new(secret.encode(), signed, hashlib.sha256).digest()
    if not hmac.compare_digest(signature.encode(), f"{head}..{_base64url(mac)}".encode()):
        raise CommandError(
            "cluster-info is not signed with this token: the token is wrong, or the server is "
            "not the hub"
        )
    return str(content)


def trusted_server(cluster_info: Object, token: str, ca_hashes: tuple[str, ...]) -> Object:
    """Return the cluster entry; ca_hashes: () = the signature is enough. Raises CommandError."""
    try:
        content: Any = yaml.safe_load(verified_kubeconfig(cluster_info, token))
        cluster = dig(content, "clusters", 0, "cluster")
        authority = base64.b64decode(cluster["certificate-authority-data"], validate=True)
        ca_hash = public_key_hash(authority)
    except (yaml.YAMLError, TypeError, KeyError, ValueError) as error:
        raise CommandError(f"cluster-info contains no usable kubeconfig: {error}") from error
    if ca_hashes and ca_hash not in ca_hashes:
        raise CommandError(
            f"the hub's certificate authority has hash {ca_hash}, which is not the given one: the "
            "server may not be the hub"
        )
    return dict(cluster)


async def discover_hub(endpoint: str, token: str, ca_hashes: tuple[str, ...]) -> Object:
    """Return a trusted cluster entry of the hub at `<host:port>` (contract 1.7).

    It is in kube-public/cluster-info, read without verification: the signature proves that a hub
    with this token wrote it, the pinned hash that its authority is the expected one, by which all
    further requests are verified. Raises CommandError, KubeError.
    """
    server = f"https://{endpoint}"
    anyone = Credentials(server, make_ssl_context(None, None, verify=False), endpoint)
    cluster = trusted_server(await _cluster_info(anyone, token), token, ca_hashes)
    return {**cluster, "server": server}


async def _cluster_info(credentials: Credentials, token: str) -> Object:
    """Read cluster-info; wait until it is signed for a token that is new."""
    token_id = token.partition(".")[0]
    when = "it does so shortly after a token was created"
    what = f'the hub to sign cluster-info for token "{token_id}"; {when}'
    async with ApiClient("hub", credentials, connections=1) as client:
        try:
            async with waiting(what, SIGNED_WITHIN_S):
                while True:
                    cluster_info = await client.get(CLUSTER_INFO_PATH)
                    if _SIGNATURE_PREFIX + token_id in (cluster_info.get("data") or {}):
                        return cluster_info
                    await asyncio.sleep(RETRY_S)
        except TimeoutError:
            return cluster_info  # still unsigned: verified_kubeconfig() reports it
        except (NotFoundError, PageError, ForbiddenError, UnauthorizedError) as error:
            raise CommandError(
                f"the hub does not publish ConfigMap kube-public/cluster-info ({error}), as one "
                "made by karmada-operator; use an administrator's kubeconfig "
                "(--karmada-kubeconfig) instead of a token"
            ) from error


def _base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


HUB, HOST = "hub", "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPlan:
    """All input of a `join`, which applies the manifests, or writes or prints them.

    settings: content of the settings file. sets_image: replace the one that was set.
    karmada_server: URL of the hub as the agent reaches it, "" = the one in the kubeconfig or
    cluster-info. directory: of the files to write; None = print, unless it applies.
    """

    access: HubAccess
    namespace: str
    config: AgentConfig
    settings: str
    image: str
    sets_image: bool
    sides: tuple[str, ...]
    kubeconfig: str
    lifetime_s: int
    karmada_kubeconfig: str = ""
    karmada_context: str = ""
    karmada_server: str = ""
    endpoint: str = ""
    token: str = ""
    ca_hashes: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    is_elsewhere: bool = False
    unconfined: bool = False
    applies: bool = False
    directory: Path | None = None
    is_dry: bool = False
    waits: bool = False

    def rights(
        self,
        served: ServedApis | None = None,
        installed: PolicyOwner | None = None,
        described: Described = host_rights.NOT_DESCRIBED,
    ) -> host_rights.HostRights:
        """Return what is to exist on the host, without the agent's kubeconfig for the hub."""
        config = self.config
        # Nodes in groups that the settings do not list have these labels.
        used = (each for each in config.sources.values() if each.is_used)
        labels = [label for each in used for label in each.node_labels]
        affinity = pod_affinity((*config.virtual_clusters, *described.objects), labels)
        install = HostInstall(
            self.access.agent,
            self.namespace,
            self.image,
            self.settings,
            affinity=affinity,
            is_elsewhere=self.is_elsewhere,
        )
        return host_rights.host_rights(
            install,
            config,
            self.access.clusters,
            served,
            installed,
            described,
            schedulers=self.schedulers,
            api_groups=self.api_groups,
        )

    def say(self, text: str) -> None:
        """Print a line: to stderr where the manifests go to stdout."""
        click.echo(text, err=not self.applies and self.directory is None)


async def hub_role(hub: ApiClient, agent: str) -> Object:
    """Return the ClusterRole of an agent on the hub, {} if there is none. Raises KubeError."""
    return await hub.find(f"{vocabulary.CLUSTER_ROLES_PATH}/{HubAccess(agent, ()).role}") or {}


async def check_hub(hub: ApiClient, access: HubAccess, namespace: str, uid: str) -> None:
    """Reject a hub that is none, and names that another agent or cluster uses there.

    namespace: the agent's on the host. uid: of the host's kube-system; empty = unknown, then only
    Push Clusters are detected. Raises CommandError, KubeError.
    """
    await check_karmada(hub)
    await check_apart(hub, uid)
    ids = {name: cluster_id(uid, name) if uid else "" for name in access.clusters}
    problems = []
    for cluster in (await hub.get(CLUSTERS_PATH)).get("items") or ():
        name, recorded_id = cluster["metadata"]["name"], dig(cluster, "spec", "id")
        is_push = dig(cluster, "spec", "syncMode") != "Pull"
        if name in ids and (recorded_id != ids[name] if uid else is_push):
            problems.append(
                f'Cluster "{name}" on the hub belongs to another member cluster (its spec.id is '
                f"{recorded_id}); give the virtual cluster another name"
            )
        elif name not in ids and recorded_id and recorded_id in ids.values():
            taken = f'Cluster "{name}" on the hub already has the id {recorded_id}'
            problems.append(f"{taken} of a virtual cluster of this host; remove it first")
        elif name in ids and agent_of(cluster) not in ("", agent_id(namespace, access.agent)):
            problems.append(served_by_another(name, agent_of(cluster)))
        if name == access.agent and name not in ids:
            taken = f'the agent would have the same user name as Cluster "{name}"'
            problems.append(f"{taken}; choose another agentName")
    owner = annotations_of(await hub_role(hub, access.agent)).get(vocabulary.HOST_ANNOTATION, "")
    if owner and access.host_id and owner != access.host_id:
        problems.append(
            f'ClusterRole "{access.role}" belongs to an agent "{access.agent}" on another host; '
            "choose another agentName"
        )
    if problems:
        raise CommandError(*problems)


_GENERATOR = (
    f"A token cannot create Roles: using Karmada's user {GENERATOR}, which has "
    "administrator rights, for a moment; its certificate request is deleted and its key "
    "discarded afterwards"
)


@dataclass(frozen=True, slots=True)
class Hub:
    """The hub and its entry in the agent's kubeconfig; is_admin: not a bootstrap token's user."""

    client: ApiClient
    cluster: Object
    is_admin: bool


@asynccontextmanager
async def connect(plan: JoinPlan) -> AsyncIterator[Hub]:
    """Connect to the hub. Raises KubeconfigError, CommandError, KubeError."""
    if plan.token:
        cluster = await discover_hub(plan.endpoint, plan.token, plan.ca_hashes)
        credentials = server_credentials(cluster, {"token": plan.token}, str(cluster["server"]))
    else:
        path = Path(plan.karmada_kubeconfig)
        credentials = read_kubeconfig(path, plan.karmada_context)
        cluster = read_server(path, plan.karmada_context)
    if plan.karmada_server:
        cluster = {**cluster, "server": plan.karmada_server}
    async with new_client(HUB, credentials) as client:
        yield Hub(client, cluster, is_admin=not plan.token)


@asynccontextmanager
async def administrator_of(plan: JoinPlan, hub: Hub) -> AsyncIterator[ApiClient]:
    """Lend a client that can create Roles: the administrator's own, or one by the token.

    A token by itself cannot create Roles. Karmada lets it become a user that can; that user's
    certificate lives ten minutes, its key is never stored, and its CSR is deleted.
    """
    if hub.is_admin:
        yield hub.client
        return
    plan.say(_GENERATOR)
    user, request = await request_certificate(
        hub.client, GENERATOR, "agent-rbac-generator", GENERATOR_LIFETIME_S, approves=False
    )
    server = hub.client.credentials.server
    async with new_client(HUB, server_credentials(hub.cluster, user, server)) as client:
        try:
            yield client
        finally:
            await client.delete(f"{certificates.SIGNING_REQUESTS_PATH}/{request}")


async def agent_kubeconfig(plan: JoinPlan, hub: Hub, installed: str, changes: Changes) -> str:
    """Return `installed` while it is good or the run is dry, else one that the hub signs."""
    access = plan.access
    if is_valid_for(installed, hub.cluster, access.user):
        return installed
    changes.report(f"hub: sign a client certificate for {access.user}")
    if changes.is_dry:
        return installed
    user, _ = await request_certificate(
        hub.client, access.user, access.agent, plan.lifetime_s, approves=hub.is_admin
    )
    return kubeconfig_text(hub.cluster, access.agent, user)


CRD_OF_WORKS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/works.work.karmada.io"


def warn_of_loopback(plan: JoinPlan, hub: Hub) -> None:
    """Warn of an address of the hub that leads nowhere from a Pod."""
    server = str(hub.cluster.get("server", ""))
    name = urlsplit(server).hostname or ""
    is_loopback = name == "localhost" or getattr(plain_address(name), "is_loopback", False)
    if is_loopback and HOST in plan.sides and not plan.is_elsewhere:
        where = f"inside a Pod {server} is the Pod itself, not the hub"
        warn(f"{where}; give the hub's address with --karmada-server")


def warn(text: str) -> None:
    """Print a warning to stderr, nothing for ""."""
    if text:
        click.echo(f"Warning: {text}", err=True)


async def warn_of_missing_fields(hub: Hub) -> None:
    """Warn of fields that Works of an older Karmada lack; a bootstrap token may not read them."""
    if hub.is_admin:
        with suppress(ForbiddenError, NotServedError):  # what is no hub is refused later
            for text in versions.missing_fields(await hub.client.find(CRD_OF_WORKS)):
                warn(f"the hub is of an older Karmada: {text}")


def new_client(name: str, credentials: Credentials) -> ApiClient:
    """Return a client of hub or host; its name is the manager of the fields that it writes."""
    return ApiClient(name, credentials, connections=8, user_agent=MANAGER)


async def host_uid(host: ApiClient) -> str:
    """Return the UID of the host's kube-system, from which ids are derived. Raises KubeError."""
    return str((await host.get("/api/v1/namespaces/kube-system"))["metadata"]["uid"])


async def grant_on_hub(hub: ApiClient, access: HubAccess, changes: Changes) -> None:
    """Grant an agent its rights on the hub; virtual clusters in its roles keep theirs."""
    role = await hub_role(hub, access.agent)
    names = dict.fromkeys((*named_clusters(role), *access.clusters))
    desired = hub_objects(replace(with_host_of(role, access), clusters=tuple(names)))
    await apply_all(hub, desired, changes)
    if not access.gateway:  # the agent has no right any more to the tokens that it published
        path = f"/api/v1/namespaces/{vocabulary.LEASE_NAMESPACE}/secrets"
        answer = await hub.get(path, {"labelSelector": f"{vocabulary.AGENT_LABEL}={access.agent}"})
        for name in (secret["metadata"]["name"] for secret in answer.get("items") or ()):
            await host_rights.remove_object(
                hub, f"{path}/{name}", f"Secret {vocabulary.LEASE_NAMESPACE}/{name}", changes
            )
    await host_rights.prune(hub, access.agent, desired, changes)


def with_host_of(role: Object, access: HubAccess) -> HubAccess:
    """Keep the mark of the host on the roles, which `join` and `leave` compare."""
    recorded = annotations_of(role).get(vocabulary.HOST_ANNOTATION, "")
    return replace(access, host_id=access.host_id or recorded)


async def installed_kubeconfig(host: ApiClient, namespace: str) -> str:
    """Return the installed agent's kubeconfig for the hub, or ""."""
    secret = await host.find(f"/api/v1/namespaces/{namespace}/secrets/{HUB_SECRET}")
    return base64.b64decode(dig(secret, "data", HUB_SECRET) or "").decode(errors="replace")
