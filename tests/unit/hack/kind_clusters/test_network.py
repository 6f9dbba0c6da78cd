"""Routes between the podCIDRs of nodes, where no CNI image can be pulled."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kind_clusters import network
from kind_clusters.network import NodeAddress

ONE = NodeAddress("w", "10.89.0.3", "10.244.1.0/24")
OTHER = NodeAddress("w2", "10.89.0.4", "10.244.2.0/24")


def node(name: str, pods: str | None, *addresses: tuple[str, str]) -> dict[str, Any]:
    found = [{"type": kind, "address": address} for kind, address in addresses]
    spec = {} if pods is None else {"podCIDR": pods}
    return {"metadata": {"name": name}, "spec": spec, "status": {"addresses": found}}


def test_addresses_are_internal_ones_of_ipv4() -> None:
    nodes = [
        node("w", "10.244.1.0/24", ("Hostname", "w"), ("InternalIP", "fc00::3")),
        node("w2", OTHER.pods, ("InternalIP", "fc00::4"), ("InternalIP", OTHER.address)),
        node("w3", None, ("InternalIP", "10.89.0.5")),
    ]
    assert network.addresses({"items": nodes}) == [OTHER]


def test_each_node_has_its_own_range() -> None:
    document = json.loads(network.conflist(ONE.pods))
    link, ports = document["plugins"]
    assert link["ipam"]["ranges"] == [[{"subnet": ONE.pods}]]
    assert link["ipMasq"] is False, "pods of other nodes see the address of a pod"
    assert ports["type"] == "portmap"


def test_routes_lead_to_the_others_and_may_be_made_again() -> None:
    *_, route, masquerade = network.script(ONE, [OTHER]).splitlines()
    assert route == "route 10.244.2.0/24 w2"
    assert f"-C POSTROUTING -s {ONE.pods} ! -d {network.PODS}" in masquerade
    assert " || iptables-nft -w -t nat -A " in masquerade


@pytest.mark.parametrize(("getent", "made"), [("echo 10.89.0.9 STREAM w2", 1), ("exit 2", 0)])
def test_others_are_resolved_by_name_each_time(tmp_path: Path, getent: str, made: int) -> None:
    log = tmp_path / "log"
    log.write_text("")
    programs = {"getent": getent, "ip": f'echo "$*" >>{log}', "iptables-nft": "exit 0"}
    for name, content in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{content}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(  # noqa: S603
        ["/bin/sh", "-eu", "-c", network.script(ONE, [OTHER])],
        env={"PATH": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 0
    assert log.read_text() == "route replace 10.244.2.0/24 via 10.89.0.9\n" * made
