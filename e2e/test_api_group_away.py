"""A Work goes while the API group of its kind does not answer: nothing of it is left behind.

The host is one of the test's own: while a group does not answer, no namespace goes anywhere.
"""

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import Api, ApiError, Object
from e2e.lab.lab import FAST, Group, Lab
from e2e.lab.lone_server import lone_api_server
from e2e.lab.wait import BACKED_OFF_S, wait_until_deleted, within

REGISTRATIONS = "/apis/apiregistration.k8s.io/v1/apiservices"
AUTOMATIC = "kube-aggregator.kubernetes.io/automanaged"


def test_a_work_is_finalised_once_the_group_of_its_kind_answers(lab: Lab) -> None:
    api_group = f"{lab.id}.example.io"
    widgets, registration = f"/apis/{api_group}/v1/widgets", f"{REGISTRATIONS}/v1.{api_group}"
    group = Group(f"{lab.id}-a", {lab.label: "a"})
    with lone_api_server(lab.directory / "server") as host:
        host.create(objects.custom_definition(api_group))
        within(BACKED_OFF_S, host.list, widgets)
        agent = lab.new_agent(group, flags=FAST, own_host=host.kubeconfig).start()
        lab.wait_serving(agent)
        widget = _widget(api_group, lab.namespace())
        work = lab.create_work(group, "widget", widget)
        lab.wait_applied(work)
        agent.terminate()
        _send_nowhere(host, registration)
        within(BACKED_OFF_S, _does_not_answer, host, widgets)

        agent.start()  # it never knew the kind
        lab.hub.delete(work)
        within(BACKED_OFF_S, _says, agent, "Backing off | controller=execution")
        assert lab.hub.get(work)["metadata"]["finalizers"]
        host.delete(registration)  # the API server makes the right one
        within(BACKED_OFF_S, host.list, widgets)
        wait_until_deleted(lab.hub, work)
        assert host.find(lab.host_path(widget, group)) is None
        agent.terminate()


def _widget(api_group: str, namespace: str) -> Object:
    metadata = {"name": "one", "namespace": namespace}
    return {"apiVersion": f"{api_group}/v1", "kind": "Widget", "metadata": metadata, "spec": {}}


def _send_nowhere(host: Api, registration: str) -> None:
    """Have an API group be served by somebody who is not there."""
    nobody = {"name": "nobody", "namespace": "default"}
    spec = {"service": nobody, "insecureSkipTLSVerify": True}
    host.patch(registration, {"metadata": {"labels": {AUTOMATIC: None}}, "spec": spec})


def _does_not_answer(host: Api, path: str) -> None:
    code = 200
    try:
        host.list(path)
    except ApiError as error:
        code = error.code
    assert code == 503


def _says(agent: Agent, text: str) -> None:
    assert text in agent.log(), agent.log_tail()
