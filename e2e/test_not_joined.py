"""A virtual cluster in the settings before `join` costs the others nothing, and is served after."""

import time
from typing import Any

import yaml

from e2e.lab import objects
from e2e.lab.agent import Agent, settings_file
from e2e.lab.endpoints import Endpoints
from e2e.lab.lab import CLUSTERS, FAST, Group, Lab
from e2e.lab.wait import STARTED_S, within

WAITS = "Waiting for rights on the hub"
DENIED_FOR_S = 35.0
"""Longer than a right may be missing before readiness names it."""


def test_one_added_before_join_waits_while_others_are_served(lab: Lab) -> None:
    joined, early = lab.group("a"), lab.group("b")
    endpoints = Endpoints.new()
    agent = lab.serve(joined, flags=(*FAST, *endpoints.flags()))
    _write(agent, joined, early)
    within(STARTED_S, _assert_rights_warning, endpoints, early)
    time.sleep(DENIED_FOR_S)
    _assert_rights_warning(endpoints, early)
    assert endpoints.ask("/readyz")[0] == 200
    assert lab.hub.find(f"{CLUSTERS}/{early.name}") is None
    lines = [line for line in agent.log().splitlines() if early.name in line]
    assert len(lines) == 1, lines
    assert WAITS in lines[0]
    template = objects.config_map(lab.namespace())
    lab.propagate([template], joined)
    lab.wait_fully_applied(template)

    agent.settings["virtualClusters"].append(early.settings())
    agent.join()
    lab.wait_ready(early.name)
    second = objects.config_map(lab.namespaces[0], "second")
    lab.propagate([second], early)
    lab.wait_fully_applied(second)
    within(STARTED_S, _assert_no_rights_warning, endpoints)


def test_an_agent_that_starts_with_one_not_joined_serves_the_others(lab: Lab) -> None:
    joined, early = lab.group("a"), lab.group("b")
    endpoints = Endpoints.new()
    agent = lab.serve(joined, flags=(*FAST, *endpoints.flags()))
    agent.kill()
    _start_with(agent, joined, early)
    within(STARTED_S, _assert_rights_warning, endpoints, early)
    template = objects.config_map(lab.namespace())
    lab.propagate([template], joined)
    lab.wait_fully_applied(template)


def test_an_agent_that_may_serve_nothing_is_not_ready(lab: Lab) -> None:
    joined, early = lab.group("a"), lab.group("b")
    endpoints = Endpoints.new()
    agent = lab.serve(joined, flags=(*FAST, *endpoints.flags()))
    _write(agent, early)

    def look() -> None:
        status, text = endpoints.ask("/readyz")
        assert status == 500
        assert f"[-]rights failed: waiting for rights on the hub: {early.name}" in text

    within(STARTED_S, look)


def _content(agent: Agent, groups: tuple[Group, ...]) -> str:
    entries: list[dict[str, Any]] = [group.settings() for group in groups]
    return yaml.safe_dump(settings_file(agent.settings | {"virtualClusters": entries}))


def _write(agent: Agent, *groups: Group) -> None:
    """Put these into the settings file, without `join`."""
    agent.write_settings(_content(agent, groups))


def _start_with(agent: Agent, *groups: Group) -> None:
    """Start it by a file that has more than what it joined with."""
    agent.start(content=_content(agent, groups))


def _assert_no_rights_warning(endpoints: Endpoints) -> None:
    status, text = endpoints.ask("/readyz?verbose")
    assert (status, "[+]rights ok\n" in text) == (200, True), text


def _assert_rights_warning(endpoints: Endpoints, group: Group) -> None:
    text = endpoints.ask("/readyz?verbose")[1]
    assert f"[+]rights ok: waiting for rights on the hub: {group.name};" in text
