"""Users of a kubeconfig that a program or a server vouches for: exec plugins and OIDC.

Programs and servers may take seconds, and one event loop serves all. So no request waits for the
next token: the previous one is sent until it is there. They are renewed minutes before they expire.

Exec plugins are run by hand, for the `kubernetes` package waits for a plugin without end, and never
requests a client certificate again. Source: client.authentication.k8s.io/v1, client-go credential
plugins.

Tokens are renewed in the background. A certificate belongs to connections: the follower of the
kubeconfig reads it again once `is_outdated`.

OIDC is left to the `kubernetes` package, which is imported only here (17 MB and 0.1 s).
"""

import json
import logging
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from karmada_vc_agent.kube.tasks import in_daemon_thread
from karmada_vc_agent.kube.transport import make_ssl_context
from karmada_vc_agent.model.objects import timestamp
from karmada_vc_agent.model.texts import one_line

_log = logging.getLogger(__name__)

CHECK_S = 10.0
"""The period of checks whether the token expires, and the shortest one between two runs."""


class _PluginToken:
    """The token that a plugin gave last.

    token: the first one. renew(force): returns the token, a new one if it expires soon or
    with `force`; may take long, may raise anything; None = there is none.
    """

    def __init__(
        self,
        token: str | None,
        renew: Callable[[bool], str | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._token = token
        self._renew = renew
        self._clock = clock
        self._check_after = clock() + CHECK_S
        self._is_suspect = False
        self._running: Future[None] | None = None

    def __call__(self) -> str | None:
        """Return the token at once; have it renewed in the background now and then."""
        is_running = self._running is not None and not self._running.done()
        if not is_running and self._clock() >= self._check_after:
            self._check_after = self._clock() + CHECK_S
            force, self._is_suspect = self._is_suspect, False
            self._running = in_daemon_thread(lambda: self._take(force=force), "token plugin")
        return self._token

    def suspect(self) -> None:
        """Have the plugin make another token soon: the server rejected this one."""
        self._is_suspect = True

    def _take(self, *, force: bool) -> None:
        try:
            self._token = self._renew(force) or self._token
        except Exception as error:  # noqa: BLE001 - the errors of plugins are undocumented
            _log.warning("Keeping the old token: its plugin failed", extra={"reason": str(error)})


PLUGIN_S = 30.0
"""The limit of a plugin that is not interactive."""
PERSON_S = 300.0
"""The limit of an interactive one: a person logs in."""
_GROUP = "client.authentication.k8s.io"
_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_SHOWN = 500


class PluginError(Exception):
    """The plugin cannot be run, or gave nothing."""


@dataclass(frozen=True, slots=True)
class _ExecCredential:
    """The response of a plugin. certificate: (chain, key) in PEM. expires: Unix time or None."""

    token: str | None = None
    certificate: tuple[bytes, bytes] | None = None
    expires: float | None = None


def run_plugin(
    spec: Mapping[str, Any], cluster: Mapping[str, Any], folder: Path
) -> _ExecCredential:
    """Run a plugin once; it is ended, with all that it started, when its time is over.

    spec: the `exec` of the user in a kubeconfig. cluster: what the plugin gets about the cluster,
    where it requests that. folder: of the kubeconfig. Raises PluginError.
    """
    version = spec.get("apiVersion")
    if version not in _VERSIONS:
        problem = f"exec.apiVersion is {json.dumps(version)}, must be {' or '.join(_VERSIONS)}"
        raise PluginError(problem)
    is_interactive = _is_interactive(spec)
    try:
        return _parse(_output(spec, cluster, folder, is_interactive=is_interactive), str(version))
    except _FailedError as error:
        hint = spec.get("installHint")
        problem = f"its plugin {error}"
        raise PluginError(f"{problem}; {one_line(str(hint))}" if hint else problem) from error


class _FailedError(Exception):
    """The plugin cannot be run, or failed; `str()` continues a sentence about it."""


def _output(
    spec: Mapping[str, Any], cluster: Mapping[str, Any], folder: Path, *, is_interactive: bool
) -> bytes:
    """Return what the plugin prints. Raises PluginError, _FailedError."""
    command = _command(spec, folder)
    try:
        process = subprocess.Popen(  # noqa: S603 - the kubeconfig names it
            [command, *map(str, spec.get("args") or ())],
            env=_environment(spec, cluster, is_interactive=is_interactive),
            stdin=None if is_interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if is_interactive else subprocess.PIPE,
            start_new_session=not is_interactive,
        )
    except (OSError, ValueError) as error:
        raise _FailedError(f"cannot be run: {error}") from error
    name, limit_s = Path(command).name, PERSON_S if is_interactive else PLUGIN_S
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        _kill(process, is_alone=not is_interactive)
        raise _FailedError(f"{name} did not answer within {limit_s:g} s and was ended") from error
    except BaseException:
        _kill(process, is_alone=not is_interactive)
        raise
    if process.returncode:
        text = one_line((errors or b"").decode(errors="replace"))[-_SHOWN:].strip()
        problem = f"{name} failed with exit code {process.returncode}"
        raise _FailedError(f"{problem}: {text}" if text else problem)
    return output


def _command(spec: Mapping[str, Any], folder: Path) -> str:
    """Return the program: with a slash in it, it is relative to the kubeconfig."""
    command = str(spec.get("command") or "")
    if not command:
        raise PluginError("exec.command is not set")
    return str(folder / command) if os.sep in command else command


def _is_interactive(spec: Mapping[str, Any]) -> bool:
    """Return whether the plugin may prompt at the terminal. Raises PluginError."""
    mode = spec.get("interactiveMode") or "IfAvailable"
    has_terminal = sys.stdin is not None and sys.stdin.isatty()
    if mode == "Always" and not has_terminal:
        raise PluginError("its plugin needs a terminal, and there is none")
    return mode != "Never" and has_terminal


def _environment(
    spec: Mapping[str, Any], cluster: Mapping[str, Any], *, is_interactive: bool
) -> dict[str, str]:
    request: dict[str, Any] = {"interactive": is_interactive}
    if spec.get("provideClusterInfo"):
        request["cluster"] = _cluster_info(cluster)
    info = {"apiVersion": spec["apiVersion"], "kind": "ExecCredential", "spec": request}
    own = {str(each["name"]): str(each["value"]) for each in spec.get("env") or ()}
    return {**os.environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(info)}


def _kill(process: subprocess.Popen[bytes], *, is_alone: bool) -> None:
    """Kill a plugin; in a session of its own with all that it started, which hold its pipes."""
    if is_alone:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    process.wait()


def _parse(output: bytes, version: str) -> _ExecCredential:
    """Return what an ExecCredential says. Raises PluginError."""
    try:
        answer = json.loads(output)
        answered_version, status = answer["apiVersion"], answer.get("status") or {}
        token, chain, key = (
            status.get(name) for name in ("token", "clientCertificateData", "clientKeyData")
        )
        text = status.get("expirationTimestamp")
        expires = datetime.fromisoformat(text).timestamp() if text else None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise PluginError(f"its plugin gave no ExecCredential: {error!r}") from error
    if answered_version != version:
        raise PluginError(
            f"its plugin answered with apiVersion {answered_version}, requested {version}"
        )
    if bool(chain) != bool(key):
        raise PluginError("its plugin gave only one of clientCertificateData and clientKeyData")
    if not token and not chain:
        problem = "its plugin returned no credential; check that it is installed and works by hand"
        raise PluginError(problem)
    certificate = (str(chain).encode(), str(key).encode()) if chain else None
    return _ExecCredential(str(token) if token else None, certificate, expires)


def _cluster_info(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return what plugins get about a cluster of a kubeconfig."""
    keys = (
        ("server", "server"),
        ("tls-server-name", "tls-server-name"),
        ("insecure-skip-tls-verify", "insecure-skip-tls-verify"),
        ("certificate-authority-data", "certificate-authority-data"),
        ("proxy-url", "proxy-url"),
    )
    info = {name: cluster[key] for key, name in keys if cluster.get(key)}
    for extension in cluster.get("extensions") or ():
        if extension.get("name") == f"{_GROUP}/exec":
            info["config"] = extension.get("extension")
    return info


RENEWAL_MARGIN_S = 300.0
RENEWAL_FRACTION = 0.2
"""Renewed so long before the end, or when this fraction of the time is left, if that is later."""


class ExecUser:
    """The last credential of a plugin; made by running it.

    run: runs the plugin; may raise PluginError. wall_clock: Unix time. Raises PluginError.
    """

    def __init__(
        self, run: Callable[[], _ExecCredential], wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._run = run
        self._now = wall_clock
        given = run()
        self.certificate = given.certificate
        self._certificate_ends = _end_of_certificate(given, wall_clock())
        self._taken_at = wall_clock()
        self._token_renewed_after = self._soon(given.expires)
        self._certificate_renewed_after = self._soon(self._certificate_ends)
        self._is_suspect = False
        self._token = _PluginToken(given.token, self._renewed) if given.token else None

    def token(self) -> str | None:
        """Return the bearer token at once, None if the plugin gives a certificate only."""
        return self._token() if self._token is not None else None

    def suspect(self) -> None:
        """Have the plugin run again soon: the server rejected what it gave."""
        self._is_suspect = True
        if self._token is not None:
            self._token.suspect()

    def is_outdated(self) -> bool:
        """Return whether it is time for another certificate."""
        if self.certificate is None:
            return False
        now = self._now()
        is_rejected = self._is_suspect and now - self._taken_at >= CHECK_S
        return is_rejected or now >= self._certificate_renewed_after

    def _renewed(self, force: bool) -> str | None:  # noqa: FBT001 - for PluginToken
        if not force and self._now() < self._token_renewed_after:
            return None
        given = self._run()
        self._token_renewed_after = self._soon(given.expires)
        return given.token

    def _soon(self, expires: float | None) -> float:
        """Return from when on to renew what expires."""
        if expires is None:
            return float("inf")
        left_s = max(0.0, expires - self._now())
        return expires - min(RENEWAL_MARGIN_S, RENEWAL_FRACTION * left_s)


def _end_of_certificate(given: _ExecCredential, now: float) -> float | None:
    """Return when a certificate ends, by itself or by what the plugin says. Raises PluginError."""
    if given.certificate is None:
        return None
    # Reading certificates costs memory, and few plugins give any.
    from karmada_vc_agent.kube.certificates import read_certificate  # noqa: PLC0415

    try:
        not_after = read_certificate(given.certificate[0]).not_after.timestamp()
    except ValueError as error:
        raise PluginError(f"its plugin gave no valid certificate: {error}") from error
    if not_after <= now:
        moment = timestamp(datetime.fromtimestamp(not_after, UTC))
        raise PluginError(f"its plugin gave a certificate that expired at {moment}")
    return min(not_after, given.expires) if given.expires is not None else not_after


_TOKEN_KEYS = ("BearerToken", "authorization")
"""Keys under which the `kubernetes` package stores a token: recent and earlier versions."""


class PluginUser:
    """The credential of the plugin of a context of a kubeconfig; made by running it.

    Raises PluginError.
    """

    def __init__(self, path: Path, context: str) -> None:
        try:
            from kubernetes import client, config  # noqa: PLC0415 - costs 17 MB, rarely needed
        except ImportError as error:
            problem = "OIDC needs karmada-vc-agent[exec-auth]; install it"
            raise PluginError(problem) from error
        self._load: Any = config.load_kube_config
        self._where = (str(path), context)
        self._settings: Any = client.Configuration()
        try:
            self._run()
        except Exception as error:  # the errors of plugins and of that package are undocumented
            raise PluginError(str(error)) from error
        self.token = _PluginToken(self._token(), self._renewed)
        if not self.token() and not self._has_certificate():
            problem = (
                "its plugin returned no credential; check that it is installed and works by hand"
            )
            raise PluginError(problem)

    def ssl_context(self) -> ssl.SSLContext:
        """Return the trust of the context, with the certificate of the plugin if it gave one.

        Raises OSError, ValueError.
        """
        settings = self._settings
        certificate = None
        if self._has_certificate():
            chain, key = (Path(file) for file in (settings.cert_file, settings.key_file))
            certificate = (chain.read_bytes(), key.read_bytes())
        ca = Path(settings.ssl_ca_cert).read_text() if settings.ssl_ca_cert else None
        return make_ssl_context(ca, certificate, verify=bool(settings.verify_ssl))

    def _run(self) -> None:
        path, context = self._where
        self._load(path, context, client_configuration=self._settings)

    def _renewed(self, force: bool) -> str | None:  # noqa: FBT001 - for PluginToken
        if force:
            self._run()
        elif self._settings.refresh_api_key_hook is not None:
            self._settings.refresh_api_key_hook(self._settings)  # runs it if its token ends soon
        return self._token()

    def _token(self) -> str | None:
        headers = (self._settings.api_key.get(name) for name in _TOKEN_KEYS)
        return next((text.removeprefix("Bearer ") for text in headers if text), None)

    def _has_certificate(self) -> bool:
        return bool(self._settings.cert_file and self._settings.key_file)
