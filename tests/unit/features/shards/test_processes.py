"""Processes of one agent, as they are built, on a fake hub and host: each has its own part."""

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest

from karmada_vc_agent.agent import SERVING, Agent
from karmada_vc_agent.cluster.hub_clusters import cluster_id
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.features.checkpoint.reader import CheckpointSettings
from karmada_vc_agent.features.shards.division import shard_of
from karmada_vc_agent.kube.errors import ForbiddenError
from karmada_vc_agent.kube.leader_election import LeaderElection, LeadLostError
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import dig
from karmada_vc_agent.model.quantity import Duration
from karmada_vc_agent.telemetry.endpoints import Note
from tests.fakes import objects, served
from tests.fakes.api_server import KUBE_SYSTEM_UID, FakeApiServer, Request
from tests.fuzz.served_ways import _HUB, _furnish

CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
STATE = "/api/v1/namespaces/agents/configmaps/karmada-vc-agent-state"
NAMES = tuple(f"branch-{letter}" for letter in "abcdefg")
_ON_HOST = re.compile(r"/namespaces/[a-z]+-v-(branch-[a-g])(?:/|$)")
_ON_HUB = re.compile(
    r"/(?:clusters/|namespaces/karmada-cluster/leases/|namespaces/karmada-es-)(branch-[a-g])(?:/|$)"
)


class _OfThisLoop(Agent):
    """An agent whose lead passes by the time of the loop."""

    def _new_election(self, host: Any) -> LeaderElection:
        election = super()._new_election(host)
        election.clock = asyncio.get_running_loop().time
        return election


class Fleet:
    """The processes, each of which starts again when it ends by itself, under another name."""

    def __init__(self, hub: FakeApiServer, host: FakeApiServer) -> None:
        self.hub, self.host = hub, host
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.agents: dict[str, Agent] = {}
        self.starts = 0
        self.data = 0

    def start(self, shard: str, *names: str, **settings: Any) -> None:
        for name in names:
            self.tasks[name] = asyncio.create_task(self._run(shard, name, settings))

    async def _run(self, shard: str, name: str, settings: dict[str, Any]) -> None:
        while True:
            self.starts += 1
            token = f"{name}.{self.starts}"
            config = CONFIG(  # type: ignore[call-arg]
                shard=shard,
                agent_namespace="agents",
                install_policies=False,
                cluster_success_threshold=Duration(0),
                checkpoint=CheckpointSettings(enabled=False),
                virtual_clusters=tuple(map(objects.virtual_cluster, NAMES)),
                **settings,
            )
            hub, host = (
                Credentials(server.url, None, "a test", token=partial(str, token))
                for server in (self.hub, self.host)
            )
            self.agents[name] = agent = _OfThisLoop(config, hub, host)
            try:
                await agent.run(asyncio.Event())
            except (LeadLostError, BaseExceptionGroup):
                await asyncio.sleep(1.0)

    async def kill(self, name: str) -> None:
        """End a process that releases nothing."""
        election = self.agents.pop(name)._fence.election
        assert election is not None
        election._renewed_at = election._held_at = None  # type: ignore[attr-defined]
        task = self.tasks.pop(name)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    def leaders(self, names: Iterable[str]) -> list[str]:
        return [
            name for name in names if name in self.agents and self.agents[name].phase == SERVING
        ]

    async def until(self, is_so: Callable[[], bool], within_s: float = 90.0) -> None:
        for _ in range(int(within_s * 2)):
            if is_so():
                return
            await asyncio.sleep(0.5)
        raise AssertionError("it does not come about")

    async def all_follow(self, within_s: float = 90.0) -> None:
        """Change a Work of each virtual cluster, and wait until the host has them all."""
        self.data += 1
        for name in NAMES:
            data = objects.config_map("probe", "shop", str(self.data))
            self.hub.seed(objects.work(data, vc=name, name="probe"))

        def follow() -> bool:
            paths = (f"/api/v1/namespaces/shop-v-{name}/configmaps/probe" for name in NAMES)
            live = [self.host.find(path) for path in paths]
            return all(dig(each, "data", "value") == str(self.data) for each in live)

        await self.until(follow, within_s)

    def writers(self) -> dict[str, list[str]]:
        """Return who wrote for each virtual cluster, one after another; raise if two did at once.

        Whoever writes again after another one did was there all the time.
        """
        writers: dict[str, list[str]] = defaultdict(list)
        for server, pattern in ((self.host, _ON_HOST), (self.hub, _ON_HUB)):
            of_server: dict[str, list[str]] = defaultdict(list)
            for request in server.requests:
                name, writer = _subject(pattern, request), _writer(request)
                if name and writer and of_server[name][-1:] != [writer]:
                    of_server[name].append(writer)
            for name, each in of_server.items():
                assert len(each) == len(set(each)), f"{name}: {each}"
                writers[name] += [one for one in each if one not in writers[name]]
        return writers


def _subject(pattern: re.Pattern[str], request: Request) -> str:
    is_write = request.method in ("POST", "PUT", "PATCH", "DELETE")
    match = pattern.search(request.path) if is_write else None
    return match[1] if match else ""


def _writer(request: Request) -> str:
    return request.headers.get("Authorization", "").removeprefix("Bearer ")


@asynccontextmanager
async def _fleet() -> AsyncIterator[Fleet]:
    async with FakeApiServer(_HUB) as hub, FakeApiServer(served.HOST) as host:
        _furnish(hub, host)
        for name in NAMES:
            hub.seed(objects.namespace(vocabulary.execution_namespace(name)))
            hub.seed(objects.cluster(name, cluster_id(KUBE_SYSTEM_UID, name)))
            host.seed(objects.node(f"node-{name}", {"branch": name.removeprefix("branch-")}))
            hub.seed(objects.work(objects.namespace_manifest("shop"), vc=name, name="shop"))
        made = Fleet(hub, host)
        try:
            yield made
        finally:
            for name in list(made.tasks):
                await made.kill(name)


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    async with _fleet() as made:
        yield made


async def test_two_shards_serve_all_and_none_twice(fleet: Fleet) -> None:
    fleet.start("0/2", "zero")
    fleet.start("1/2", "one")
    await fleet.all_follow()
    writers = fleet.writers()
    for name in NAMES:
        assert [each.partition(".")[0] for each in writers[name]] == [
            ("zero", "one")[shard_of(name, 2)]
        ]
    recorded = fleet.host.live(STATE)["data"]
    assert {f"cluster.{name}" for name in NAMES} <= recorded.keys()


async def test_metrics_name_a_shard_that_no_process_serves(fleet: Fleet) -> None:
    fleet.start("0/2", "leader", "standby")
    await fleet.until(lambda: len(fleet.leaders(fleet.agents)) == 1)
    await fleet.until(
        lambda: all(each._fence.election is not None for each in fleet.agents.values())
    )
    samples = [each for agent in fleet.agents.values() for each in agent._samples()]
    leads = [each[1:] for each in samples if each.family == "leader_election_master_status"]
    unserved = (("karmada-vc-agent-1-of-2",), False)
    assert sorted(leads) == [
        (("karmada-vc-agent-0-of-2",), False),
        (("karmada-vc-agent-0-of-2",), True),
        unserved,
        unserved,
    ]


async def test_never_do_two_write_for_one_while_the_count_changes(fleet: Fleet) -> None:
    fleet.start("", "alone")
    await fleet.all_follow()
    fleet.start("auto/2", "a", "b", "c")
    await fleet.until(lambda: len(fleet.leaders("abc")) == 2)
    await fleet.all_follow()
    leader = fleet.leaders("abc")[0]
    await fleet.kill("alone")
    await fleet.kill(leader)
    await fleet.all_follow()
    fleet.start("auto/3", "d", "e", "f")
    await fleet.all_follow()
    await fleet.until(lambda: len(fleet.leaders("def")) == 3)
    await fleet.all_follow()
    writers = fleet.writers()
    assert {len(each) for each in writers.values()} <= {3, 4}
    last = {writers[name][-1] for name in NAMES}
    assert len(last) == len({shard_of(name, 3) for name in NAMES})
    assert {each[0] for each in last} <= set("def")


async def test_node_is_the_older_clusters_also_of_another_shard(fleet: Fleet) -> None:
    older = await _start_with_an_older_cluster(fleet)
    for agent in fleet.agents.values():
        assert agent.service is not None
        membership = agent.service._common.stores.membership
        vcs = agent._virtual_clusters.everywhere
        wide = objects.virtual_cluster("branch-a", node_selector=vcs[older].node_selector)
        vcs.put(wide)
        assert membership.owner_of(f"node-{older}") == older
        assert membership.nodes_of("branch-a") == []
    await fleet.all_follow()
    fleet.writers()


@pytest.mark.parametrize("ends", ["settings", "Cluster"])
async def test_node_that_another_shard_gives_up_is_labelled_at_once(
    fleet: Fleet, ends: str
) -> None:
    older = await _start_with_an_older_cluster(fleet)
    node = f"node-{older}"
    vcs = {name: objects.virtual_cluster(name, node_names=(node,)) for name in ("branch-a", older)}

    def label() -> str:
        labels = fleet.host.live(f"/api/v1/nodes/{node}")["metadata"]["labels"]
        return str(labels.get(vocabulary.MEMBERSHIP_LABEL))

    def use(*served: str) -> None:
        for agent in fleet.agents.values():
            agent._virtual_clusters.everywhere.replace_all(vcs[name] for name in served)

    use("branch-a", older)
    await fleet.until(lambda: label() == older, 10.0)
    if ends == "settings":
        use("branch-a")
    else:
        fleet.hub.remove(f"{CLUSTERS}/{older}")
    await fleet.until(lambda: label() == "branch-a", 10.0)


async def test_what_another_shard_serves_is_not_written(fleet: Fleet) -> None:
    fleet.start("0/2", "zero")
    fleet.start("1/2", "one")
    await fleet.all_follow()
    other = next(name for name in NAMES if shard_of(name, 2) == 1)
    clients = fleet.agents["zero"].clients
    assert clients is not None
    for client, path in (
        (clients.host, f"/api/v1/namespaces/shop-v-{other}/configmaps/probe"),
        (clients.hub, f"{CLUSTERS}/{other}"),
        (clients.hub, f"/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{other}/works/shop"),
        (
            clients.hub_leases,
            f"/apis/coordination.k8s.io/v1/namespaces/karmada-cluster/leases/{other}",
        ),
    ):
        with pytest.raises(ForbiddenError, match=f"another shard serves virtual cluster {other}"):
            await client.merge_patch(path, {})


async def test_record_that_was_deleted_is_written_again_by_each_shard(fleet: Fleet) -> None:
    fleet.start("0/2", "zero")
    fleet.start("1/2", "one")
    await fleet.all_follow()
    expected = fleet.host.live(STATE)["data"]
    fleet.host.remove(STATE)
    await fleet.agents["one"].service._common.state.write("label.old", "branch-a")  # type: ignore[union-attr]
    await asyncio.sleep(150.0)
    data = fleet.host.live(STATE)["data"]
    assert expected.items() <= data.items()


async def test_shard_without_virtual_clusters_is_ready_while_one_of_another_waits(
    fleet: Fleet,
) -> None:
    fleet.start("0/2", "zero")
    fleet.start("1/2", "one")
    await fleet.all_follow()
    agent = fleet.agents["one"]
    waiting, served = [name for name in NAMES if shard_of(name, 2) == 0][:2]
    agent._joined._admitted.discard(waiting)
    agent._joined._refused.add(waiting)
    agent._joined.take(map(objects.virtual_cluster, (waiting, served)))
    assert not len(agent._virtual_clusters)
    assert isinstance(agent.readiness()["rights"], Note)


@pytest.mark.parametrize(
    "settings",
    [
        {"checkpoint": {"enabled": True}},
        {"tenancy": "Strict"},
        {"refuseSharedHosts": True},
        {"discover": {"nodeLabel": "branch"}},
        {"leaderElect": False},
        {"shard": "2/2"},
    ],
)
def test_settings_that_need_all_in_one_process_are_refused(
    settings: dict[str, Any], tmp_path: Any
) -> None:
    import yaml  # noqa: PLC0415

    from karmada_vc_agent.config.loading import load_config  # noqa: PLC0415

    base = {
        "apiVersion": vocabulary.CONFIG_API_VERSION,
        "kind": "AgentConfig",
        "shard": "0/2",
        "checkpoint": {"enabled": False},
        "virtualClusters": [{"name": "a", "nodeNames": ["a"]}],
    }
    path = tmp_path / "agent.yaml"
    path.write_text(yaml.safe_dump(base))
    load_config(CONFIG, path, {})
    others = {"objects": {"enabled": True}, "nodeGroups": {"enabled": True}}
    path.write_text(yaml.safe_dump(base | others))
    load_config(CONFIG, path, {})
    path.write_text(yaml.safe_dump({**base, **settings}))
    with pytest.raises(ConfigError, match="shard"):
        load_config(CONFIG, path, {})


async def _start_with_an_older_cluster(fleet: Fleet) -> str:
    """Start two shards; return a virtual cluster of the one that does not have branch-a."""
    older = next(name for name in NAMES if shard_of(name, 2) != shard_of("branch-a", 2))
    for name, at in (("branch-a", "2020-01-02"), (older, "2020-01-01")):
        live = fleet.hub.live(f"{CLUSTERS}/{name}")
        live["metadata"]["creationTimestamp"] = f"{at}T00:00:00Z"
        fleet.hub.seed(live)
    fleet.start("0/2", "zero")
    fleet.start("1/2", "one")
    await fleet.all_follow()
    return older
