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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from karmada_vc_agent.kube.certificates import read_certificate
from karmada_vc_agent.model.objects import timestamp
from karmada_vc_agent.model.user_text import one_line

PLUGIN_S = 30.0
_GROUP = "client.authentication.k8s.io"
_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_SHOWN = 500
_CLUSTER_INFO = (
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "certificate-authority-data",
    "proxy-url",
)
"""What plugins get about a cluster of a kubeconfig, besides their own extension."""


class PluginError(Exception):
    """The plugin cannot be run, failed, or gave nothing."""


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    status: _ExecStatus | None = None


def run_plugin(spec: Mapping[str, Any], cluster: Mapping[str, Any], folder: Path) -> _ExecStatus:
    """Run a plugin once; it is ended, with all that it started, when its time is over.

    spec: the `exec` of the user in a kubeconfig. cluster: what the plugin gets about the cluster,
    where it requests that. folder: of the kubeconfig. Raises PluginError.
    """
    version = spec.get("apiVersion")
    if version not in _VERSIONS:
        problem = f"exec.apiVersion is {json.dumps(version)}, must be {' or '.join(_VERSIONS)}"
        raise PluginError(problem)
    try:
        output = _output(spec, cluster, folder)
    except PluginError as error:
        hint = spec.get("installHint")
        raise PluginError(f"{error}; {one_line(str(hint))}" if hint else str(error)) from error
    try:
        answer = msgspec.json.decode(output, type=_ExecCredential)
    except (msgspec.MsgspecError, ValueError) as error:
        raise PluginError(f"its plugin gave no ExecCredential: {error}") from error
    if answer.api_version != version:
        text = f"its plugin answered with apiVersion {answer.api_version}, requested {version}"
        raise PluginError(text)
    status = answer.status or _ExecStatus()
    chain, key = status.client_certificate_data, status.client_key_data
    if bool(chain) != bool(key) or not (status.token or chain):
        problem = (
            "its plugin returned no credential: neither a token nor both clientCertificateData and "
            "clientKeyData; check that it works by hand"
        )
        raise PluginError(problem)
    return status


def _output(spec: Mapping[str, Any], cluster: Mapping[str, Any], folder: Path) -> bytes:
    command = str(spec.get("command") or "")
    if not command:
        raise PluginError("exec.command is not set")
    if os.sep in command:
        command = str(folder / command)
    name, is_interactive = Path(command).name, _is_interactive(spec)
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
    with process:
        try:
            output, errors = process.communicate(timeout=None if is_interactive else PLUGIN_S)
        except BaseException as error:
            # In a session of its own with all that it started, which hold its pipes.
            with suppress(ProcessLookupError, PermissionError):
                if is_interactive:
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            problem = f"its plugin {name} did not answer within {PLUGIN_S:g} s and was ended"
            raise PluginError(problem) from error
    if process.returncode:
        text = one_line((errors or b"").decode(errors="replace"))[-_SHOWN:].strip()
        problem = f"its plugin {name} failed with exit code {process.returncode}"
        raise PluginError(f"{problem}: {text}" if text else problem)
    return output


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
        info = {name: cluster[name] for name in _CLUSTER_INFO if cluster.get(name)}
        for extension in cluster.get("extensions") or ():
            if extension.get("name") == f"{_GROUP}/exec":
                info["config"] = extension.get("extension")
        request["cluster"] = info
    credential = {"apiVersion": spec["apiVersion"], "kind": "ExecCredential", "spec": request}
    own = {str(each["name"]): str(each["value"]) for each in spec.get("env") or ()}
    return {**os.environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(credential)}


RENEWAL_MARGIN_S = 300.0
RENEWAL_FRACTION = 0.2
"""Renewed so long before the end, or when this fraction of the time is left, if that is later."""
BETWEEN_RUNS_S = 10.0
"""The shortest time between two runs of a plugin that fails, or gives what is rejected."""


class ExecUser:
    """What a plugin gave. certificate: in PEM. wall_clock: Unix time. Raises PluginError."""

    def __init__(self, given: _ExecStatus, wall_clock: Callable[[], float] = time.time) -> None:
        self._now = wall_clock
        self.token = given.token
        self.certificate: tuple[bytes, bytes] | None = None
        if given.client_certificate_data and given.client_key_data:
            pair = given.client_certificate_data, given.client_key_data
            self.certificate = pair[0].encode(), pair[1].encode()
        self._taken_at = wall_clock()
        self._is_suspect = False
        expires = given.expiration_timestamp
        end = min(expires.timestamp() if expires else float("inf"), self._end_of_certificate())
        left_s = max(0.0, end - self._taken_at)
        self._renewed_after = end - min(RENEWAL_MARGIN_S, RENEWAL_FRACTION * left_s)

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

    def _end_of_certificate(self) -> float:
        """Return when the certificate ends; without one, never. Raises PluginError."""
        if self.certificate is None:
            return float("inf")
        try:
            end = read_certificate(self.certificate[0]).not_after
        except ValueError as error:
            raise PluginError(f"its plugin gave no valid certificate: {error}") from error
        if end.timestamp() <= self._taken_at:
            moment = timestamp(end.astimezone(UTC))
            raise PluginError(f"its plugin gave a certificate that expired at {moment}")
        return end.timestamp()
