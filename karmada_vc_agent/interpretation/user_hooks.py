"""Hooks of users: scripts, webhooks, circuit breakers (contract 7.6, 7.8)."""

import base64
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import orjson
from cachetools import LRUCache

from karmada_vc_agent.model.objects import GroupVersionKind, Object, apply_json_patch, dig, gvk_of

Operation = Literal["Retain", "InterpretStatus", "InterpretHealth"]

RETAIN: Operation = "Retain"
INTERPRET_STATUS: Operation = "InterpretStatus"
INTERPRET_HEALTH: Operation = "InterpretHealth"


class InterpretationError(Exception):
    """A level had a hook for the object and the hook failed; no other level is tried.

    level: `declarative`, `webhook`, `third-party` or `native`.
    operation: `Retain`, `InterpretStatus` or `InterpretHealth`.
    hook: key of an unavailable hook; None if the failure is specific to the object.
    """

    def __init__(
        self, level: str, operation: str, message: str, hook: Hashable | None = None
    ) -> None:
        super().__init__(message)
        self.level = level
        self.operation = operation
        self.hook = hook


class HookError(Exception):
    """A script or a webhook failed; `str()` says how, the interpreter adds where."""


class UnavailableError(HookError):
    """A script or webhook is unreachable or too slow; the next call likely fails, too."""


FAILURES_BEFORE_REST = 3
REST_S = 10.0
REMEMBERED = 4096
"""Maximum number of hooks with recorded failures; the least recently used is evicted."""

CallHook = Callable[[str, Sequence[Object]], Awaitable[Any]]
"""(virtual cluster, objects) -> object, status or health; raises HookError."""


@dataclass(frozen=True, slots=True)
class Hook:
    """A script or a webhook for one kind and operation.

    key: identifies the hook in its current version. name: for messages. objects of `call`: desired
    and live for Retain, otherwise live.
    """

    key: Hashable
    name: str
    call: CallHook


class Breakers:
    """Circuit breakers: a hook that failed several times in a row is not called for a while.

    After the pause one call tries it; others fail fast until it succeeds. now: monotonic, seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._failures: LRUCache[Hashable, tuple[int, float, str]] = LRUCache(REMEMBERED)

    def problem(self, key: Hashable) -> str:
        """Return why a hook must not be called now; "": this call tries it."""
        count, until, problem = self._failures.get(key, (0, 0.0, ""))
        if count < FAILURES_BEFORE_REST:
            return ""
        if self._now() < until:
            return problem
        self._failures[key] = count, self._now() + REST_S, problem
        return ""

    def failed(self, key: Hashable, problem: str) -> None:
        """Count a failure; after a pause one suffices."""
        count, *_ = self._failures.get(key, (0,))
        self._failures[key] = count + 1, self._now() + REST_S, problem

    def ended(self, key: Hashable) -> None:
        """Reset: the hook answered."""
        self._failures.pop(key, None)


RunScript = Callable[[Hashable, str, Operation, Sequence[Object]], Awaitable[Any]]
"""(virtual cluster, script, operation, objects) -> the result of the script."""

# The others (replicas, dependencies, …) run in the control plane.
_FIELDS: dict[Operation, str] = {
    RETAIN: "retention",
    INTERPRET_STATUS: "statusReflection",
    INTERPRET_HEALTH: "healthInterpretation",
}


Scripts = dict[tuple[GroupVersionKind, Operation], tuple[str, str]]
"""Kind and operation -> the name of the customization, and its script."""


def index_scripts(customizations: Iterable[Object]) -> Scripts:
    """Return the script of each kind and operation: the first non-empty one, sorted by name."""
    scripts: Scripts = {}
    for customization in sorted(customizations, key=lambda obj: str(obj["metadata"]["name"])):
        kind = gvk_of(dig(customization, "spec", "target"))
        for operation, field in _FIELDS.items():
            text = dig(customization, "spec", "customizations", field, "luaScript")
            if text and isinstance(text, str):
                scripts.setdefault((kind, operation), (customization["metadata"]["name"], text))
    return scripts


def changed_kinds(before: Scripts, after: Scripts) -> frozenset[GroupVersionKind]:
    """Return the kinds whose scripts differ."""
    texts = ({(key, text) for key, (_, text) in each.items()} for each in (before, after))
    return frozenset(key[0] for key, _ in set.symmetric_difference(*texts))


class DeclarativeLevel:
    """Interprets objects with scripts; `scripts` are the current ones."""

    name = "declarative"

    def __init__(self, run: RunScript) -> None:
        self._run = run
        self.scripts: Scripts = {}

    def hook(self, kind: GroupVersionKind, operation: Operation) -> Hook | None:
        """Return the hook for a kind and operation, if there is one."""
        if (kind, operation) not in self.scripts:
            return None
        customization, script = self.scripts[kind, operation]

        async def call(cluster: str, objects: Sequence[Object]) -> Any:
            return await self._run(cluster, script, operation, objects)

        return Hook(script, f'ResourceInterpreterCustomization "{customization}"', call)


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
        return any(self.is_for(kind, operation) for operation in _FIELDS)


CallWebhook = Callable[[Webhook, bytes], Awaitable[bytes]]
"""(hook, request body) -> body of a 2xx response; raises HookError and its subclasses."""


def webhooks_of(configurations: Iterable[Object]) -> list[Webhook]:
    """Return all hooks in the order of precedence: by `<configuration>/<hook>`."""
    hooks = [
        _webhook(configuration["metadata"]["name"], hook)
        for configuration in configurations
        for hook in configuration.get("webhooks") or ()
    ]
    return sorted(hooks, key=lambda hook: hook.uid)


def service_url(reference: ServiceReference, service: Object | None) -> str:
    """Return the URL of a hook's Service on the hub; by its name if it does not exist."""
    host, port = reference.host, reference.port
    spec = dig(service, "spec") or {}
    if spec.get("type") == "ExternalName":
        host = spec.get("externalName") or ""
    elif service is not None:
        host = spec.get("clusterIP") or ""
        ports = [dig(each, "port") for each in spec.get("ports") or ()]
        if host in ("", "None") or port not in ports:
            where = f"{reference.namespace}/{reference.name}"
            raise HookError(f"Service {where} has no cluster IP with port {port}")
    if ":" in host:
        host = f"[{host}]"
    return f"https://{host}:{port}/{reference.path.lstrip('/')}"


def request_body(uid: str, operation: Operation, objects: Sequence[Object]) -> bytes:
    """Return the ResourceInterpreterContext to send; objects: desired and live for Retain."""
    kind, metadata = gvk_of(objects[0]), objects[0].get("metadata") or {}
    request: Object = {
        "uid": uid,
        "kind": kind._asdict(),
        "name": metadata.get("name") or "",
        "namespace": metadata.get("namespace") or None,
        "operation": operation,
        "object": objects[0],
        "observedObject": objects[1] if len(objects) > 1 else None,
        "replicas": 0,
    }
    request = {key: value for key, value in request.items() if value is not None}
    return orjson.dumps({"apiVersion": _CONTEXT[0], "kind": _CONTEXT[1], "request": request})


class _ResponseStatus(msgspec.Struct):
    code: int | None = None
    message: str | None = None


class _Response(msgspec.Struct, rename="camel"):
    uid: str
    successful: bool = False
    status: _ResponseStatus | None = None
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
        context = msgspec.json.decode(content, type=_Context)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise HookError(f"the response is no ResourceInterpreterContext: {error}") from error
    got = f"{context.api_version} {context.kind} {context.response.uid}"
    expected = f"{_CONTEXT[0]} {_CONTEXT[1]} {uid}"
    if got != expected:
        raise HookError(f"the response is of {got}, not of {expected}")
    response = context.response
    if not response.successful:
        status = response.status or _ResponseStatus()
        text = f"code {status.code or 0}: {status.message or 'no status'}"
        raise HookError(f"the response is not successful, {text}")
    if operation == RETAIN:
        return _retained(response, objects[0])
    is_status = operation == INTERPRET_STATUS
    answer = response.raw_status if is_status else response.healthy
    if answer is None:
        raise HookError(f"the response has no {'rawStatus' if is_status else 'healthy'}")
    return answer


class WebhookLevel:
    """Calls webhooks; `webhooks` are the current ones, in order of precedence."""

    name = "webhook"

    def __init__(self, call: CallWebhook, new_uid: Callable[[], str]) -> None:
        self._call = call
        self._new_uid = new_uid
        self.webhooks: list[Webhook] = []

    def hook(self, kind: GroupVersionKind, operation: Operation) -> Hook | None:
        """Return the first hook for a kind and operation, or None."""
        webhook = next((each for each in self.webhooks if each.is_for(kind, operation)), None)
        if webhook is None:
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
    target: str | ServiceReference = client.get("url") or ""
    if service := client.get("service"):
        namespace, name, path = (service.get(key) or "" for key in ("namespace", "name", "path"))
        target = ServiceReference(namespace, name, service.get("port") or DEFAULT_PORT, path)
    fields = ("operations", "apiGroups", "apiVersions", "kinds")
    timeout_s = hook.get("timeoutSeconds") or 0
    return Webhook(
        uid=f"{configuration}/{hook.get('name') or ''}",
        target=target,
        ca_bundle=_ca_bundle(client.get("caBundle") or ""),
        timeout_s=timeout_s if 0 < timeout_s <= LONGEST_TIMEOUT_S else LONGEST_TIMEOUT_S,
        rules=tuple(
            tuple(frozenset(rule.get(field) or ()) for field in fields)
            for rule in hook.get("rules") or ()
        ),
        versions=tuple(hook.get("interpreterContextVersions") or ()),
    )


def _ca_bundle(text: str) -> bytes:
    """Return certificates in PEM; invalid base64 counts as none, and the caller reports it."""
    try:
        return base64.b64decode(text)
    except ValueError:
        return text.encode(errors="replace")


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
