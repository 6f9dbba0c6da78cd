"""`explain`: each broken link is named as what it is, and what could not be read as that."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.diagnosis import host_links, hub_links
from karmada_vc_agent.diagnosis.explain import Explainer, target_of
from karmada_vc_agent.diagnosis.faults import EXIT_CODES, FAULTS
from karmada_vc_agent.diagnosis.host_links import OnHost
from karmada_vc_agent.diagnosis.hub_links import Explained, status_written
from karmada_vc_agent.diagnosis.report import Report
from karmada_vc_agent.diagnosis.servers import Server
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.model.vocabulary import HOLD_ANNOTATION, WORK_ANNOTATION
from tests.fakes import objects
from tests.unit.diagnosis import conftest as made
from tests.unit.diagnosis.conftest import Chain

REFUSED = 'virtual cluster "branch-a" refused Deployment edge/web: NodeNameForbidden: nodeName is x'
SECOND = "/spec/suspension/dispatchingOnClusters/clusterNames/1"
WAITING = objects.condition("Dispatching", "False", "OutsideWindow", "Generation 2 waits")


def unready(chain: Chain, pod: Object | None = None, *conditions: Object) -> None:
    chain.host.seed(made.live(0, *conditions), *([pod] if pod else []))


def without_template(chain: Chain) -> None:
    chain.hub.remove(made.TEMPLATE_PATH)
    chain.hub.remove(made.WORK_PATH)


def without_cluster(chain: Chain) -> None:
    chain.hub.seed(made.policy(clusters=()))
    chain.hub.remove(made.CLUSTER_PATH)


def tainted(*taints: Object) -> Callable[[Chain], object]:
    made_of = made.binding(scheduled="False", message="1 cluster(s) had untolerated taint")
    keys = [{"effect": "NoSchedule", **taint} for taint in taints]
    spec = {"spec": {"taints": keys}}
    return lambda c: c.hub.seed(made_of, {**c.hub.live(made.CLUSTER_PATH), **spec})


def suspended(chain: Chain) -> None:
    policy = made.policy()
    policy["spec"]["suspension"] = {"dispatching": True}
    chain.hub.seed(policy, made.work(suspendDispatching=True))


def suspended_on(*clusters: str) -> Callable[[Chain], object]:
    policy = made.policy()
    policy["spec"]["suspension"] = {"dispatchingOnClusters": {"clusterNames": list(clusters)}}
    return lambda chain: chain.hub.seed(policy, made.work(suspendDispatching=True))


def cordoned(chain: Chain) -> None:
    unready(chain, made.pod(unscheduled="0/1 nodes are available"))
    node = objects.node("a1", {"branch": "a"})
    node["spec"] = {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "x"}]}
    chain.host.seed(node)


def unclaimed(chain: Chain) -> None:
    chain.hub.remove(made.POLICY_PATH)
    chain.hub.seed(made.policy("near", name="wbe"))
    _unmark(chain)


def _unmark(chain: Chain) -> None:
    template = made.template()
    metadata = {**chain.hub.live(made.TEMPLATE_PATH)["metadata"], "annotations": {}}
    chain.hub.change(made.TEMPLATE_PATH, metadata=metadata, spec=template["spec"])


def of_another(chain: Chain) -> None:
    live = made.live()
    live["metadata"]["annotations"][WORK_ANNOTATION] = "karmada-es-branch-a/another"
    chain.host.seed(live)


def held(chain: Chain) -> None:
    chain.host.seed(objects.claimed(annotations={HOLD_ANNOTATION: "belt stopped"}))


def renewed(seconds_ago: float) -> Object:
    return made.lease(datetime.now(UTC) - timedelta(seconds=seconds_ago))


def not_ready(status: str) -> Callable[[Chain], object]:
    return lambda chain: chain.hub.seed(
        {
            **chain.hub.live(made.CLUSTER_PATH),
            "status": {"conditions": [objects.ready(status)]},
        }
    )


def with_condition(kind: str, status: str, reason: str) -> Callable[[Chain], object]:
    conditions = [objects.ready(), objects.condition(kind, status, reason, "because")]
    status_of = {"status": {"conditions": conditions}}
    return lambda chain: chain.hub.seed({**chain.hub.live(made.CLUSTER_PATH), **status_of})


def failure(message: str) -> Object:
    return objects.condition("ReplicaFailure", "True", "FailedCreate", message)


def hub(*seeded: Object) -> Callable[[Chain], object]:
    return lambda chain: chain.hub.seed(*seeded)


FAULTS_MADE: list[tuple[str, Callable[[Chain], object], str]] = [
    ("TemplateMissing", without_template, "no Deployment edge/web"),
    ("NoPolicy", unclaimed, 'near selects name "wbe"; did you mean "web"?'),
    ("PolicyNotApplied", _unmark, "PropagationPolicy edge/web selects Deployment edge/web, but"),
    ("PolicyNamesNoCluster", hub(made.policy(clusters=("brnch-a",))), 'mean "branch-a"?'),
    ("NoBinding", lambda c: c.hub.remove(made.BINDING_PATH), "has no binding web-deployment"),
    (
        "NotScheduled",
        hub(made.binding(scheduled="False", message="0/3 fit")),
        "cannot place Deployment edge/web",
    ),
    (
        "NotScheduled",
        hub(made.binding("branch-a", suspension={"scheduling": True})),
        "spec.suspension suspends it",
    ),
    (
        "KindNotServed",
        hub(made.binding(scheduled="False", message="1 cluster(s) did not have the API resource")),
        "the host does not serve the kind of Deployment edge/web",
    ),
    ("ClusterTainted", tainted({"key": "dedicated"}), "Cluster branch-a has taint dedicated:NoSch"),
    ("NotScheduled", tainted({"key": "cluster.karmada.io/not-ready"}), "untolerated taint"),
    (
        "ClaimedByAnother",
        hub(
            *(made.policy(clusters=("branch-b",)), made.policy("late")),
            *(made.binding("branch-b"), objects.cluster("branch-b", "id")),
        ),
        "PropagationPolicy edge/late selects Deployment edge/web for branch-a, too, but",
    ),
    ("NotPlacedHere", hub(made.binding("branch-b")), "on branch-b, not on branch-a"),
    ("NoCluster", without_cluster, 'no Cluster "branch-a"'),
    ("ClusterNotReady", not_ready("False"), "cluster is not reachable"),
    ("ClusterSilent", not_ready("Unknown"), "stopped posting"),
    ("ClusterSilent", hub(renewed(300)), "Lease was not renewed for"),
    ("NoWork", lambda c: c.hub.remove(made.WORK_PATH), f"there is no Work {made.WORK}"),
    ("Paused", with_condition("TakesChanges", "False", "Paused"), "branch-a is paused"),
    ("WorkSuspended", hub(made.work(suspendDispatching=True)), "is suspended"),
    ("WorkSuspended", suspended, "is suspended"),
    ("WindowClosed", hub(made.work(WAITING)), "Generation 2 waits"),
    ("NotTaken", hub(made.work(objects.condition("Dispatching", "True", "x", "y"))), "not applied"),
    ("Refused", hub(made.not_applied(REFUSED)), "refused with NodeNameForbidden: nodeName is x"),
    ("QuotaExceeded", hub(made.not_applied("is forbidden: exceeded quota: all")), "a quota of"),
    ("WebhookDenied", hub(made.not_applied('admission webhook "x" denied the request')), "denies"),
    ("KindNotServed", hub(made.not_applied('no matches for kind "Widget"')), "does not serve"),
    ("NotApplied", hub(made.not_applied("Deployment.apps is invalid")), "cannot apply"),
    ("NamespaceNotClaimed", lambda c: c.host.remove(made.NAMESPACE_PATH), "edge of branch-a"),
    ("NamespaceHeld", held, "holds namespace edge-v-branch-a: belt stopped"),
    ("ObjectMissing", lambda c: c.host.remove(made.LIVE_PATH), "edge-v-branch-a/web is not on"),
    ("ObjectForeign", of_another, "of karmada-es-branch-a/another"),
    ("QuotaExceeded", lambda c: unready(c, None, failure("x: exceeded quota: all")), "is exceeded"),
    ("ImageNotPulled", lambda c: unready(c, made.pod("ImagePullBackOff", "no x")), "no x"),
    ("ContainerCrashes", lambda c: unready(c, made.pod("CrashLoopBackOff")), "again and again"),
    ("ContainerNotCreated", lambda c: unready(c, made.pod("CreateContainerConfigError")), "creat"),
    ("NotSchedulable", lambda c: unready(c, made.pod(unscheduled="0/1 nodes")), "fit on no node"),
    ("NodesCordoned", cordoned, "all nodes of branch-a are cordoned"),
    ("PodsNotReady", unready, "0 of 1 pods of Deployment edge/web are ready"),
]


@pytest.mark.parametrize(
    ("name", "break_it", "says"),
    FAULTS_MADE,
    ids=[f"{row[0]}-{i}" for i, row in enumerate(FAULTS_MADE)],
)
async def test_fault_is_named_in_the_first_line(
    chain: Chain, name: str, break_it: Callable[[Chain], object], says: str
) -> None:
    break_it(chain)
    report = await chain.report(cluster="branch-a")
    assert report.broken is not None
    assert (report.broken.name, report.broken.side) == (name, FAULTS[name]["side"])
    first, second, *_ = report.text().splitlines()
    assert says in first
    assert second == f"next: {report.broken.do}"
    assert not re.search(r"\{\w", first + second)


@pytest.mark.parametrize(
    ("break_it", "step"),
    [
        (
            hub(made.work(suspendDispatching=True)),
            (
                f"kubectl -n karmada-es-branch-a patch work {made.WORK} --type=merge "
                """-p '{"spec": {"suspendDispatching": null}}' # on the hub"""
            ),
        ),
        (
            suspended,
            (
                "kubectl -n edge patch propagationpolicy web --type=merge "
                """-p '{"spec": {"suspension": null}}' # on the hub"""
            ),
        ),
        (
            suspended_on("branch-b", "branch-a"),
            (
                "kubectl -n edge patch propagationpolicy web --type=json -p "
                f"""'[{{"op": "test", "path": "{SECOND}", "value": "branch-a"}}, """
                f"""{{"op": "remove", "path": "{SECOND}"}}]' # on the hub"""
            ),
        ),
        (
            suspended_on("branch-b"),
            (
                f"kubectl -n karmada-es-branch-a patch work {made.WORK} --type=merge "
                """-p '{"spec": {"suspendDispatching": null}}' # on the hub"""
            ),
        ),
        (cordoned, "kubectl uncordon a1 # on the host"),
        (
            tainted({"key": "dedicated"}),
            (
                "kubectl karmada taint clusters branch-a dedicated:NoSchedule- # on the hub, "
                "or have PropagationPolicy edge/web tolerate it"
            ),
        ),
    ],
)
async def test_step_is_a_command(
    chain: Chain, break_it: Callable[[Chain], object], step: str
) -> None:
    break_it(chain)
    broken = (await chain.report(cluster="branch-a")).broken
    assert broken is not None
    assert broken.do == step


@pytest.mark.parametrize(
    ("name", "node"),
    [("NoNodes", None), ("NodesNotReady", objects.node("a1", {"branch": "a"}, "False"))],
)
async def test_nodes_are_why_pods_do_not_run(chain: Chain, name: str, node: Object | None) -> None:
    unready(chain, made.pod(unscheduled="0/1 nodes are available"))
    chain.host.remove(made.NODE_PATH)
    if node:
        chain.host.seed(node)
    report = await chain.report()
    assert report.broken is not None
    assert report.broken.name == name


async def test_nothing_is_broken_and_each_link_is_shown(chain: Chain) -> None:
    report = await chain.report()
    assert report.broken is None
    names = "template policy binding cluster work namespace rewritten object pods nodes status"
    assert [link.name for link in report.links] == names.split()
    text = report.text()
    assert text.startswith(
        "nothing is broken in what was seen of Deployment edge/web\nnext: nothing"
    )
    assert 'spec.template.spec.nodeSelector: none -> {"branch": "a"}' in text
    assert "1 of 1 ready" in text
    assert json.loads(json.dumps(report.json()))["broken"] is None


async def test_difference_of_the_live_object_is_shown(chain: Chain) -> None:
    live = made.live()
    live["spec"]["replicas"] = 7
    chain.host.seed(live)
    assert "differs in spec.replicas: 1 -> 7" in (await chain.report()).text()


async def test_settings_are_those_of_the_agent_in_the_cluster(chain: Chain) -> None:
    chain.config = None
    selector = "nodeSelector: {matchLabels: {branch: a}}"
    text = f"""apiVersion: config.virtualcluster.kubeedge.io/v1alpha1
kind: AgentConfig
virtualClusters: [{{name: branch-a, {selector}}}]
"""
    metadata = {"name": "karmada-vc-agent", "namespace": "agents"}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    chain.host.seed(objects.namespace("agents"), {**config, "data": {"agent.yaml": text}})
    assert "spec.template.spec.nodeSelector" in (await chain.report()).text()


async def test_all_clusters_of_the_binding_are_walked(chain: Chain) -> None:
    chain.hub.seed(made.binding("branch-a", "branch-b"))
    report = await chain.report()
    assert {link.cluster for link in report.links} == {"", "branch-a", "branch-b"}
    assert report.broken is not None
    assert report.broken.says == 'the hub has no Cluster "branch-b"; did you mean "branch-a"?'


@pytest.mark.parametrize("kind", ["deployment", "Deployments", "DEPLOYMENT", "deployments.apps"])
async def test_kind_has_all_names_that_kubectl_takes(chain: Chain, kind: str) -> None:
    assert (await chain.report(f"edge/{kind}/web")).broken is None


async def test_kind_that_is_none_has_a_suggestion(chain: Chain) -> None:
    with pytest.raises(
        ConfigError, match='no API server has a kind "deploymnt"; did you mean "depl'
    ):
        await chain.report("edge/deploymnt/web")


@pytest.mark.parametrize("cluster", ["", "branch-a"])
async def test_host_alone_is_walked_while_the_hub_is_away(chain: Chain, cluster: str) -> None:
    with chain.hub.down():
        report = await chain.report(cluster=cluster)
    assert report.broken is not None
    assert (report.broken.name, EXIT_CODES[report.broken.side]) == ("Unreachable", 3)
    assert "1 of 1 ready" in report.text()


async def test_hub_alone_is_walked_while_the_host_is_away(chain: Chain) -> None:
    with chain.host.down():
        report = await chain.report()
    assert report.broken is not None
    assert (report.broken.name, EXIT_CODES[report.broken.side]) == ("Unreachable", 5)
    assert "Applied=True" in report.text()
    chain.hub.seed(made.not_applied(REFUSED))
    with chain.host.down():
        report = await chain.report()
    assert report.broken is not None
    assert report.broken.name == "Refused", "what is broken before it comes first"


async def test_hub_that_is_the_host_is_swapped(chain: Chain) -> None:
    chain.hub, chain.host = chain.host, chain.hub
    report = await chain.report()
    assert report.broken is not None
    assert report.broken.says.startswith("the kubeconfigs are swapped")


@pytest.mark.parametrize("path", [made.TEMPLATE_PATH, made.POLICY_PATH, made.BINDING_PATH])
async def test_right_that_is_missing_hides_nothing_behind_it(chain: Chain, path: str) -> None:
    plural = path.split("/")[-2]
    text = f'User "x" cannot get resource "{plural}" in API group ""'
    chain.hub.fail(403, "Forbidden", path=path, times=9, message=text)
    report = await chain.report(cluster="branch-a")
    assert report.broken is not None
    assert report.broken.name == "RightMissing"
    assert f"needs rule {{apiGroups: [{path.split('/')[2]}]" in report.broken.says
    assert "1 of 1 ready" in report.text()
    chain.host.remove(made.LIVE_PATH)
    report = await chain.report(cluster="branch-a")
    assert report.broken is not None
    assert report.broken.name == "ObjectMissing", "a fault that is seen comes first"


ELSEWHERE = (made.binding("branch-b"), objects.cluster("branch-b", "id"))


@pytest.mark.parametrize(
    "path", [made.TEMPLATE_PATH, f"/apis/{made.POLICY}/clusterpropagationpolicies"]
)
async def test_where_it_is_placed_needs_neither_template_nor_other_policies(
    chain: Chain, path: str
) -> None:
    chain.hub.seed(made.policy(clusters=("branch-b",)), *ELSEWHERE)
    text = f'User "x" cannot list resource "{path.rpartition("/")[2]}" in API group ""'
    chain.hub.fail(403, "Forbidden", path=path, times=9, message=text)
    report = await chain.report(cluster="branch-a")
    assert report.broken is not None
    assert report.broken.name == "NotPlacedHere"


async def test_policy_of_all_namespaces_takes_nothing_from_one_of_the_namespace(
    chain: Chain,
) -> None:
    rival = made.policy("wide")
    del rival["metadata"]["namespace"]
    rival["kind"] = "ClusterPropagationPolicy"
    chain.hub.seed(made.policy(clusters=("branch-b",)), rival, *ELSEWHERE)
    report = await chain.report(cluster="branch-a")
    assert report.broken is not None
    assert report.broken.name == "NotPlacedHere"


async def test_taint_that_is_named_is_one_that_the_scheduler_names(chain: Chain) -> None:
    text = "1 cluster(s) had untolerated taint {gpu=yes:NoSchedule}"
    tainted({"key": "dedicated"}, {"key": "gpu", "value": "yes"})(chain)
    chain.hub.seed(made.binding(scheduled="False", message=text))
    report = await chain.report(cluster="branch-a")
    assert report.broken is not None
    assert "has taint gpu:NoSchedule" in report.broken.says


async def test_cordoned_nodes_are_not_why_a_pod_that_runs_is_not_ready(chain: Chain) -> None:
    cordoned(chain)
    pod = made.pod()
    condition = objects.condition("Ready", "False", "ContainersNotReady", "unready status: [c]")
    pod["status"]["conditions"] = [condition]
    chain.host.seed(pod)
    report = await chain.report()
    assert report.broken is not None
    assert report.broken.name == "PodsNotReady"


async def test_work_by_hand_needs_no_template(chain: Chain) -> None:
    for path in (made.TEMPLATE_PATH, made.POLICY_PATH, made.BINDING_PATH):
        chain.hub.remove(path)
    chain.hub.remove(made.WORK_PATH)
    work = made.work()
    work["metadata"]["name"] = "by-hand"
    work["spec"]["workload"]["manifests"].append(objects.config_map())
    chain.hub.seed(work)
    live = made.live()
    live["metadata"]["annotations"][WORK_ANNOTATION] = "karmada-es-branch-a/by-hand"
    chain.host.seed(live)
    report = await chain.report("branch-a/by-hand")
    assert report.broken is not None
    text = "ConfigMap edge-v-branch-a/settings is not on the host, though its Work is applied"
    assert report.broken.says == text
    assert "1 of 1 ready" in report.text()


async def test_texts_of_tenants_move_no_cursor(chain: Chain) -> None:
    chain.hub.seed(made.not_applied("all is well\n\x1b[2JApplied=True"))
    text = (await chain.report()).text()
    assert "\x1b" not in text
    assert "all is well \\x1b[2JApplied=True" in text


async def test_object_without_marks_is_of_another_writer(chain: Chain) -> None:
    metadata = chain.host.live(made.LIVE_PATH)["metadata"]
    chain.host.change(made.LIVE_PATH, metadata={**metadata, "labels": {}, "annotations": {}})
    report = await chain.report()
    assert report.broken is not None
    assert report.broken.name == "ObjectForeign"


def warning(reason: str, message: str) -> Object:
    metadata = {"name": reason.lower(), "namespace": "edge-v-branch-a"}
    about = {"kind": "Pod", "name": "web-1", "namespace": "edge-v-branch-a"}
    head = {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "type": "Warning"}
    return {**head, "involvedObject": about, "reason": reason, "message": message}


@pytest.mark.parametrize(
    "event", [("FailedScheduling", "0/1 nodes are available"), ("FailedMount", "no Secret x")]
)
async def test_event_of_what_is_over_is_not_why(chain: Chain, event: tuple[str, str]) -> None:
    pod = made.pod()
    text = "containers with unready status: [c]"
    pod["status"]["conditions"] = [objects.condition("Ready", "False", "ContainersNotReady", text)]
    unready(chain, pod)
    chain.host.seed(warning(*event))
    report = await chain.report()
    assert report.broken is not None
    assert (report.broken.name, text in report.broken.says) == ("PodsNotReady", True)


async def test_event_is_why_a_pod_does_not_start(chain: Chain) -> None:
    unready(chain, made.pod("ContainerCreating"))
    chain.host.seed(warning("FailedMount", "no Secret x"))
    report = await chain.report()
    assert report.broken is not None
    assert report.broken.name == "ContainerNotCreated"


async def test_rollout_that_does_not_end_is_broken_beside_old_pods(chain: Chain) -> None:
    live = made.live()
    live["status"] |= {"replicas": 2, "updatedReplicas": 1, "unavailableReplicas": 1}
    chain.host.seed(live, made.pod("ImagePullBackOff", "no x"))
    report = await chain.report()
    assert report.broken is not None
    assert report.broken.name == "ImageNotPulled"


@pytest.mark.parametrize(
    ("spec", "conditions"),
    [
        ({"suspend": True}, []),
        ({"parallelism": 3}, [objects.condition("Complete", "True", "x", "y")]),
    ],
)
def test_job_that_is_suspended_or_complete_lacks_no_pod(
    spec: Object, conditions: list[Object]
) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": spec}
    desired, ready = host_links._replicas(
        {**job, "status": {"succeeded": 1, "conditions": conditions}}
    )
    assert desired == ready


async def test_pod_that_is_explained_itself_is_one_of_one(chain: Chain) -> None:
    pod = made.pod()
    pod["status"]["conditions"] = [objects.ready()]
    _, host = await chain.servers()
    resource, report = Resource(GroupVersionKind("", "v1", "Pod"), "pods", True), Report("x")
    place = OnHost("branch-a", Explained(resource, "edge", "web-1"))
    await host_links.read_pods(host, report, place, pod)
    assert report.links[0].facts[0] == "1 of 1 ready"


def test_binding_has_the_name_that_karmada_makes() -> None:
    resource = Resource(
        GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRole"), "clusterroles", False
    )
    path = hub_links._binding_path(Explained(resource, "", "edge:Reader"))
    assert path.rpartition("/")[2] == "edge.reader-clusterrole"


async def test_host_that_is_karmada_too_is_named(chain: Chain) -> None:
    chain.host = chain.hub
    report = await chain.report()
    assert report.broken is not None
    assert report.broken.name == "HostIsKarmada"


async def test_cluster_that_is_missing_breaks_no_other(chain: Chain) -> None:
    chain.hub.seed(made.policy(clusters=("branch-a", "branch-z")), made.not_applied(REFUSED))
    report = await chain.report(cluster="branch-a")
    assert report.broken is not None
    assert report.broken.name == "Refused"
    report = await chain.report()
    assert report.broken is not None
    assert report.broken.name == "PolicyNamesNoCluster"


async def test_place_that_the_scheduler_keeps_is_no_fault_of_its_last_attempt(chain: Chain) -> None:
    chain.hub.seed(made.binding("branch-a", scheduled="False", message="0/3 fit"))
    assert (await chain.report(cluster="branch-a")).broken is None
    report = await chain.report()
    assert report.broken is not None
    assert report.broken.name == "NotScheduled"


async def test_agent_that_is_silent_comes_before_what_it_reported(chain: Chain) -> None:
    with_condition("TakesChanges", "False", "Paused")(chain)
    chain.hub.seed(renewed(300))
    report = await chain.report()
    assert report.broken is not None
    assert report.broken.name == "ClusterSilent"


async def test_clock_that_is_a_little_ahead_makes_no_agent_silent(chain: Chain) -> None:
    chain.hub.seed(renewed(43))
    assert (await chain.report()).broken is None


async def test_kind_that_has_namespaces_needs_one(chain: Chain) -> None:
    with pytest.raises(
        ConfigError, match="Deployment is in a namespace; write NAMESPACE/deployment/web"
    ):
        await chain.report("/deployment/web")


@pytest.mark.parametrize("text", ["branch-a", "/b", "a//", "a/b/c/d", "a/b/"])
def test_argument_that_is_none_is_reported(text: str) -> None:
    with pytest.raises(ConfigError, match="NAMESPACE/KIND/NAME"):
        target_of(text)


def test_status_was_written_when_the_server_says() -> None:
    work = objects.work()
    work["metadata"]["managedFields"] = [
        {"manager": "x", "time": "2026-11-23T15:00:00Z"},
        {"manager": "x", "subresource": "status", "time": "2026-11-23T14:00:00Z"},
    ]
    assert status_written(work) == "2026-11-23T14:00:00Z"


async def test_side_without_a_kubeconfig_is_not_seen(chain: Chain) -> None:
    hub, host = await chain.servers()
    for servers in ((hub, Server("host", None)), (Server("hub", None), host)):
        explainer = Explainer(*servers, CONFIG, chain.config, ("karmada-vc-agent", "agents"))
        report = await explainer.explain(("edge", "deployment", "web"), "branch-a")
        assert report.broken is None
        unseen = next(link for link in report.links if not link.is_seen)
        assert unseen.name in ("hub", "host")
