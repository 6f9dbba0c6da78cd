"""Finds, reads and follows a kubeconfig, or the account mounted into a Pod."""

import asyncio
import base64
import hashlib
import logging
import os
import re
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from yarl import URL

from karmada_vc_agent.kube.exec_credentials import ExecUser, PluginError, run_plugin
from karmada_vc_agent.kube.flows import LogOnce, await_in_thread
from karmada_vc_agent.kube.transport import Credentials, make_ssl_context
from karmada_vc_agent.model import user_text
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
    home = os.environ.get("HOME")
    if not candidates and home:
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
    """Return the credentials of the account that is mounted into this Pod."""
    host = os.environ[_SERVICE_HOST]
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    host = f"[{host}]" if ":" in host else host
    try:
        ca_pem = (SERVICE_ACCOUNT / "ca.crt").read_text()
        context = make_ssl_context(ca_pem, None, verify=True)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise KubeconfigError(f"{SERVICE_ACCOUNT}/ca.crt: {error}") from error
    token = _TokenFile(SERVICE_ACCOUNT / "token")
    server = f"https://{host}:{port}"
    return Credentials(server, context, "the Pod's service account", token, suspect=token.suspect)


def read_kubeconfig(path: Path, context_name: str = "") -> Credentials:
    """Read one file; context_name "" = its current-context. Raises KubeconfigError."""
    try:
        return parse_kubeconfig(read_small(path), path, context_name)
    except OSError as error:
        raise KubeconfigError(f"{path}: {error.strerror}") from error


def parse_kubeconfig(text: bytes, path: Path, context_name: str = "") -> Credentials:
    """Return the credentials of a future or present file at `path`. Raises KubeconfigError."""
    content = load_kubeconfig(text, path)
    name = context_name or content.get("current-context") or ""
    context, user = _context_and_user(path, content, name)
    cluster = _named(path, content, "clusters", "cluster", context.get("cluster") or "")
    source = f"{path} (context {name})"
    for field in ("auth-provider", "username"):
        if field in user:
            problem = f"{field} is not supported; use exec, a token or a client certificate"
            raise KubeconfigError(f"{path}: the user of context {name}: {problem}")
    if "exec" in user:
        credentials = _with_exec_plugin(path, content, name, user["exec"])
    else:
        credentials = _credentials(path, cluster, user, source)
    return replace(credentials, kubeconfig=path, context=context_name)


def load_kubeconfig(text: bytes, path: Path) -> dict[str, Any]:
    """Return the content of a kubeconfig; path is for messages. Raises KubeconfigError."""
    try:
        content = user_text.load_yaml(text)
    except user_text.YamlError as error:
        raise KubeconfigError(f"{path}: {error}") from error
    if problem := _kind_problem(content):
        raise KubeconfigError(f"{path}: {problem}; {_EXPECTED}")
    mapping: dict[str, Any] = content
    return mapping


_EXPECTED = "expected a file of kind Config, with clusters, contexts and users"


def _kind_problem(content: Any) -> str | None:
    """Return why a file is not a kubeconfig, None if it may be one; `kind` is optional."""
    if not isinstance(content, dict):
        return "is not a kubeconfig"
    kind = content.get("kind") or "Config"
    if kind != "Config":
        return f"is of kind {kind}, not a kubeconfig"
    if not content.get("clusters") and not content.get("contexts"):
        return "has neither clusters nor contexts, so it is not a kubeconfig"
    return None


def client_certificate(text: bytes, path: Path, context_name: str = "") -> tuple[str, bytes] | None:
    """Return the user of a context and its certificate in PEM, if any. Raises KubeconfigError."""
    content = load_kubeconfig(text, path)
    context, user = _context_and_user(path, content, context_name)
    try:
        certificate = _material(path, user, "client-certificate")
    except (OSError, ValueError) as error:
        raise KubeconfigError(f"{path}: certificate material: {error}") from error
    return (context.get("user") or "", certificate) if certificate else None


def with_client_certificate(
    text: bytes, path: Path, context_name: str, certificate: tuple[bytes, bytes]
) -> bytes:
    """Return a kubeconfig with this PEM for the user of a context. Raises KubeconfigError."""
    content = load_kubeconfig(text, path)
    _, user = _context_and_user(path, content, context_name)
    for field, pem in zip(("client-certificate", "client-key"), certificate, strict=True):
        user.pop(field, None)
        user[f"{field}-data"] = base64.b64encode(pem).decode()
    return yaml.safe_dump(content, sort_keys=False).encode()


def files_of(path: Path) -> list[Path]:
    """Return the paths of a kubeconfig and of the certificates and keys it refers to."""
    try:
        content = load_kubeconfig(read_small(path), path)
    except (OSError, KubeconfigError):
        return [path]
    entries = [*_entries(content, "clusters"), *_entries(content, "users")]
    parts = [part for entry in entries for part in entry.values() if isinstance(part, dict)]
    names = [part[field] for part in parts for field in _FILE_FIELDS if part.get(field)]
    return [path, *(path.parent / name for name in names if _is_line(name))]


_FILE_FIELDS = ("certificate-authority", "client-certificate", "client-key")


def _context_and_user(
    path: Path, content: dict[str, Any], context_name: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    name = context_name or content.get("current-context") or ""
    if not name:
        raise KubeconfigError(f"{path}: current-context is not set; specify a context")
    context = _named(path, content, "contexts", "context", name)
    user_name = context.get("user") or ""
    return context, _named(path, content, "users", "user", user_name) if user_name else {}


def read_server(path: Path, context_name: str = "") -> dict[str, Any]:
    """Return the cluster entry with inline certificate authorities. Raises KubeconfigError."""
    try:
        content = load_kubeconfig(read_small(path), path)
    except OSError as error:
        raise KubeconfigError(f"{path}: {error.strerror}") from error
    return _server(path, content, context_name)


def _server(path: Path, content: dict[str, Any], context_name: str) -> dict[str, Any]:
    context, _ = _context_and_user(path, content, context_name)
    cluster = dict(_named(path, content, "clusters", "cluster", context.get("cluster") or ""))
    try:
        authority = _material(path, cluster, "certificate-authority")
    except (OSError, ValueError) as error:
        raise KubeconfigError(f"{path}: {error}") from error
    cluster.pop("certificate-authority", None)
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    return cluster


def server_credentials(cluster: dict[str, Any], user: dict[str, Any], source: str) -> Credentials:
    """Return the credentials of two entries with inline data. Raises KubeconfigError."""
    return _credentials(Path(source), cluster, user, source)


def _named(path: Path, content: dict[str, Any], section: str, kind: str, name: str) -> Any:
    entries = _entries(content, section)
    for entry in entries:
        section_entry = entry.get(kind) or {}
        if entry.get("name") == name and isinstance(section_entry, dict):
            return section_entry
    names = ", ".join(str(entry.get("name")) for entry in entries) or "none"
    raise KubeconfigError(f'{path}: {section} has no "{name}" (there are: {names})')


def _entries(content: dict[str, Any], section: str) -> list[dict[str, Any]]:
    listed = content.get(section)
    return [e for e in listed if isinstance(e, dict)] if isinstance(listed, list) else []


def _credentials(
    path: Path, cluster: dict[str, Any], user: dict[str, Any], source: str
) -> Credentials:
    server = (_text(path, cluster, "server") or "").rstrip("/")
    if not is_http_url(server):
        raise KubeconfigError(f'{path}: server "{server}" is not a valid http(s) URL')
    proxy = _text(path, cluster, "proxy-url")
    if proxy and not is_http_url(proxy):
        raise KubeconfigError(f'{path}: proxy-url "{proxy}" is not a valid http(s) URL')
    ssl_context = certificate = None
    try:
        if server.startswith("https"):
            certificate = _client_certificate(path, user)
            ssl_context = _ssl_context(path, cluster, certificate)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise KubeconfigError(f"{path}: certificate material: {error}") from error
    hostname = _text(path, cluster, "tls-server-name")
    token = _token(path, user)
    suspect = token.suspect if isinstance(token, _TokenFile) else lambda: None
    return Credentials(
        server,
        ssl_context,
        source,
        token,
        hostname or None,
        proxy or None,
        suspect=suspect,
        certificate=certificate[0] if certificate else None,
    )


def _text(path: Path, section: dict[str, Any], field: str) -> str | None:
    """Return a field that is a string on one line, None if unset."""
    value = section.get(field)
    if value is None:
        return None
    if not _is_line(value):
        raise KubeconfigError(f"{path}: {field} must be a string on one line")
    return str(value)


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def is_http_url(text: str) -> bool:
    """Return whether a text is the URL of a server."""
    try:
        url = URL(text)
    except ValueError:
        return False
    return url.scheme in ("http", "https") and bool(url.host) and url.port != 0


TOKEN_REREAD_S = 60.0
"""Kubelets renew a mounted token long before it expires; a minute's delay is fine."""
TOKEN_RETRY_S = 1.0
_TOKEN = re.compile(rb"[ -~]+")
"""Characters allowed in a header."""


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
        """Read the token again soon: the server rejected it."""
        self._read_after = min(self._read_after, self._clock() + TOKEN_RETRY_S)

    def _read(self) -> str:
        content = self._path.read_bytes().strip()
        if not _TOKEN.fullmatch(content):
            # Most of the time it is just being written.
            raise OSError(f"{self._path} contains no token")
        return content.decode()


def _token(path: Path, user: dict[str, Any]) -> Callable[[], str | None]:
    file = _text(path, user, "tokenFile")
    if file:
        return _TokenFile(path.parent / file)
    token = _text(path, user, "token")
    if token and not token.isascii():
        raise KubeconfigError(f"{path}: token contains invalid characters")
    return lambda: token


def _client_certificate(path: Path, user: dict[str, Any]) -> tuple[bytes, bytes] | None:
    """Return chain and key in PEM. Raises ValueError, OSError."""
    chain = _material(path, user, "client-certificate")
    key = _material(path, user, "client-key")
    if bool(chain) != bool(key):
        raise ValueError("client-certificate and client-key go together")
    return (chain, key) if chain and key else None


def _ssl_context(
    path: Path, cluster: dict[str, Any], certificate: tuple[bytes, bytes] | None
) -> ssl.SSLContext:
    ca = _material(path, cluster, "certificate-authority")
    verify = not cluster.get("insecure-skip-tls-verify")
    return make_ssl_context(ca.decode() if ca else None, certificate, verify=verify)


def _material(path: Path, section: dict[str, Any], field: str) -> bytes | None:
    data = _text(path, section, f"{field}-data")
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except ValueError as error:
            raise ValueError(f"{field}-data: {error}") from error
    file = _text(path, section, field)
    return Path(path.parent, file).read_bytes() if file else None


def _with_exec_plugin(path: Path, content: dict[str, Any], context: str, spec: Any) -> Credentials:
    cluster = _server(path, content, context)
    plain = _credentials(path, cluster, {}, f"{path} (context {context})")
    who = f"{path}: the user of context {context}"
    if not isinstance(spec, dict):
        raise KubeconfigError(f"{who}: exec is not a mapping")
    try:
        user = ExecUser(run_plugin(spec, cluster, path.parent))
    except PluginError as error:
        raise KubeconfigError(f"{who}: {error}") from error
    try:
        is_tls = plain.ssl_context is not None
        ssl_context = _ssl_context(path, cluster, user.certificate) if is_tls else None
    except (OSError, ValueError) as error:
        raise KubeconfigError(f"{who}: certificate material of its plugin: {error}") from error
    return replace(
        plain,
        ssl_context=ssl_context,
        token=lambda: user.token,
        suspect=user.suspect,
        is_outdated=user.is_outdated,
    )


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
        """Check periodically, and soon after a 401, until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(FILE_CHECK_S):
                    await self._is_suspect.wait()
                await asyncio.sleep(SUSPECT_CHECK_S)
            self._is_suspect.clear()
            await self.check()

    def suspect(self) -> None:
        """Check soon: the server rejected the credential."""
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
            credentials = await await_in_thread(read, "kubeconfig")
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
