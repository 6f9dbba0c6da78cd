"""Works of one virtual cluster that cannot be carried out, and what its neighbour feels of it."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from e2e.lab import objects
from e2e.lab.api import ApiError, Object
from e2e.lab.endpoints import Endpoints
from e2e.lab.interpreting import Widgets
from e2e.lab.lab import FAST, Group, Lab
from e2e.lab.wait import BACKED_OFF_S, THROUGH_HUB_S, within
from e2e.lab.webhook_server import VALIDATING, WebhookServer, validating
from e2e.lab.works import condition
from e2e.test_interpreter_webhooks import by_url, configuration

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WORKERS = 32
"""The default of --concurrent-work-syncs."""
MANY = 200
CONNECTIONS = 16
"""To the host, for requests of Works (kube/flows.py)."""
SLOW_WORKS = 40


class Silent(WebhookServer):
    """Answers no request until it is told to."""

    def __init__(self, directory: Path) -> None:
        self.may_answer = threading.Event()
        super().__init__(directory, self._say)

    def _say(self, _request: Object) -> Object:
        self.may_answer.wait(60)
        return {"successful": True, "healthy": True, "allowed": True}


@pytest.fixture
def widgets(lab: Lab) -> Iterator[Widgets]:
    widgets = Widgets(lab)
    yield widgets
    widgets.clean_up()


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[Silent]:
    server = Silent(tmp_path)
    yield server
    server.may_answer.set()
    server.close()


@pytest.fixture
def slow_admission(lab: Lab, silent: Silent) -> Iterator[Callable[[str], Silent]]:
    """Have the host ask a webhook before each write of a ConfigMap to one namespace."""
    path = f"{VALIDATING}/{lab.id}"

    def configure(namespace: str) -> Silent:
        silent.may_answer.set()
        lab.host.create(validating(lab.id, namespace, silent))

        def is_called() -> None:
            assert lab.host.refusal(objects.config_map(namespace, "probe")) == ""
            assert silent.requests

        within(BACKED_OFF_S, is_called)
        silent.may_answer.clear()
        silent.requests.clear()
        return silent

    yield configure
    silent.may_answer.set()
    with suppress(ApiError):
        lab.host.delete(path)


def declare(widgets: Widgets, server: WebhookServer, timeout_s: int) -> None:
    config = configuration(widgets, by_url(server), timeoutSeconds=timeout_s)
    config["webhooks"][0]["rules"][0]["operations"] = ["InterpretHealth"]
    widgets.declare(config)


def create_works(lab: Lab, group: Group, *manifests: Object) -> list[str]:
    """Write a Work for each manifest, as fast as the hub takes them; return their paths."""
    names = [f"work-{number}" for number in range(len(manifests))]
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(partial(lab.create_work, group), names, manifests))


def many(lab: Lab, group: Group) -> list[Object]:
    return [work for work in lab.works(group) if work["metadata"]["name"].startswith("work-")]


def health(lab: Lab, group: Group) -> list[str]:
    """Return what all entries of all Works say of the health."""
    return [
        entry["health"]
        for work in many(lab, group)
        for entry in (work.get("status") or {}).get("manifestStatuses") or ()
    ]


def test_a_neighbour_is_served_while_all_works_of_another_wait_for_a_silent_webhook(
    lab: Lab, widgets: Widgets, silent: Silent
) -> None:
    one, other = lab.group("a", nodes=0), lab.group("b", nodes=0)
    namespace = lab.namespace()
    declare(widgets, silent, timeout_s=30)
    lab.serve(one, other)
    # As few as fill all workers: the first of them time out 30 s after they began.
    names = [f"w-{n}" for n in range(2 * WORKERS)]
    create_works(lab, one, *(widgets.widget(namespace, name) for name in names))
    within(BACKED_OFF_S, lambda: _at_least(silent, WORKERS // 2))
    maps = (objects.config_map(namespace, f"settings-{number}") for number in range(3))
    for neighbour in create_works(lab, other, *maps):
        lab.wait_applied(neighbour)
    # None of them has ended: the neighbour did not wait for the first time-out.
    assert health(lab, one) == []
    assert len(silent.requests) == WORKERS // 2
    silent.may_answer.set()
    within(BACKED_OFF_S, lambda: _all(health(lab, one), "Healthy", len(names)))


def test_a_neighbour_is_served_while_the_host_is_slow_with_all_writes_of_another(
    lab: Lab, slow_admission: Callable[[str], Silent]
) -> None:
    one, other = lab.group("a", nodes=0), lab.group("b", nodes=0)
    namespace = lab.namespace()
    lab.serve(one, other)
    for group in (one, other):
        lab.wait_applied(lab.create_work(group, "first", objects.config_map(namespace, "first")))
    home = one.host_namespace(namespace)
    # A controller of the host creates it in each new namespace; it is no write of ours.
    within(THROUGH_HUB_S, lab.host.get, f"/api/v1/namespaces/{home}/configmaps/kube-root-ca.crt")
    slow = slow_admission(home)
    create_works(lab, one, *(objects.config_map(namespace, f"slow-{n}") for n in range(SLOW_WORKS)))
    within(BACKED_OFF_S, lambda: _at_least(slow, CONNECTIONS // 2))
    maps = (objects.config_map(namespace, f"settings-{number}") for number in range(3))
    for neighbour in create_works(lab, other, *maps):
        lab.wait_applied(neighbour)
    # None of the slow writes has ended: the neighbour waited for none of them.
    assert len(slow.requests) == CONNECTIONS // 2
    assert _applied_of(lab, one) == 0
    slow.may_answer.set()

    def are_all_applied() -> None:
        assert _applied_of(lab, one) == SLOW_WORKS

    within(BACKED_OFF_S, are_all_applied)


def test_works_of_a_silent_webhook_are_parked_and_heal_when_it_answers(
    lab: Lab, widgets: Widgets, silent: Silent
) -> None:
    one, other = lab.group("a", nodes=0), lab.group("b", nodes=0)
    namespace = lab.namespace()
    declare(widgets, silent, timeout_s=2)
    lab.serve(one, other)
    create_works(lab, one, *(widgets.widget(namespace, f"w-{n}") for n in range(MANY)))
    within(BACKED_OFF_S, lambda: _all(health(lab, one), "Unknown"))
    # Each Work was told of it, but only few of them asked: those that were first, and scouts.
    assert len(silent.requests) < MANY / 2, len(silent.requests)
    silent.may_answer.set()
    within(BACKED_OFF_S, lambda: _all(health(lab, one), "Healthy"))


def test_works_of_an_unknown_kind_ask_for_it_together_and_heal_when_it_is_served(
    lab: Lab,
) -> None:
    group = lab.group("a", nodes=0)
    namespace = lab.namespace()
    api_group = f"{lab.id}.example.com"
    endpoints = Endpoints.new()
    agent = lab.new_agent(group, lab.group("b", nodes=0), flags=(*FAST, *endpoints.flags())).start()
    lab.wait_serving(agent)
    manifest = {"apiVersion": f"{api_group}/v1", "kind": "Widget"}
    before = _gets(endpoints)
    create_works(
        lab,
        group,
        *(
            manifest | {"metadata": {"name": f"w-{number}", "namespace": namespace}}
            for number in range(MANY)
        ),
    )
    within(BACKED_OFF_S, lambda: _all(_applied(lab, group), "False"))
    # Each asked for the kind on host and hub, in two requests each, at each of its retries. Works
    # of other stories have some requests, too.
    assert _gets(endpoints) - before < 2 * MANY, _gets(endpoints) - before
    try:
        lab.host.create(objects.custom_definition(api_group))
        within(BACKED_OFF_S, lambda: _all(_applied(lab, group), "True"))
    finally:
        lab.host.delete(f"{CRDS}/widgets.{api_group}")


def _gets(endpoints: Endpoints) -> float:
    values = endpoints.scrape().values("rest_client_requests_total")
    return sum(value for labels, value in values.items() if "GET" in labels)


def _applied(lab: Lab, group: Group) -> list[str]:
    return [str(condition(work, "Applied")["status"]) for work in many(lab, group)]


def _applied_of(lab: Lab, group: Group) -> int:
    """Return the number of Works that are applied."""
    conditions = [
        each
        for work in many(lab, group)
        for each in (work.get("status") or {}).get("conditions") or ()
    ]
    return sum((each["type"], each["status"]) == ("Applied", "True") for each in conditions)


def _at_least(server: WebhookServer, count: int) -> None:
    assert len(server.requests) >= count


def _all(found: list[str], wanted: str, count: int = MANY) -> None:
    assert found.count(wanted) == count, {each: found.count(each) for each in set(found)}
