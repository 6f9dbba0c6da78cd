"""Processes that share the virtual clusters of one agent: one is killed, then there are more."""

import re
import time

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.lab import FAST, QUICK_LEASE, Group, Lab
from e2e.lab.wait import STARTED_S, within
from karmada_vc_agent.features.shards.division import shard_of

OFF = {"enabled": False}
CHANGED_S = 30.0
"""Until the processes of another count serve: two looks, the end of a leader, and a start."""


def test_shards_serve_all_and_hand_over_when_there_are_more(lab: Lab) -> None:
    groups = [lab.group(letter) for letter in _letters(lab)]
    flags = (*FAST, *QUICK_LEASE)

    def process(shard: str) -> Agent:
        return lab.new_agent(*groups, flags=(*flags, "--shard", shard), checkpoint=OFF)

    leaders = [process(f"{index}/2").start() for index in range(2)]
    for group in groups:
        lab.wait_ready(group.name)
    served = [_served(agent) for agent in leaders]
    assert served == [{g.name for g in groups if shard_of(g.name, 2) == i} for i in range(2)]
    template = objects.config_map(lab.namespace(), key="1")
    lab.propagate([template], *groups)
    lab.wait_fully_applied(template)

    standby = process("auto/2").start(keeps_rights=False)
    within(STARTED_S, _says, standby, "Standing by")
    leaders[0].kill()
    _change(lab, template, groups, "2")
    assert _served(standby) == served[0]

    # As a roll-out does: the new ones are there before the old ones end.
    more = [process("auto/3").start() for _ in range(3)]
    for agent in (leaders[1], standby):
        assert agent.wait_exit() != 0
        assert "Handing over the lead" in agent.log()
    _change(lab, template, groups, "3")
    of_three = [_served(agent) for agent in more]
    assert set().union(*of_three) == {group.name for group in groups}
    assert sum(map(len, of_three)) == len(groups)

    # They stand by, whatever their count is, and so does one without shards.
    standby.start(keeps_rights=True)
    within(STARTED_S, _says_again, standby, "Standing by")
    _change(lab, template, groups, "4")
    standby.terminate()
    for agent in more:
        agent.terminate()
    alone = process("").start()
    _change(lab, template, groups, "5")
    assert _served(alone) == {group.name for group in groups}


def _letters(lab: Lab) -> str:
    """Return four letters whose virtual clusters are of both of two shards, and of all three."""
    names = {letter: f"{lab.id}-{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"}
    chosen: dict[tuple[int, int], str] = {}
    for letter, name in names.items():
        chosen.setdefault((shard_of(name, 2), shard_of(name, 3)), letter)
    letters = "".join(chosen.values())[:4]
    assert len({shard_of(names[letter], 2) for letter in letters}) == 2
    return letters


def _change(lab: Lab, template: objects.Object, groups: list[Group], value: str) -> None:
    """Change a template, and say how long it took until all virtual clusters have it."""
    metadata, since = template["metadata"], time.monotonic()
    path = f"/api/v1/namespaces/{metadata['namespace']}/configmaps/{metadata['name']}"
    lab.hub.patch(path, {"data": {"key": value}})
    for group in groups:
        lab.wait_data(template, group, key=value)
    took_s = time.monotonic() - since
    print(f"key={value} on all after {took_s:.1f} s")
    assert took_s < CHANGED_S


def _served(agent: Agent) -> set[str]:
    lines = re.findall(r"Serving \| virtual_clusters=(\S*)", agent.log())
    return set(lines[-1].split(",")) - {""} if lines else set()


def _says(agent: Agent, text: str) -> None:
    assert text in agent.log(), agent.log_tail()


def _says_again(agent: Agent, text: str) -> None:
    assert text in agent.log().rpartition("Exiting")[2], agent.log_tail()
