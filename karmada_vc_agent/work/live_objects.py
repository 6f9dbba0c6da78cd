"""The live objects of the host: from an informer of our own labelled objects, else the server."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from karmada_vc_agent.kube.answers import ANSWER_BYTES
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import NotFoundError, TooLargeError
from karmada_vc_agent.kube.store import Store, is_echo
from karmada_vc_agent.model.memory import bytes_of
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.kept_objects import ObjectIdentity

StoreOf = Callable[[Resource], Store[Object] | None]
"""The informer store of a resource, or None if it has none."""

_most_bytes: ContextVar[int] = ContextVar("most_bytes", default=ANSWER_BYTES)


@contextmanager
def reading_at_most(most_bytes: int) -> Iterator[None]:
    """Have reads of objects that hold more raise TooLargeError."""
    token = _most_bytes.set(most_bytes)
    try:
        yield
    finally:
        _most_bytes.reset(token)


class LiveObjects:
    """Reads host objects, and stores our own writes in the informers."""

    def __init__(self, host: ApiClient, store_of: StoreOf) -> None:
        self._host = host
        self._store_of = store_of

    def cached(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return an object if the informer has it whole; sends no request."""
        stored = self._stored(resource, namespace, name)
        return None if isinstance(stored, ObjectIdentity) else stored

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return an object; what a synced informer lacks does not exist, or is not ours."""
        stored, store = self._stored(resource, namespace, name), self._store_of(resource)
        if stored is None and store is not None and store.is_synced:
            return None
        return await self.live(resource, namespace, name)

    async def live(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return an object; requests from the server what the informer lacks."""
        cached = self.cached(resource, namespace, name)
        if cached is not None:
            return cached
        live = await self.fresh(resource, namespace, name)
        store = self._store_of(resource)
        # A later version is left to the watch: handlers would take it for an echo then.
        if live is not None and store is not None and is_echo(store.get(namespace, name), live):
            store.complete(store.codec.trim(live))
        return live

    def _stored(self, resource: Resource, namespace: str, name: str) -> Object | None:
        store = self._store_of(resource)
        return store.get(namespace, name) if store is not None else None

    async def fresh(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return an object from the server. Raises KubeError, see `reading_at_most`."""
        most = _most_bytes.get()
        try:
            live = await self._host.get(resource.path(namespace, name), most_bytes=most)
        except NotFoundError:
            return None
        live["metadata"].pop("managedFields", None)
        if most < ANSWER_BYTES and bytes_of(live) > most:
            raise TooLargeError(f"{resource.path(namespace, name)} holds more than {most} bytes")
        return live

    def observe(self, resource: Resource, answer: Object) -> None:
        """Store the server's answer to a write."""
        answer["metadata"].pop("managedFields", None)
        store = self._store_of(resource)
        if store is not None:
            store.observe(answer)
