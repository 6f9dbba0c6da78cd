"""Finds, reads and follows a kubeconfig, or the account mounted into a Pod."""

import asyncio
import base64
import hashlib
import logging
import os
import re
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from yarl import URL

from karmada_vc_agent.kube.exec_credentials import ExecUser, PluginError, run_plugin
from karmada_vc_agent.kube.flows import LogOnce, in_daemon_thread
from karmada_vc_agent.kube.transport import Credentials, make_ssl_context
from karmada_vc_agent.model import user_text
from karmada_vc_agent.model.objects import maps_at
from karmada_vc_agent.model.user_text import one_line, read_small

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SERVICE_HOST = "KUBERNETES_SERVICE_HOST"
_HOST_UNKNOWN = (
    "is empty in this Pod, so it does not know the API server of its cluster: edge nodes of "
    "KubeEdge leave it empty, unless metaServer is on; run the agent on a node that is no edge, "
    "or give it a kubeconfig of the host by --kubeconfig"
)


class KubeconfigError(Exception):
    """A kubeconfig that cannot be used; says which file, where in it, and what is wrong."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))


def find_credentials(
    path: str, context: str = "", *, in_cluster_first: bool = False, flag: str = "--kubeconfig"
) -> Credentials:
    """Return the credentials of `path`, or of the default locations if it is "".

    These are KUBECONFIG, then ~/.kube/config, then the Pod's account; with in_cluster_first the
    Pod's account comes before the files. flag: how to give `path`. Raises KubeconfigError.
    """
    if path:
        return read_kubeconfig(Path(path), context)
    if in_cluster_first and _is_in_cluster():
        return in_cluster_credentials()
    candidates = [Path(p) for p in os.environ.get("KUBECONFIG", "").split(os.pathsep) if p]
    if not candidates and (home := os.environ.get("HOME")):
        candidates = [Path(home, ".kube", "config")]
    for candidate in candidates:
        if candidate.exists():
            return read_kubeconfig(candidate, context)
    if _is_in_cluster():
        return in_cluster_credentials()
    looked = ", ".join(str(c) for c in candidates) or "no KUBECONFIG, no HOME"
    if _is_in_pod():
        raise KubeconfigError(f"{_SERVICE_HOST} {_HOST_UNKNOWN} (looked for: {looked})")
    raise KubeconfigError(f"no kubeconfig found ({looked}), and not running in a Pod; give {flag}")


def _is_in_pod() -> bool:
    return (SERVICE_ACCOUNT / "token").exists()


def _is_in_cluster() -> bool:
    """Return whether the Pod's account and the host's address are there; edges leave that empty."""
    return bool(os.environ.get(_SERVICE_HOST)) and _is_in_pod()


def pod_namespace() -> str | None:
    """Return the namespace of the Pod this runs in, or None outside of a cluster."""
    try:
        return (SERVICE_ACCOUNT / "namespace").read_text().strip() or None
    except (OSError, ValueError):
        return None


def in_cluster_credentials() -> Credentials:
    host = os.environ[_SERVICE_HOST]
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    host = f"[{host}]" if ":" in host else host
    with _reported(f"{SERVICE_ACCOUNT}/ca.crt"):
        ca_pem = (SERVICE_ACCOUNT / "ca.crt").read_text()
        context = make_ssl_context(ca_pem, None, verify=True)
    token = _TokenFile(SERVICE_ACCOUNT / "token")
    server = f"https://{host}:{port}"
    return Credentials(server, context, "the Pod's service account", token, suspect=token.suspect)


def read_kubeconfig(path: Path, context_name: str = "") -> Credentials:
    """Read one file; context_name "" = its current-context. Raises KubeconfigError."""
    return parse_kubeconfig(_read(path), path, context_name)


def _read(path: Path) -> bytes:
    try:
        return read_small(path)
    except OSError as error:
        raise KubeconfigError(f"{path}: {error.strerror}") from error


@contextmanager
def _reported(where: object) -> Iterator[None]:
    """Report what cannot be read; ssl.SSLError is an OSError."""
    try:
        yield
    except (OSError, ValueError, PluginError) as error:
        raise KubeconfigError(f"{where}: {error}") from error


def parse_kubeconfig(text: bytes, path: Path, context_name: str = "") -> Credentials:
    """Return the credentials of a future or present file at `path`. Raises KubeconfigError."""
    config = _Config(text, path, context_name)
    who, source = f"{path}: the user of context {config.name}", f"{path} (context {config.name})"
    for field in ("auth-provider", "username"):
        if field in config.user.fields:
            problem = f"{field} is not supported; use exec, a token or a client certificate"
            raise KubeconfigError(f"{who}: {problem}")
    if "exec" in config.user.fields:
        credentials = _with_exec_plugin(config.server(), path, who, config.user.fields["exec"])
        credentials = replace(credentials, source=source)
    else:
        credentials = _credentials(config.cluster(), config.user, source)
    return replace(credentials, kubeconfig=path, context=context_name)


class _Section(NamedTuple):
    """An entry of a kubeconfig at `path`."""

    path: Path
    fields: dict[str, Any]

    def text(self, field: str) -> str | None:
        """Return a field that is a string on one line, None if unset."""
        value = self.fields.get(field)
        if value is not None and not _is_line(value):
            raise KubeconfigError(f"{self.path}: {field} must be a string on one line")
        return value

    def material(self, field: str) -> bytes | None:
        """Return the content of a field or of the file it names. Raises ValueError, OSError."""
        if data := self.text(f"{field}-data"):
            try:
                return base64.b64decode(data, validate=True)
            except ValueError as error:
                raise ValueError(f"{field}-data: {error}") from error
        file = self.text(field)
        return Path(self.path.parent, file).read_bytes() if file else None


class _Config:
    def __init__(self, text: bytes, path: Path, context_name: str) -> None:
        self._path = path
        self.content = _load(text, path)
        self.name = context_name or self.content.get("current-context") or ""
        if not self.name:
            raise KubeconfigError(f"{path}: current-context is not set; specify a context")
        self._context = self._entry("context", self.name).fields
        self.user_name = self._context.get("user") or ""
        self.user = self._entry("user", self.user_name) if self.user_name else _Section(path, {})

    def cluster(self) -> _Section:
        return self._entry("cluster", self._context.get("cluster") or "")

    def server(self) -> dict[str, Any]:
        """Return the cluster entry with inline certificate authorities."""
        cluster = self.cluster()
        with _reported(self._path):
            authority = cluster.material("certificate-authority")
        fields = {**cluster.fields}
        fields.pop("certificate-authority", None)
        if authority:
            fields["certificate-authority-data"] = base64.b64encode(authority).decode()
        return fields

    def _entry(self, kind: str, name: str) -> _Section:
        entries = maps_at(self.content, f"{kind}s")
        for entry in entries:
            fields = entry.get(kind) or {}
            if entry.get("name") == name and isinstance(fields, dict):
                return _Section(self._path, fields)
        names = ", ".join(str(entry.get("name")) for entry in entries) or "none"
        raise KubeconfigError(f'{self._path}: {kind}s has no "{name}" (there are: {names})')


def _load(text: bytes, path: Path) -> dict[str, Any]:
    """Return the content of a kubeconfig; `kind` is optional. Raises KubeconfigError."""
    with _reported(path):
        content = user_text.load_yaml(text)
    problem = ""
    if not isinstance(content, dict):
        problem = "is not a kubeconfig"
    elif (content.get("kind") or "Config") != "Config":
        problem = f"is of kind {content['kind']}, not a kubeconfig"
    elif not content.get("clusters") and not content.get("contexts"):
        problem = "has neither clusters nor contexts, so it is not a kubeconfig"
    if problem:
        expected = "expected a file of kind Config, with clusters, contexts and users"
        raise KubeconfigError(f"{path}: {problem}; {expected}")
    mapping: dict[str, Any] = content
    return mapping


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def client_certificate(text: bytes, path: Path, context_name: str = "") -> tuple[str, bytes] | None:
    """Return the user of a context and its certificate in PEM, if any. Raises KubeconfigError."""
    config = _Config(text, path, context_name)
    with _reported(f"{path}: certificate material"):
        certificate = config.user.material("client-certificate")
    return (config.user_name, certificate) if certificate else None


def with_client_certificate(
    text: bytes, path: Path, context_name: str, certificate: tuple[bytes, bytes]
) -> bytes:
    """Return a kubeconfig with this PEM for the user of a context. Raises KubeconfigError."""
    config = _Config(text, path, context_name)
    for field, pem in zip(("client-certificate", "client-key"), certificate, strict=True):
        config.user.fields.pop(field, None)
        config.user.fields[f"{field}-data"] = base64.b64encode(pem).decode()
    return yaml.safe_dump(config.content, sort_keys=False).encode()


def files_of(path: Path) -> list[Path]:
    """Return the paths of a kubeconfig and of the certificates and keys it refers to."""
    try:
        content = _load(_read(path), path)
    except KubeconfigError:
        return [path]
    entries = [*maps_at(content, "clusters"), *maps_at(content, "users")]
    parts = [part for entry in entries for part in entry.values() if isinstance(part, dict)]
    names = [part[field] for part in parts for field in _FILE_FIELDS if part.get(field)]
    return [path, *(path.parent / name for name in names if _is_line(name))]


_FILE_FIELDS = ("certificate-authority", "client-certificate", "client-key")


def read_server(path: Path, context_name: str = "") -> dict[str, Any]:
    """Return the cluster entry with inline certificate authorities. Raises KubeconfigError."""
    return _Config(_read(path), path, context_name).server()


def server_credentials(cluster: dict[str, Any], user: dict[str, Any], source: str) -> Credentials:
    path = Path(source)
    return _credentials(_Section(path, cluster), _Section(path, user), source)


def _credentials(cluster: _Section, user: _Section, source: str) -> Credentials:
    path = cluster.path
    server = (cluster.text("server") or "").rstrip("/")
    proxy = cluster.text("proxy-url")
    for field, url in (("server", server), ("proxy-url", proxy or server)):
        if not is_http_url(url):
            raise KubeconfigError(f'{path}: {field} "{url}" is not a valid http(s) URL')
    ssl_context = certificate = None
    if server.startswith("https"):
        with _reported(f"{path}: certificate material"):
            chain, key = user.material("client-certificate"), user.material("client-key")
            if bool(chain) != bool(key):
                raise ValueError("client-certificate and client-key go together")
            certificate = (chain, key) if chain and key else None
            ssl_context = _ssl_context(cluster, certificate)
    token = _token(user)
    return Credentials(
        server,
        ssl_context,
        source,
        token,
        cluster.text("tls-server-name") or None,
        proxy or None,
        suspect=token.suspect if isinstance(token, _TokenFile) else lambda: None,
        certificate=certificate[0] if certificate else None,
    )


def _ssl_context(cluster: _Section, certificate: tuple[bytes, bytes] | None) -> ssl.SSLContext:
    ca = cluster.material("certificate-authority")
    verify = not cluster.fields.get("insecure-skip-tls-verify")
    return make_ssl_context(ca.decode() if ca else None, certificate, verify=verify)


def _with_exec_plugin(server: dict[str, Any], path: Path, who: str, spec: Any) -> Credentials:
    """Return the credentials of a plugin; server: with inline data. Raises KubeconfigError."""
    cluster = _Section(path, server)
    plain = _credentials(cluster, _Section(path, {}), who)
    if not isinstance(spec, dict):
        raise KubeconfigError(f"{who}: exec is not a mapping")
    ssl_context = plain.ssl_context
    with _reported(who):
        user = ExecUser(run_plugin(spec, server, path.parent))
        if ssl_context is not None:
            ssl_context = _ssl_context(cluster, user.certificate)
    return replace(
        plain,
        ssl_context=ssl_context,
        token=lambda: user.token,
        suspect=user.suspect,
        is_outdated=user.is_outdated,
    )


def is_http_url(text: str) -> bool:
    try:
        url = URL(text)
    except ValueError:
        return False
    return url.scheme in ("http", "https") and bool(url.host) and url.port != 0


TOKEN_REREAD_S = 60.0
"""Kubelets renew a mounted token long before it expires; a minute's delay is fine."""
TOKEN_RETRY_S = 1.0
_TOKEN = re.compile(rb"[ -~]+")


class _TokenFile:
    """A bearer token in a file that is renewed by another writer."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._token = ""
        self._read_after = float("-inf")

    def __call__(self) -> str:
        """Return the last valid token, read again once a minute. Raises OSError without one."""
        now = self._clock()
        if now >= self._read_after:
            try:
                self._token = self._read()
                self._read_after = now + TOKEN_REREAD_S
            except OSError:
                self._read_after = now + TOKEN_RETRY_S
                if not self._token:
                    raise
        return self._token

    def suspect(self) -> None:
        self._read_after = min(self._read_after, self._clock() + TOKEN_RETRY_S)

    def _read(self) -> str:
        content = self._path.read_bytes().strip()
        if not _TOKEN.fullmatch(content):
            # Most of the time it is just being written.
            raise OSError(f"{self._path} contains no token")
        return content.decode()


def _token(user: _Section) -> Callable[[], str | None]:
    file, token = user.text("tokenFile"), user.text("token")
    if file:
        return _TokenFile(user.path.parent / file)
    if token and not token.isascii():
        raise KubeconfigError(f"{user.path}: token contains invalid characters")
    return lambda: token


_log = logging.getLogger(__name__)

FILE_CHECK_S = 10.0
"""A mounted Secret takes the kubelet a minute or more; ten more seconds do not matter."""
SUSPECT_CHECK_S = 1.0


class CredentialsFollower:
    """Reads the kubeconfig of some clients again when it, or a file it refers to, changes.

    use: called with the new credentials. The file is compared with its last valid content, not with
    what is in use: a mounted Secret that lags behind changes nothing.
    """

    def __init__(
        self, name: str, credentials: Credentials, use: Callable[[Credentials], None]
    ) -> None:
        self._name = name
        self._credentials = credentials
        self._path = credentials.kubeconfig
        self._use = use
        self._seen = self._digest()
        self._once = LogOnce(_log)
        self._is_suspect = asyncio.Event()

    async def run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(FILE_CHECK_S):
                    await self._is_suspect.wait()
                await asyncio.sleep(SUSPECT_CHECK_S)
            self._is_suspect.clear()
            await self.check()

    def suspect(self) -> None:
        self._credentials.suspect()
        self._is_suspect.set()

    async def check(self) -> None:
        """Use the content of the file if it changed; retry later if it is invalid."""
        digest = self._digest()
        if self._path is None or digest is None:
            return
        if digest == self._seen and not self._credentials.is_outdated():
            return
        try:
            # Its plugin, if it has one, may take seconds.
            read = partial(read_kubeconfig, self._path, self._credentials.context)
            credentials = await asyncio.wrap_future(in_daemon_thread(read, "kubeconfig"))
        except KubeconfigError as error:
            self._complain(str(error))
            return
        self._seen = digest
        self._once.ended()
        self._credentials = credentials
        _log.info(
            "Using changed credentials", extra={"server": self._name, "url": credentials.server}
        )
        self._use(credentials)

    def _complain(self, reason: str) -> None:
        text = "Keeping the old credentials: the kubeconfig gives no others"
        self._once.warning(text, server=self._name, reason=reason)

    def _digest(self) -> bytes | None:
        """Return a digest of the content of the files; None if one of them has none now."""
        content = hashlib.sha256()
        for path in files_of(self._path) if self._path is not None else ():
            try:
                content.update(read_small(path))
            except OSError as error:
                self._complain(f"{path}: {error.strerror}")
                return None
        return content.digest()
