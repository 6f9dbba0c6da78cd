"""What holds at the end of every fault, seen from outside.

Hub, host and status agree; nothing is there that nobody wants; nothing was written without a
cause; no pod was restarted whose template did not change; the process lives.
"""

import time
from collections.abc import Iterator

from e2e.lab.agent import Agent
from e2e.lab.api import Object
from e2e.lab.audit import Target
from e2e.lab.checkpoint import saved
from e2e.lab.followed import BEGINS, ENDS
from e2e.lab.lab import CLUSTERS, Group
from e2e.lab.scene import KINDS, Entry, Scene, content, home
from e2e.lab.wait import within
from e2e.lab.works import condition, works_path

RECOVERS_S = 150.0
QUIET_S = 2.0
_OF_OTHERS = frozenset({"kube-root-ca.crt"})
_HAVE_DEFAULTS = ("Service", "Deployment")
"""What a killed agent was writing may be written once more without a change."""
_COUNTS = ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas")


def settle(scene: Scene) -> None:
    """Wait until all is as wanted and kept; note what nobody has a reason to touch."""
    within(RECOVERS_S, _agrees, scene)
    within(RECOVERS_S, _is_kept, scene)
    scene.marks = {e.on_host: _marks(scene, e) for e in scene.wanted(quiet=True)}


def check(scene: Scene, *, extra_writes: int = 0, lost_answers: int = 0) -> None:
    """Assert all invariants, once hub and host had time to agree.

    extra_writes: how often an object that changed may have been written without a cause.
    lost_answers: how often an agent may have been killed between a write and what followed.
    """
    within(RECOVERS_S, _agrees, scene)
    within(RECOVERS_S, _is_served, scene)
    time.sleep(QUIET_S)
    assert not list(differences(scene)), "it agreed, but did not stay so"
    for agent in filter(None, (scene.agent, scene.standby)):
        assert agent.is_running()
    assert not (found := _lines(scene, "Traceback")), found
    assert not (found := list(_needless_writes(scene, extra_writes, lost_answers))), found
    for entry in scene.wanted(quiet=True):
        assert _marks(scene, entry) == scene.marks[entry.on_host], f"{entry.name} was touched"


def differences(scene: Scene) -> Iterator[str]:
    """Yield where hub, host and status do not agree."""
    for group in scene.groups:
        works = {_path(work): work for work in scene.lab.hub.list(works_path(group.name))}
        mine = [entry for entry in scene.entries if entry.group is group]
        for kind in KINDS:
            live = {_name(o): o for o in scene.lab.host.list(home(scene, group, kind))}
            of_kind = [entry for entry in mine if entry.kind == kind]
            yield from _differences(of_kind, works, live)
            names = {entry.name for entry in of_kind if entry.is_wanted}
            yield from (f"orphan {kind} {n}" for n in live.keys() - names - _OF_OTHERS)
        yield from _wrong_sets(scene, group, [entry for entry in mine if entry.is_wanted])


def _differences(
    entries: list[Entry], works: dict[str, Object], live: dict[str, Object]
) -> Iterator[str]:
    for entry in entries:
        work, obj = works.get(entry.work), live.get(entry.name)
        if not entry.is_wanted:
            if work is not None:
                yield f"Work {entry.name} is still there"
        elif work is None or obj is None:
            yield f"{entry.name}: {'Work' if work is None else 'object'} is missing"
        elif content(entry.kind, obj) != content(entry.kind, entry.manifest):
            yield f"{entry.name} is {content(entry.kind, obj)}"
        else:
            yield from _wrong_status(entry, work, obj)


def _wrong_status(entry: Entry, work: Object, live: Object) -> Iterator[str]:
    applied = condition(work, "Applied") if work.get("status") else {"status": "no status"}
    if applied["status"] != "True":
        yield f"Work {entry.name}: {applied}"
    if entry.kind != "Deployment":
        return
    entries = (work.get("status") or {}).get("manifestStatuses") or [{}]
    told, real = entries[0].get("status") or {}, live.get("status") or {}
    wanted = {"replicas": live["spec"]["replicas"]} | {n: real.get(n) for n in _COUNTS}
    if {n: told.get(n) for n in _COUNTS} != wanted or entries[0].get("health") != "Healthy":
        yield f"{entry.name}: the hub has {entries}, the host {real}"


def _wrong_sets(scene: Scene, group: Group, entries: list[Entry]) -> Iterator[str]:
    """Yield Deployments with more ReplicaSets than they had pod templates."""
    sets = scene.lab.host.list(home(scene, group, "ReplicaSet"))
    owners = [o["name"] for s in sets for o in s["metadata"].get("ownerReferences", [])]
    for entry in entries:
        if (count := owners.count(entry.name)) > entry.templates:
            yield f"{entry.name} has {count} ReplicaSets of {entry.templates} templates"


def _needless_writes(scene: Scene, extra: int, lost: int) -> Iterator[str]:
    causes: dict[Target, int] = {}
    for entry in scene.entries:
        causes[entry.target] = causes.get(entry.target, 0) + entry.causes
        causes[entry.target] += 0 if entry.is_quiet else extra
        causes[entry.target] += lost if entry.kind in _HAVE_DEFAULTS else 0
    for target, count in scene.written.by(scene.agent.account).items():
        if target in causes and count > causes[target]:
            yield f"{target} was written {count} times for {causes[target]} causes"


def outages(agent: Agent, server: str) -> tuple[int, int]:
    """Return how often the log says that hub or host is away, and how often that it is back."""
    log = agent.log()
    return log.count(f"{BEGINS} server={server} "), log.count(f"{ENDS} server={server} ")


def _agrees(scene: Scene) -> None:
    found = list(differences(scene))
    assert not found, f"{len(found)} differences, among them {found[:4]}"


def _is_served(scene: Scene) -> None:
    for group in scene.groups:
        ready = condition(scene.lab.hub.get(f"{CLUSTERS}/{group.name}"), "Ready")
        assert ready["status"] == "True", ready


def _is_kept(scene: Scene) -> None:
    kept = saved(scene.lab.host, scene.agent)
    for group in scene.groups:
        found = {
            manifest["metadata"]["name"]: manifest
            for work in kept.works(group.name)
            for manifest in work["spec"]["workload"]["manifests"]
        }
        for entry in scene.wanted():
            if entry.group is group:
                assert entry.name in found, "not in the checkpoint yet"
                known = content(entry.kind, found[entry.name])
                assert known == content(entry.kind, entry.manifest), "not in the checkpoint yet"


def _marks(scene: Scene, entry: Entry) -> object:
    """Return what changes with an object, but for the status of one that has pods, and these."""
    metadata = scene.lab.host.get(entry.on_host)["metadata"]
    if entry.kind != "Deployment":
        return metadata["uid"], metadata["resourceVersion"]
    return metadata["uid"], metadata["generation"], _pods(scene, entry)


def _pods(scene: Scene, entry: Entry) -> set[str]:
    """Return the uids of the pods of a Deployment that are to stay."""
    pods = scene.lab.host.list(home(scene, entry.group, "Pod"), f"app={entry.name}")
    kept = [pod["metadata"] for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    return {metadata["uid"] for metadata in kept}


def _lines(scene: Scene, text: str) -> list[str]:
    logs = [agent.log() for agent in scene.lab.agents]
    return [line for log in logs for line in log.splitlines() if text in line]


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _path(work: Object) -> str:
    metadata = work["metadata"]
    return f"{works_path(metadata['namespace'].removeprefix('karmada-es-'))}/{metadata['name']}"
