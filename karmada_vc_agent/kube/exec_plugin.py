"""Runs the exec plugin of a kubeconfig's user: a program that vouches for it.

By hand, for the `kubernetes` package waits for a plugin without end, and never asks again for a
client certificate. Source: client.authentication.k8s.io/v1, client-go credential plugins.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from karmada_vc_agent.model.texts import one_line

PLUGIN_S = 30.0
"""How long a plugin may take that has nobody to ask."""
PERSON_S = 300.0
"""How long one may take that has: somebody logs in."""
_GROUP = "client.authentication.k8s.io"
_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_SHOWN = 500


class PluginError(Exception):
    """The plugin cannot be run, or gave nothing."""


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """What a plugin gave. certificate: (chain, key) in PEM. expires: Unix time, None = unknown."""

    token: str | None = None
    certificate: tuple[bytes, bytes] | None = None
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A plugin as a kubeconfig declares it.

    spec: the `exec` of the user. cluster: what the plugin is told of the cluster, where it asks for
    that. folder: of the kubeconfig.
    """

    spec: Mapping[str, Any]
    cluster: Mapping[str, Any]
    folder: Path

    def run(self) -> ExecCredential:
        """Run it once; it is ended, with all that it started, when its time is over.

        Raises PluginError.
        """
        version = self.spec.get("apiVersion")
        if version not in _VERSIONS:
            problem = f"exec.apiVersion is {json.dumps(version)}, must be {' or '.join(_VERSIONS)}"
            raise PluginError(problem)
        asks = self._asks_somebody()
        try:
            process = subprocess.Popen(  # noqa: S603 - the kubeconfig names it
                [self._command(), *map(str, self.spec.get("args") or ())],
                env=self._environment(str(version), asks=asks),
                stdin=None if asks else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if asks else subprocess.PIPE,
                start_new_session=not asks,
            )
        except (OSError, ValueError) as error:
            raise PluginError(self._with_hint(f"its plugin cannot be run: {error}")) from error
        return _credential(self._answer(process, asks=asks), str(version))

    def _answer(self, process: subprocess.Popen[bytes], *, asks: bool) -> bytes:
        limit_s = PERSON_S if asks else PLUGIN_S
        try:
            output, errors = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            _end(process, is_alone=not asks)
            problem = f"its plugin {self._name} did not answer within {limit_s:g} s and was ended"
            raise PluginError(self._with_hint(problem)) from error
        except BaseException:
            _end(process, is_alone=not asks)
            raise
        if process.returncode:
            said = one_line((errors or b"").decode(errors="replace"))[-_SHOWN:].strip()
            problem = f"its plugin {self._name} failed with exit code {process.returncode}"
            raise PluginError(self._with_hint(f"{problem}: {said}" if said else problem))
        return output

    @property
    def _name(self) -> str:
        return Path(str(self.spec.get("command") or "")).name

    def _command(self) -> str:
        """Return the program: with a slash in it, it lies relative to the kubeconfig."""
        command = str(self.spec.get("command") or "")
        if not command:
            raise PluginError("exec.command is not set")
        return str(self.folder / command) if os.sep in command else command

    def _asks_somebody(self) -> bool:
        """Whether the plugin may ask who sits at the terminal. Raises PluginError."""
        mode = self.spec.get("interactiveMode") or "IfAvailable"
        is_somebody_there = sys.stdin is not None and sys.stdin.isatty()
        if mode == "Always" and not is_somebody_there:
            raise PluginError("its plugin wants to ask somebody, and there is no terminal")
        return mode != "Never" and is_somebody_there

    def _environment(self, version: str, *, asks: bool) -> dict[str, str]:
        spec: dict[str, Any] = {"interactive": asks}
        if self.spec.get("provideClusterInfo"):
            spec["cluster"] = _cluster_info(self.cluster)
        told = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
        own = {str(each["name"]): str(each["value"]) for each in self.spec.get("env") or ()}
        return {**os.environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(told)}

    def _with_hint(self, problem: str) -> str:
        hint = self.spec.get("installHint")
        return f"{problem}; {one_line(str(hint))}" if hint else problem


def _end(process: subprocess.Popen[bytes], *, is_alone: bool) -> None:
    """Kill a plugin; in a session of its own with all that it started, which hold its pipes."""
    if is_alone:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    process.wait()


def _credential(output: bytes, version: str) -> ExecCredential:
    """Return what an ExecCredential says. Raises PluginError."""
    try:
        answer = json.loads(output)
        found, told = answer["apiVersion"], answer.get("status") or {}
        token, chain, key = (
            told.get(name) for name in ("token", "clientCertificateData", "clientKeyData")
        )
        text = told.get("expirationTimestamp")
        expires = datetime.fromisoformat(text).timestamp() if text else None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise PluginError(f"its plugin gave no ExecCredential: {error!r}") from error
    if found != version:
        raise PluginError(f"its plugin answered with apiVersion {found}, asked for {version}")
    if bool(chain) != bool(key):
        raise PluginError("its plugin gave only one of clientCertificateData and clientKeyData")
    if not token and not chain:
        problem = "its plugin returned no credential; check that it is installed and works by hand"
        raise PluginError(problem)
    certificate = (str(chain).encode(), str(key).encode()) if chain else None
    return ExecCredential(str(token) if token else None, certificate, expires)


def _cluster_info(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a kubeconfig says of a cluster, as plugins are told of it."""
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
