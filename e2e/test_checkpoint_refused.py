"""The checkpoint cannot be kept, or was not: the agent works on and serves nothing old of it."""

import base64
import time
from collections.abc import Iterator

import pytest

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import ApiError, Object, collection
from e2e.lab.checkpoint import KEPT, OFF, is_saved, is_trusted, manifest_saved, secrets_of
from e2e.lab.endpoints import Endpoints
from e2e.lab.lab import QUICK_LEASE, Group, Lab
from e2e.lab.proxy import Proxy
from e2e.lab.wait import BACKED_OFF_S, wait_until_deleted, within
from e2e.lab.works import condition
from karmada_vc_agent.features.checkpoint.feature import CHECK_PATIENCE_S

FLAGS = (*QUICK_LEASE, "--cluster-status-update-frequency", "1s")
ADMISSION = "admissionregistration.k8s.io/v1"
TRIED_AGAIN_S = 180.0
"""The writes of what is refused get rarer."""


def test_agent_with_the_rights_of_an_earlier_join_continues_without_it(
    lab: Lab, hub_wire: Proxy
) -> None:
    endpoints, group = Endpoints.new(), lab.group("a")
    agent = _agent(lab, hub_wire, group, *endpoints.flags(), **KEPT)
    agent.join()
    _take_rights(lab, agent)
    agent.start(keeps_rights=True)
    lab.wait_ready(group.name)
    namespace = lab.namespace()
    kept, gone = (objects.config_map(namespace, n, key="1") for n in ("kept", "gone"))
    works = [lab.create_work(group, m["metadata"]["name"], m) for m in (kept, gone)]
    for work in works:
        lab.wait_applied(work)
    within(BACKED_OFF_S, _is_kept, lab, group, "False", "NoRights")
    message = condition(lab.cluster(group.name), "CheckpointKept")["message"]
    assert "run karmada-vc-agent join" in message
    within(BACKED_OFF_S, _is_ready, endpoints, f"[+]checkpoint ok: {group.name}: {message}")
    lab.hub.delete(works[1])
    wait_until_deleted(lab.hub, works[1])
    assert lab.host.find(lab.host_path(gone, group)) is None
    assert agent.log().count("Keeping no checkpoint yet: run karmada-vc-agent join") == 1
    assert endpoints.ask("/healthz") == (200, "ok")

    agent.join()
    within(TRIED_AGAIN_S, _is_kept, lab, group, "True", "Kept")
    _assert_is_kept_without_the_hub(lab, agent, hub_wire, group, kept)
    assert lab.host.find(lab.host_path(gone, group)) is None


def test_turned_off_it_takes_its_secrets_away_and_serves_nothing_of_them(
    lab: Lab, hub_wire: Proxy
) -> None:
    group = lab.group("a")
    agent = _agent(lab, hub_wire, group, **KEPT).start()
    lab.wait_ready(group.name)
    template = objects.config_map(lab.namespace(), "kept", key="1")
    work = lab.create_work(group, "kept", template)
    within(BACKED_OFF_S, is_saved, lab, agent, group, template)
    agent.kill()
    agent.settings |= {"checkpoint": OFF}
    agent.start(keeps_rights=True)
    within(BACKED_OFF_S, _has_no_secrets, lab, agent)
    lab.wait_applied(work)
    within(BACKED_OFF_S, _says, agent, "Removed the checkpoint: it is turned off")

    agent.kill()
    agent.settings |= {"checkpoint": {"enabled": True}}
    agent.start()
    within(BACKED_OFF_S, is_saved, lab, agent, group, template)
    agent.kill()
    agent.settings |= {"checkpoint": OFF}
    agent.start()  # with the rights that `join` gives now
    within(BACKED_OFF_S, _has_no_secrets, lab, agent)
    lab.wait_ready(group.name)
    agent.terminate()


def test_a_policy_that_refuses_its_secrets_holds_nothing_up_and_brings_nothing_back(
    lab: Lab, hub_wire: Proxy, refusal: "Refusal"
) -> None:
    group = lab.group("a")
    agent = _agent(lab, hub_wire, group, **KEPT).start()
    lab.wait_ready(group.name)
    namespace = lab.namespace()
    gone, stays = (objects.config_map(namespace, n, key="1") for n in ("gone", "stays"))
    work, _ = (lab.create_work(group, m["metadata"]["name"], m) for m in (gone, stays))
    for template in (gone, stays):
        within(BACKED_OFF_S, is_saved, lab, agent, group, template)
    refusal(agent)
    lab.hub.delete(work)
    wait_until_deleted(lab.hub, work)
    assert lab.host.find(lab.host_path(gone, group)) is None
    assert manifest_saved(lab.host, agent, group.name, gone) is not None, "it could be written"
    within(BACKED_OFF_S, _is_kept, lab, group, "False", "NotWritten")

    hub_wire.cut()
    agent.kill()
    agent.start(keeps_rights=True)
    within(BACKED_OFF_S, _says, agent, "Waiting for the hub: nothing can be served without it")
    assert lab.host.find(lab.host_path(gone, group)) is None
    hub_wire.restore()
    lab.wait_ready(group.name)
    refusal.end()
    within(TRIED_AGAIN_S, _is_kept, lab, group, "True", "Kept")
    _assert_is_kept_without_the_hub(lab, agent, hub_wire, group, stays)
    assert lab.host.find(lab.host_path(gone, group)) is None


def test_a_quota_that_is_full_is_named_and_holds_nothing_up(lab: Lab, hub_wire: Proxy) -> None:
    group = lab.group("a")
    agent = _agent(lab, hub_wire, group, **KEPT)
    agent.join()
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "full", "namespace": agent.namespace},
        "spec": {"hard": {"count/secrets": "0"}},
    }
    lab.host.create(quota)
    path = f"{collection('v1', 'ResourceQuota', agent.namespace)}/full"
    within(BACKED_OFF_S, _is_counted, lab, path)
    agent.start(keeps_rights=True)
    lab.wait_ready(group.name)
    template = objects.config_map(lab.namespace(), "kept", key="1")
    lab.wait_applied(lab.create_work(group, "kept", template))
    within(BACKED_OFF_S, _is_kept, lab, group, "False", "NotWritten")
    within(BACKED_OFF_S, _says, agent, "exceeded quota: full")
    assert "run karmada-vc-agent join" not in agent.log()

    lab.host.delete(path)
    within(TRIED_AGAIN_S, _is_kept, lab, group, "True", "Kept")
    within(BACKED_OFF_S, is_saved, lab, agent, group, template)
    _assert_is_kept_without_the_hub(lab, agent, hub_wire, group, template)


def test_what_an_earlier_version_did_not_keep_up_to_date_is_not_served(
    lab: Lab, hub_wire: Proxy
) -> None:
    """A rollback: it leads, deletes, and knows nothing of these Secrets."""
    group = lab.group("a")
    agent = _agent(lab, hub_wire, group, **KEPT).start()
    lab.wait_ready(group.name)
    template = objects.config_map(lab.namespace(), "kept", key="1")
    lab.create_work(group, "kept", template)
    within(BACKED_OFF_S, is_saved, lab, agent, group, template)
    agent.terminate()
    path = f"{collection('coordination.k8s.io/v1', 'Lease', agent.namespace)}/{agent.name}"
    for holder in ("an-earlier-version", ""):
        spec = lab.host.get(path)["spec"]
        number = spec["leaseTransitions"] + bool(holder)
        lab.host.patch(path, {"spec": {"holderIdentity": holder, "leaseTransitions": number}})
    lab.host.delete(lab.host_path(template, group))
    hub_wire.cut()
    agent.start(keeps_rights=True)
    within(BACKED_OFF_S, _says, agent, "Waiting for API server | server=hub")
    time.sleep(2 * CHECK_PATIENCE_S)  # it would lead by now if it could serve
    assert agent.log().count("Leading | lease=") == 1, "that was the first process"
    assert lab.host.find(lab.host_path(template, group)) is None
    hub_wire.restore()
    within(BACKED_OFF_S, _has, lab, group, template)
    assert agent.log().count("Not using the checkpoint") == 1
    within(BACKED_OFF_S, is_trusted, lab, agent)
    _assert_is_kept_without_the_hub(lab, agent, hub_wire, group, template)
    assert agent.log().count("Not using the checkpoint") == 1


def test_a_damaged_checkpoint_is_named_and_its_agent_does_not_lead(
    lab: Lab, hub_wire: Proxy
) -> None:
    """One that is whole has the agent ready throughout the cut."""
    endpoints, group = Endpoints.new(), lab.group("a")
    agent = _agent(lab, hub_wire, group, *endpoints.flags(), **KEPT).start()
    lab.wait_ready(group.name)
    template = objects.config_map(lab.namespace(), "kept", key="1")
    lab.create_work(group, "kept", template)
    within(BACKED_OFF_S, is_saved, lab, agent, group, template)
    hub_wire.cut()
    within(
        BACKED_OFF_S, _is_ready, endpoints, "[+]hub ok: the API server of the hub does not answer"
    )
    agent.kill()
    lab.host.delete(lab.host_path(template, group))
    secret = _damage(lab, agent, f"cluster.{group.name}")

    agent.start(keeps_rights=True)
    within(BACKED_OFF_S, _says, agent, "Waiting for the hub: nothing can be served without it")
    within(BACKED_OFF_S, _is_not_ready, endpoints, f"cluster.{group.name} of Secret {secret}: ")
    assert f"of Secret {secret}: its checksum differs from its content" in agent.log()
    time.sleep(2 * CHECK_PATIENCE_S)  # it would lead by now if it could serve
    assert agent.log().count("Leading | lease=") == 1, "that was the first process"
    hub_wire.restore()
    within(BACKED_OFF_S, _has, lab, group, template)
    within(BACKED_OFF_S, is_saved, lab, agent, group, template)
    _assert_is_kept_without_the_hub(lab, agent, hub_wire, group, template)
    within(
        BACKED_OFF_S,
        _is_ready,
        endpoints,
        f"[+]checkpoint ok: {group.name} is served as the hub said at",
    )


class Refusal:
    """A policy of somebody else that lets nobody change the Secrets of a checkpoint."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._paths: list[str] = []

    def __call__(self, agent: Agent) -> None:
        name = f"{agent.name}-no-secrets"
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["UPDATE"],
            "resources": ["secrets"],
        }
        mine = f"object.metadata.name.startsWith('{agent.name}-checkpoint-')"
        spec = {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": f"!({mine})", "message": "no Secrets from here"}],
        }
        binding = {"policyName": name, "validationActions": ["Deny"]}
        for kind, content in (("", spec), ("Binding", binding)):
            self._paths.append(self._create(f"ValidatingAdmissionPolicy{kind}", name, content))
        within(BACKED_OFF_S, self._is_refused, agent)

    def _create(self, kind: str, name: str, spec: Object) -> str:
        body = {"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
        self._lab.host.create(body)
        return f"{collection(ADMISSION, kind)}/{name}"

    def _is_refused(self, agent: Agent) -> None:
        secrets = secrets_of(self._lab.host, agent)
        assert secrets
        secret = secrets[0]["metadata"]["name"]
        path = f"{collection('v1', 'Secret', agent.namespace)}/{secret}"
        told = ""
        try:
            self._lab.host.patch(path, {"metadata": {"annotations": {"a": "b"}}})
        except ApiError as error:
            told = str(error)
        assert "no Secrets from here" in told

    def end(self) -> None:
        for path in reversed(self._paths):
            self._lab.host.delete(path)
        self._paths.clear()


@pytest.fixture
def refusal(lab: Lab) -> Iterator[Refusal]:
    made = Refusal(lab)
    yield made
    made.end()


def _agent(lab: Lab, wire: Proxy, group: Group, *flags: str, **checkpoint: bool) -> Agent:
    flags = (*FLAGS, *flags)
    return lab.new_agent(group, flags=flags, hub=wire.kubeconfig, checkpoint=checkpoint)


def _take_rights(lab: Lab, agent: Agent) -> None:
    """Leave the rights that a `join` gave before there was a checkpoint."""
    roles = collection("rbac.authorization.k8s.io/v1", "Role", agent.namespace)
    path = f"{roles}/vc-agent:{agent.name}"
    rules = lab.host.get(path)["rules"]
    left = [rule for rule in rules if not _is_of_checkpoint(rule)]
    assert len(left) == len(rules) - 2
    lab.host.patch(path, {"rules": left})


def _is_of_checkpoint(rule: Object) -> bool:
    names = rule.get("resourceNames") or ()
    is_named = any("-checkpoint-" in name for name in names)
    return rule["resources"] == ["secrets"] and (is_named or rule["verbs"] == ["create"])


def _damage(lab: Lab, agent: Agent, key: str) -> str:
    """Change one byte of an entry; return the name of its Secret."""
    (secret,) = [each for each in secrets_of(lab.host, agent) if key in (each.get("data") or {})]
    content = bytearray(base64.b64decode(secret["data"][key]))
    content[-1] ^= 1
    name = str(secret["metadata"]["name"])
    path = f"{collection('v1', 'Secret', agent.namespace)}/{name}"
    lab.host.patch(path, {"data": {key: base64.b64encode(content).decode()}})
    return name


def _is_ready(endpoints: Endpoints, text: str) -> None:
    status, told = endpoints.ask("/readyz?verbose")
    assert (status, text in told) == (200, True), told


def _is_not_ready(endpoints: Endpoints, text: str) -> None:
    status, told = endpoints.ask("/readyz")
    assert (status, text in told) == (500, True), told


def _is_counted(lab: Lab, quota: str) -> None:
    assert "count/secrets" in lab.host.get(quota)["status"]["used"]


def _is_kept(lab: Lab, group: Group, status: str, reason: str) -> None:
    found = condition(lab.cluster(group.name), "CheckpointKept")
    assert (found["status"], found["reason"]) == (status, reason), found


def _assert_is_kept_without_the_hub(
    lab: Lab, agent: Agent, wire: Proxy, group: Group, template: Object
) -> None:
    """Restart the agent without the hub: it makes again what went meanwhile."""
    wire.cut()
    agent.kill()
    lab.host.delete(lab.host_path(template, group))
    agent.start(keeps_rights=True)
    within(BACKED_OFF_S, _has, lab, group, template)


def _has(lab: Lab, group: Group, template: Object) -> None:
    assert lab.host.get(lab.host_path(template, group))["data"] == {"key": "1"}


def _has_no_secrets(lab: Lab, agent: Agent) -> None:
    assert secrets_of(lab.host, agent) == []


def _says(agent: Agent, text: str) -> None:
    assert text in agent.log(), agent.log_tail()
