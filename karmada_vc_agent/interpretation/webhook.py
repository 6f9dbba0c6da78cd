"""Webhooks: which is called, the request, and what the response means (contract 7.8)."""

import base64
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from karmada_vc_agent.interpretation.user_hooks import (
    INTERPRET_HEALTH,
    INTERPRET_STATUS,
    RETAIN,
    DeclarativeLevel,
    Hook,
    HookError,
    Operation,
)
from karmada_vc_agent.model.objects import GroupVersionKind, Object, dig, gvk_of
from karmada_vc_agent.model.patches import apply_json_patch

LONGEST_TIMEOUT_S = 30
"""Timeout of a hook that sets none; Karmada then waits forever."""
DEFAULT_PORT = 443
_CONTEXT = ("config.karmada.io/v1alpha1", "ResourceInterpreterContext")
"""apiVersion and kind of requests and responses."""
_CONTEXT_VERSION = "v1alpha1"
_ANY = "*"


@dataclass(frozen=True, slots=True)
class ServiceReference:
    """A Service of the hub that a hook refers to instead of a URL."""

    namespace: str
    name: str
    port: int
    path: str

    @property
    def host(self) -> str:
        """Return the host name in its certificate."""
        return f"{self.name}.{self.namespace}.svc"


@dataclass(frozen=True, slots=True)
class Webhook:
    """One hook of a ResourceInterpreterWebhookConfiguration.

    uid: `<configuration>/<hook>`. target: a URL or a Service. rules: (operations, groups,
    versions, kinds), each with `*` for all.
    """

    uid: str
    target: str | ServiceReference
    ca_bundle: bytes
    timeout_s: float
    rules: tuple[tuple[frozenset[str], ...], ...]
    versions: tuple[str, ...]

    def is_for(self, kind: GroupVersionKind, operation: Operation) -> bool:
        """Return whether any of its rules matches this kind and operation."""
        parts = (operation, *kind)
        return any(
            all({_ANY, part} & allowed for part, allowed in zip(parts, rule, strict=True))
            for rule in self.rules
        )

    def concerns(self, kind: GroupVersionKind) -> bool:
        """Return whether any of its rules matches the kind."""
        operations: tuple[Operation, ...] = (RETAIN, INTERPRET_STATUS, INTERPRET_HEALTH)
        return any(self.is_for(kind, operation) for operation in operations)


Call = Callable[[Webhook, bytes], Awaitable[bytes]]
"""(hook, request body) -> body of a 2xx response; raises HookError and its subclasses."""


def webhooks_of(configurations: Iterable[Object]) -> list[Webhook]:
    """Return all hooks in the order of precedence: by `<configuration>/<hook>`."""
    hooks = [
        _webhook(configuration["metadata"]["name"], hook)
        for configuration in configurations
        for hook in configuration.get("webhooks") or ()
    ]
    return sorted(hooks, key=lambda hook: hook.uid)


def changed_webhooks(before: Sequence[Webhook], after: Sequence[Webhook]) -> list[Webhook]:
    """Return the hooks that are added, removed or different, in their old and new versions."""
    return [*set(before).symmetric_difference(after)]


def service_url(reference: ServiceReference, service: Object | None) -> str:
    """Return the URL of a hook's Service on the hub; by its name if it does not exist."""
    host, port = reference.host, reference.port
    spec = dig(service, "spec") or {}
    if spec.get("type") == "ExternalName":
        host = spec.get("externalName") or ""
    elif service is not None:
        host = spec.get("clusterIP") or ""
        if host in ("", "None") or port not in [
            dig(each, "port") for each in spec.get("ports") or ()
        ]:
            where = f"{reference.namespace}/{reference.name}"
            raise HookError(f"Service {where} has no cluster IP with port {port}")
    if ":" in host:
        host = f"[{host}]"
    return f"https://{host}:{port}/{reference.path.lstrip('/')}"


def request_body(uid: str, operation: Operation, objects: Sequence[Object]) -> bytes:
    """Return the ResourceInterpreterContext to send; objects: desired and live for Retain."""
    obj = objects[0]
    kind = gvk_of(obj)
    metadata = obj.get("metadata") or {}
    request: Object = {
        "uid": uid,
        "kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "name": metadata.get("name") or "",
        "operation": operation,
        "object": obj,
        "replicas": 0,
    }
    if metadata.get("namespace"):
        request["namespace"] = metadata["namespace"]
    if len(objects) > 1:
        request["observedObject"] = objects[1]
    context = {"apiVersion": _CONTEXT[0], "kind": _CONTEXT[1], "request": request}
    return orjson.dumps(context)


class _Status(msgspec.Struct):
    code: int | None = None
    message: str | None = None


class _Response(msgspec.Struct, rename="camel"):
    uid: str
    successful: bool = False
    status: _Status | None = None
    patch: bytes | None = None
    patch_type: str | None = None
    raw_status: Object | None = None
    healthy: bool | None = None


class _Context(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    response: _Response


def read_answer(uid: str, operation: Operation, objects: Sequence[Object], content: bytes) -> Any:
    """Return the object, the status or the health in a response. Raises HookError."""
    try:
        context = msgspec.convert(orjson.loads(content), _Context)
    except (orjson.JSONDecodeError, msgspec.ValidationError) as error:
        raise HookError(f"the response is no ResourceInterpreterContext: {error}") from error
    if (context.api_version, context.kind, context.response.uid) != (*_CONTEXT, uid):
        raise HookError(
            f"the response is {context.kind} of {context.api_version} with uid "
            f'"{context.response.uid}", not {_CONTEXT[1]} of {_CONTEXT[0]} with uid "{uid}"'
        )
    response = context.response
    if not response.successful:
        status = response.status or _Status()
        text = f"code {status.code or 0}: {status.message or 'no status'}"
        raise HookError(f"the response is not successful, {text}")
    if operation == RETAIN:
        return _retained(response, objects[0])
    answer = response.raw_status if operation == INTERPRET_STATUS else response.healthy
    if answer is None:
        field = "rawStatus" if operation == INTERPRET_STATUS else "healthy"
        raise HookError(f"the response has no {field}")
    return answer


class WebhookLevel:
    """Calls webhooks; `webhooks` are the current ones, in order of precedence."""

    name = "webhook"

    def __init__(self, call: Call, new_uid: Callable[[], str]) -> None:
        self._call = call
        self._new_uid = new_uid
        self.webhooks: list[Webhook] = []

    def hook(self, kind: GroupVersionKind, operation: Operation) -> Hook | None:
        """Return the first hook for a kind and operation, or None."""
        for webhook in self.webhooks:
            if webhook.is_for(kind, operation):
                break
        else:
            return None

        async def call(_cluster: str, objects: Sequence[Object]) -> Any:
            if _CONTEXT_VERSION not in webhook.versions:
                raise HookError(f"it does not support context version {_CONTEXT_VERSION}")
            uid = self._new_uid()
            content = await self._call(webhook, request_body(uid, operation, objects))
            return read_answer(uid, operation, objects, content)

        # The whole hook is the key: a changed one starts with a clean record.
        return Hook(webhook, f'webhook "{webhook.uid}"', call)


HookLevel = DeclarativeLevel | WebhookLevel


def _webhook(configuration: str, hook: Object) -> Webhook:
    client = hook.get("clientConfig") or {}
    service = client.get("service")
    target: str | ServiceReference = client.get("url") or ""
    if service:
        target = ServiceReference(
            service.get("namespace") or "",
            service.get("name") or "",
            service.get("port") or DEFAULT_PORT,
            service.get("path") or "",
        )
    rules = tuple(
        tuple(
            frozenset(rule.get(field) or ())
            for field in ("operations", "apiGroups", "apiVersions", "kinds")
        )
        for rule in hook.get("rules") or ()
    )
    return Webhook(
        uid=f"{configuration}/{hook.get('name') or ''}",
        target=target,
        ca_bundle=_ca_bundle(client.get("caBundle") or ""),
        timeout_s=_timeout_s(hook.get("timeoutSeconds") or LONGEST_TIMEOUT_S),
        rules=rules,
        versions=tuple(hook.get("interpreterContextVersions") or ()),
    )


def _ca_bundle(text: str) -> bytes:
    """Return certificates in PEM; invalid base64 counts as none, and the caller reports it."""
    try:
        return base64.b64decode(text)
    except ValueError:
        return text.encode(errors="replace")


def _timeout_s(seconds: int) -> int:
    return seconds if 0 < seconds <= LONGEST_TIMEOUT_S else LONGEST_TIMEOUT_S


def _retained(response: _Response, desired: Object) -> Object:
    if not response.patch and response.patch_type is None:
        return desired
    if not response.patch or response.patch_type != "JSONPatch":
        raise HookError("the response needs a patch with patchType JSONPatch, or neither of both")
    try:
        patched = apply_json_patch(desired, orjson.loads(response.patch))
    except (orjson.JSONDecodeError, TypeError, ValueError) as error:
        raise HookError(f"the patch cannot be applied: {error}") from error
    if not isinstance(patched, dict) or not patched.get("kind"):
        raise HookError("the patch results in no object")
    return patched
