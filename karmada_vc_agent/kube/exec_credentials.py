"""Exec plugins of a kubeconfig: run once, for a token or a client certificate.

They may take seconds, and one event loop serves all. So no request waits for the next credential:
once `is_outdated`, minutes before the end, the follower of the kubeconfig reads it again in a
thread, and the previous one is sent until then.

Source: client.authentication.k8s.io/v1, client-go credential plugins.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from karmada_vc_agent.model.objects import timestamp
from karmada_vc_agent.model.user_text import one_line

PLUGIN_S = 30.0
"""The limit of a plugin that is not interactive."""
PERSON_S = 300.0
"""The limit of an interactive one: a person logs in."""
_GROUP = "client.authentication.k8s.io"
_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_SHOWN = 500


class PluginError(Exception):
    """The plugin cannot be run, failed, or gave nothing."""


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
    try:
        output = _output(spec, cluster, folder, is_interactive=_is_interactive(spec))
    except PluginError as error:
        hint = spec.get("installHint")
        raise PluginError(f"{error}; {one_line(str(hint))}" if hint else str(error)) from error
    return _parse(output, str(version))


def _output(
    spec: Mapping[str, Any], cluster: Mapping[str, Any], folder: Path, *, is_interactive: bool
) -> bytes:
    """Return what the plugin prints. Raises PluginError."""
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
        raise PluginError(f"its plugin cannot be run: {error}") from error
    name, limit_s = Path(command).name, PERSON_S if is_interactive else PLUGIN_S
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        _kill(process, is_alone=not is_interactive)
        problem = f"its plugin {name} did not answer within {limit_s:g} s and was ended"
        raise PluginError(problem) from error
    except BaseException:
        _kill(process, is_alone=not is_interactive)
        raise
    if process.returncode:
        text = one_line((errors or b"").decode(errors="replace"))[-_SHOWN:].strip()
        problem = f"its plugin {name} failed with exit code {process.returncode}"
        raise PluginError(f"{problem}: {text}" if text else problem)
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
    if bool(chain) != bool(key) or not (token or chain):
        problem = (
            "its plugin returned no credential: neither a token nor both clientCertificateData and "
            "clientKeyData; check that it works by hand"
        )
        raise PluginError(problem)
    certificate = (str(chain).encode(), str(key).encode()) if chain else None
    return _ExecCredential(str(token) if token else None, certificate, expires)


_CLUSTER_INFO = (
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "certificate-authority-data",
    "proxy-url",
)


def _cluster_info(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return what plugins get about a cluster of a kubeconfig."""
    info = {name: cluster[name] for name in _CLUSTER_INFO if cluster.get(name)}
    for extension in cluster.get("extensions") or ():
        if extension.get("name") == f"{_GROUP}/exec":
            info["config"] = extension.get("extension")
    return info


RENEWAL_MARGIN_S = 300.0
RENEWAL_FRACTION = 0.2
"""Renewed so long before the end, or when this fraction of the time is left, if that is later."""
BETWEEN_RUNS_S = 10.0
"""The shortest time between two runs of a plugin that fails, or gives what is rejected."""


class ExecUser:
    """The credential that a plugin gave. wall_clock: Unix time. Raises PluginError."""

    def __init__(self, given: _ExecCredential, wall_clock: Callable[[], float] = time.time) -> None:
        self._now = wall_clock
        self.token, self.certificate = given.token, given.certificate
        self._taken_at = wall_clock()
        self._is_suspect = False
        self._renewed_after = float("inf")
        expires = _end_of(given, self._taken_at)
        if expires is not None:
            left_s = max(0.0, expires - self._taken_at)
            self._renewed_after = expires - min(RENEWAL_MARGIN_S, RENEWAL_FRACTION * left_s)

    def suspect(self) -> None:
        """Have the plugin run again soon: the server rejected what it gave."""
        self._is_suspect = True

    def is_outdated(self) -> bool:
        """Return whether it is time to run the plugin again; once, as that run may fail."""
        now = self._now()
        is_rejected = self._is_suspect and now - self._taken_at >= BETWEEN_RUNS_S
        if not is_rejected and now < self._renewed_after:
            return False
        self._taken_at = now
        self._renewed_after = max(self._renewed_after, now + BETWEEN_RUNS_S)
        return True


def _end_of(given: _ExecCredential, now: float) -> float | None:
    """Return when it ends, by its certificate or by what the plugin says. Raises PluginError."""
    if given.certificate is None:
        return given.expires
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
