"""A thin client of one API server: paths and raw objects, errors as one exception."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kubernetes import config

from karmada_vc_agent.kube import codec

Object = dict[str, Any]


class Answer(Object):
    """What a server answered; to read a field that it does not have fails an assertion.

    So a story can wait for a field, while a mistake in the story itself ends it at once.
    """

    def __missing__(self, key: str) -> Any:
        raise AssertionError(f"no {key!r} among {sorted(self)}")


MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
ATTEMPTS_S = 30.0
_PLURALS = {
    "NetworkPolicy": "networkpolicies",
    "Endpoints": "endpoints",
}
_FORCED = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}


class ApiError(Exception):
    """An answer that is not a success; code 404 means that there is no such object."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Api:
    """One API server, as the user of a kubeconfig, or with the rights of another user."""

    def __init__(self, kubeconfig: Path, acts_as: str = "", group: str = "") -> None:
        self.kubeconfig = kubeconfig
        new_client: Any = config.new_client_from_config  # ships no types
        client = new_client(config_file=str(kubeconfig))
        self.server = client.configuration.host
        self._pool = client.rest_client.pool_manager
        token = client.configuration.get_api_key_with_prefix("BearerToken", "authorization")
        self._headers = {"Accept": "application/json"} | ({"Authorization": token} if token else {})
        if acts_as:
            self._headers["Impersonate-User"] = acts_as
        if group:
            self._headers["Impersonate-Group"] = group

    def acting_as(self, user: str, group: str = "") -> "Api":
        """Return a client with the rights of another user, who this one may impersonate."""
        return Api(self.kubeconfig, user, group)

    def get(self, path: str) -> Object:
        return self._request("GET", path)

    def find(self, path: str) -> Object | None:
        """GET, or None where there is no such object."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def list(self, path: str, selector: str = "") -> list[Object]:
        query = f"?labelSelector={selector}" if selector else ""
        items: list[Object] = self.get(path + query)["items"] or []
        return items

    def create(self, obj: Object) -> Object:
        return self._request("POST", collection_of(obj), obj)

    def refusal(self, obj: Object) -> str:
        """Return how the server refuses to create an object, "" where it would take it."""
        try:
            self._request("POST", f"{collection_of(obj)}?dryRun=All", obj)
        except ApiError as error:
            return str(error)
        return ""

    def post(self, path: str, obj: Object | bytes) -> Object:
        """POST to a path that the object does not tell, as that of a subresource; or raw JSON."""
        return self._request("POST", path, obj)

    def replace(self, path: str, obj: Object | bytes) -> Object:
        return self._request("PUT", path, obj)

    def patch(self, path: str, patch: Object) -> Object:
        """Send a JSON merge patch."""
        return self._request("PATCH", path, patch, MERGE_PATCH)

    def patch_json(self, path: str, *operations: Object) -> Object:
        return self._request("PATCH", path, list(operations), JSON_PATCH)

    def delete(self, path: str, *, force: bool = False, orphans: bool = False) -> None:
        """DELETE an object, or all of a collection; one that is gone already is fine.

        orphans: leave there what it owns.
        """
        options = {"propagationPolicy": "Orphan" if orphans else "Background"}
        try:
            self._request("DELETE", path, _FORCED if force else options)
        except ApiError as error:
            if error.code != 404:
                raise

    def version(self, path: str) -> str:
        """Return the version that a collection has now."""
        version: str = self.get(f"{path}?limit=1")["metadata"]["resourceVersion"]
        return version

    def watch(self, path: str, seconds: int, version: str = "") -> Iterator[Object]:
        """Yield what becomes of the objects of a collection, from a version or now on."""
        version = version or self.version(path)
        query = f"watch=true&resourceVersion={version}&timeoutSeconds={seconds}"
        response = self._pool.request(
            "GET", f"{self.server}{path}?{query}", headers=self._headers, preload_content=False
        )
        for line in response:
            yield json.loads(line)["object"]

    def answer(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        """Send a request as it is, and return code and body whatever they are."""
        response = self._pool.request(
            method,
            self.server + path,
            body=body or None,
            headers=self._headers | headers,
            timeout=ATTEMPTS_S,
        )
        return response.status, response.data

    def _request(
        self, method: str, path: str, body: Any = None, form: str = "application/json"
    ) -> Object:
        response = self._pool.request(
            method,
            self.server + path,
            body=body if body is None or isinstance(body, bytes) else json.dumps(body),
            headers=self._headers | {"Content-Type": form},
            timeout=ATTEMPTS_S,
        )
        answer: Object = _decoded(response.data) if response.data[:1] == b"{" else {}
        if response.status >= 300:
            text = answer.get("message") or response.data.decode(errors="replace")[:200]
            raise ApiError(response.status, f"{method} {path}: {text}")
        return answer


def _decoded(content: bytes) -> Object:
    """Decode an object; of one nested deeper than Python decodes, the first levels."""
    try:
        answer: Object = json.loads(content, object_hook=Answer)
    except RecursionError:
        answer = json.loads(codec.cut_deep(content, 100), object_hook=Answer)
    return answer


def collection_of(obj: Object) -> str:
    """Return the path under which objects of this kind and namespace are."""
    return collection(obj["apiVersion"], obj["kind"], obj["metadata"].get("namespace") or "")


def collection(api_version: str, kind: str, namespace: str = "") -> str:
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{scope}/{_PLURALS.get(kind) or plural(kind)}"


def plural(kind: str) -> str:
    lower = kind.lower()
    if lower.endswith("s"):
        return f"{lower}es"
    return f"{lower[:-1]}ies" if lower.endswith("cy") else f"{lower}s"


def path_of(obj: Object, namespace: str = "") -> str:
    """Return the path of an object, in another namespace where one is given."""
    home = namespace or obj["metadata"].get("namespace") or ""
    return f"{collection(obj['apiVersion'], obj['kind'], home)}/{obj['metadata']['name']}"
