"""A few calls to a Kubernetes API server, enough to set up a control plane."""

import http.client
import json
import ssl
import tempfile
import urllib.parse
from pathlib import Path
from typing import Any

from control_planes.kubeconfig import Access

Object = dict[str, Any]
FIELD_MANAGER = "control-planes"
TIMEOUT_S = 30.0
NO_ANSWER = 0


class ApiError(Exception):
    """Carry the status code and the message of an answer that is not a success.

    status: 0 where no answer came at all.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ApiServer:
    """Send requests as one client; each on a connection of its own, so threads may share it."""

    def __init__(self, access: Access) -> None:
        url = urllib.parse.urlsplit(access.server)
        self._address = (url.hostname or "", url.port or 443)
        self._context = ssl.create_default_context(cadata=access.ca.decode())
        with tempfile.TemporaryDirectory() as directory:  # ssl takes client keys from files only
            chain = Path(directory) / "client.pem"
            chain.touch(mode=0o600)
            chain.write_bytes(access.client.certificate + access.client.key)
            self._context.load_cert_chain(chain)

    def get(self, path: str) -> Object:
        return self._request("GET", path)

    def create(self, item: Object) -> Object:
        return self._request("POST", collection_path(item), item)

    def apply(self, item: Object) -> Object:
        """Apply an object server-side and take over fields that others hold."""
        path = f"{collection_path(item)}/{item['metadata']['name']}"
        query = urllib.parse.urlencode({"fieldManager": FIELD_MANAGER, "force": "true"})
        return self._request("PATCH", f"{path}?{query}", item, "application/apply-patch+yaml")

    def _request(
        self, method: str, path: str, body: Object | None = None, form: str = "application/json"
    ) -> Object:
        host, port = self._address
        connection = http.client.HTTPSConnection(
            host, port, context=self._context, timeout=TIMEOUT_S
        )
        try:
            connection.request(
                method,
                path,
                body=None if body is None else json.dumps(body),
                headers={"Content-Type": form, "Accept": "application/json"},
            )
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(NO_ANSWER, f"{method} {path}: no answer: {error}") from error
        finally:
            connection.close()
        if response.status >= 300:
            raise ApiError(response.status, f"{method} {path}: {_reason(text)}")
        answer: Object = json.loads(text)
        return answer


def collection_path(item: Object) -> str:
    """Return the path under which objects of this kind and namespace are listed.

    Knows only kinds whose plural is the lower-case kind and an s.
    """
    group_version = item["apiVersion"]
    root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
    namespace = item["metadata"].get("namespace")
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{scope}/{item['kind'].lower()}s"


def _reason(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.strip()[:200]
