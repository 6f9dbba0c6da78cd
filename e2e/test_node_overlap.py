"""A node that two groups select counts for one of them, and both Clusters say so."""

from e2e.lab import objects
from e2e.lab.api import Object
from e2e.lab.lab import NODES, Group, Lab
from e2e.lab.wait import eventually, wait_until_deleted
from e2e.lab.works import condition


def test_node_in_two_groups_is_reported_counted_once_and_resolved(lab: Lab) -> None:
    older = lab.group("older", nodes=2)
    younger = Group(f"{lab.id}-younger", {f"{lab.id}/second": "yes"})
    lab.add_node(younger)
    agent = lab.serve(older)
    # Registered together, either might be the older one by a second.
    agent.settings["virtualClusters"].append(younger.settings())
    agent.reload()
    lab.wait_serving(agent)
    namespace = lab.namespace()
    early = objects.config_map(namespace, "early", key="1")
    early_work = lab.create_work(younger, "early", early)
    lab.wait_applied(early_work)

    shared = f"{NODES}/{older.nodes[1]}"
    lab.host.patch(shared, {"metadata": {"labels": younger.selector}})
    message = f'node "{older.nodes[1]}" is also selected by virtual cluster "{{}}"'
    _wait_overlap(lab, older, "True", message.format(younger.name))
    _wait_overlap(lab, younger, "True", message.format(older.name))
    told = "Nodes are selected by several virtual clusters; the older one has them"
    lines = [line for line in agent.log().splitlines() if told in line]
    assert len(lines) == 2, lines
    for group in (older, younger):
        (line,) = [line for line in lines if f"virtual_cluster={group.name} " in line]
        assert older.nodes[1] in line
    _wait_total(lab, older, 2)
    _wait_total(lab, younger, 1)

    late = objects.config_map(namespace, "late")
    late_work = lab.create_work(younger, "late", late)
    lab.wait_applied(
        late_work,
        "False",
        f'Failed to apply all manifests (0/1): virtual cluster "{younger.name}" refused ConfigMap '
        f'{namespace}/late: NodeOverlap: node "{older.nodes[1]}" also belongs to another virtual '
        "cluster",
    )
    in_older = objects.config_map(namespace, "in-older")
    lab.wait_applied(lab.create_work(older, "in-older", in_older))
    replace = {"op": "replace", "path": "/spec/workload/manifests/0/data/key", "value": "2"}
    lab.hub.patch_json(early_work, replace)
    lab.wait_data(early, younger, key="2")
    lab.hub.delete(early_work)
    wait_until_deleted(lab.host, lab.host_path(early, younger))

    lab.host.patch(shared, {"metadata": {"labels": dict.fromkeys(younger.selector)}})
    for group in (older, younger):
        _wait_overlap(lab, group, "False", "no node is selected by another virtual cluster")
    lab.wait_applied(late_work)
    lab.on_host(late, younger)


def test_nodes_chosen_by_name_or_expression_are_labelled_for_their_cluster(lab: Lab) -> None:
    named, expressed = lab.group("named", nodes=2), lab.group("expressed", nodes=1)
    expression = {"key": lab.label, "operator": "In", "values": ["expressed"]}
    lab.serve(
        {"name": named.name, "nodeNames": named.nodes[:1]},
        {"name": expressed.name, "nodeSelector": {"matchExpressions": [expression]}},
    )
    label = "node-restriction.kubernetes.io/virtual-cluster"
    template = objects.deployment(lab.namespace(), replicas=2)
    lab.propagate([template], named, expressed)
    lab.wait_fully_applied(template)
    for group in (named, expressed):
        live = lab.on_host(template, group)
        assert live["spec"]["template"]["spec"]["nodeSelector"] == {label: group.name}
        eventually(_runs_on_first_node, lab, group, template)
    node = lab.host.get(f"{NODES}/{named.nodes[1]}")
    assert label not in node["metadata"]["labels"]


def _wait_overlap(lab: Lab, group: Group, status: str, message: str) -> None:
    def look() -> None:
        overlap = condition(lab.cluster(group.name), "NodeOverlap")
        assert (overlap["status"], overlap["message"]) == (status, message)

    eventually(look)


def _wait_total(lab: Lab, group: Group, nodes: int) -> None:
    def look() -> None:
        summary = lab.cluster(group.name)["status"]["nodeSummary"]
        assert summary["totalNum"] == nodes, summary

    eventually(look)


def _runs_on_first_node(lab: Lab, group: Group, template: Object) -> None:
    pods = lab.pods(group.host_namespace(template["metadata"]["namespace"]))
    assert [pod["spec"].get("nodeName") for pod in pods] == [group.nodes[0]] * 2
