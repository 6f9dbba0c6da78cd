"""Hub and host as commands read them: what cannot be read is named, and hides nothing else."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube import errors
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery, Resource, ServedApis
from karmada_vc_agent.kube.kubeconfig import KubeconfigError, find_credentials
from karmada_vc_agent.kube.transport import Credentials, Timeouts
from karmada_vc_agent.model.objects import Object, maps_at
from karmada_vc_agent.model.user_text import did_you_mean
from karmada_vc_agent.model.vocabulary import CLUSTER_API

MOUNTED = {
    "config_path": Path("/etc/karmada-vc-agent/agent.yaml"),
    "karmada_kubeconfig": Path("/etc/kubeconfig/karmada-kubeconfig"),
}
"""What the Pods of an agent have, by the option that it is the default of."""
_PATIENCE = Timeouts(connect_s=5.0, request_s=10.0)


class Server:
    """Hub or host. connection: None = no kubeconfig was given. error: why nothing can be read."""

    def __init__(self, name: str, connection: ApiClient | None) -> None:
        self.name = name
        self.connection = connection
        self._discovery = Discovery(connection) if connection is not None else None
        self.served = ServedApis([], is_complete=False)
        self.error: errors.KubeError | None = None
        self.unseen: dict[str, None] = {}
        """Texts of what could not be read, in order."""

    @property
    def is_karmada(self) -> bool:
        return any(gvk.api_version == CLUSTER_API for gvk in self.served.by_kind)

    @property
    def is_read(self) -> bool:
        return bool(self.served.by_kind)

    @property
    def client(self) -> ApiClient:
        """The client of a server that answers. Raises KubeError."""
        if self.connection is None:
            raise errors.UnreachableError(f"no kubeconfig was given for the {self.name}")
        if self.error is not None:
            raise self.error
        return self.connection

    async def connect(self) -> None:
        """Read what it serves now, or why it cannot be read."""
        self.error = None
        try:
            if self._discovery is not None:
                self.served = await self._discovery.refresh()
        except errors.KubeError as error:
            self.error = error

    async def find(self, path: str) -> Object | None:
        """Return an object, None where there is none. Raises KubeError, which is noted."""
        with self._noting():
            return await self.client.find(path)
        return None

    async def items(self, path: str, **query: str) -> list[Object]:
        """Return a list; [] where its kind is not served. Raises KubeError, which is noted."""
        with self._noting():
            return maps_at(await self.client.get(path, query), "items")
        return []

    async def seen(self, path: str, **query: str) -> list[Object]:
        """Return a list; [] where it cannot be read, which is noted."""
        with suppress(errors.KubeError):
            return await self.items(path, **query)
        return []

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Note what cannot be read; what is not served is not there."""
        try:
            yield
        except errors.NotServedError:
            return
        except errors.KubeError as error:
            self.unseen[unseen_text(error)] = None
            raise


def unseen_text(error: errors.KubeError) -> str:
    """Return why something cannot be read, and the right that is missing."""
    if isinstance(error, errors.ForbiddenError) and error.need is not None:
        return f"{error.server}: the account used needs rule {error.need}"
    return str(error)


def mounted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a command with the defaults of a Pod of an agent, in which it runs."""
    there = {key: path for key, path in MOUNTED.items() if path.exists()}
    return {key: value or there.get(key, value) for key, value in options.items()}


@asynccontextmanager
async def servers(
    options: Mapping[str, Any], config: AgentConfig | None
) -> AsyncIterator[tuple[Server, Server]]:
    """Yield hub and host, connected. Raises KubeconfigError where neither has a kubeconfig."""
    settings = config or AgentConfig()
    keys = ("karmada_kubeconfig", "karmada_context", "kubeconfig")
    of_hub, context, of_host = (options[key] or getattr(settings, key) for key in keys)
    given = {"hub": (of_hub, context), "host": (of_host, "")}
    credentials, problems = _credentials(given)
    if len(problems) == len(given):
        raise problems["hub"]
    async with AsyncExitStack() as stack:
        both = []
        for name in given:
            client = None
            if name in credentials:
                client = ApiClient(name, credentials[name], timeouts=_PATIENCE)
                await stack.enter_async_context(client)
            both.append(Server(name, client))
            await both[-1].connect()
        yield both[0], both[1]


def _credentials(
    given: Mapping[str, tuple[str, str]],
) -> tuple[dict[str, Credentials], dict[str, KubeconfigError]]:
    """Return the credentials, and why a default has none."""
    credentials: dict[str, Credentials] = {}
    problems: dict[str, KubeconfigError] = {}
    flags = {"hub": "--karmada-kubeconfig", "host": "--kubeconfig"}
    for name, (path, context) in given.items():
        try:
            credentials[name] = find_credentials(
                path, context, in_cluster_first=name == "host", flag=flags[name]
            )
        except KubeconfigError as error:
            if path:
                raise
            problems[name] = error
    # A default is not meant where the other side has the same server by its flag.
    if len({each.server for each in credentials.values()}) < len(credentials):
        for name, (path, _) in given.items():
            if not path and len(credentials) > 1:
                del credentials[name]
    return credentials, problems


def names_of(served: ServedApis, resource: Resource) -> set[str]:
    """Return all names of a kind in lower case: singular, plural, short, with group and version."""
    group, version, kind = resource.gvk
    aliases = served.aliases.get((group, version, resource.plural), ())
    plain = {kind.lower(), resource.plural, *aliases}
    return plain | {f"{name}.{end}" for name in plain for end in (group, f"{version}.{group}")}


def kind_named(text: str, sides: Iterable[Server]) -> Resource:
    """Return the kind of any of its names, the hub's first. Raises ConfigError."""
    tables = [(each.served, r) for each in sides for r in each.served.by_kind.values()]
    for served, resource in tables:
        if text.lower() in names_of(served, resource):
            return resource
    names = {name for served, r in tables for name in names_of(served, r) if "." not in name}
    problem = f'no API server has a kind "{text}"{did_you_mean(text, sorted(names))}'
    raise ConfigError("flags", "KIND", problem)


def same_kind(resource: Resource, server: Server) -> Resource | None:
    """Return a kind as another server serves it, at any version."""
    kinds = server.served.by_kind
    other = (each for each in kinds.values() if each.gvk.group_kind == resource.gvk.group_kind)
    return kinds.get(resource.gvk) or next(other, None)
