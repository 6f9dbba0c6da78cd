"""What the feature shares with others."""

from prometheus_client import generate_latest

from karmada_vc_agent.features.escapes.feature import EscapeDetector
from tests.fakes.world import World


async def test_escaped_pods_are_counted(world: World) -> None:
    world.register()
    world.look()
    escaped = world.parts.common.part(EscapeDetector).escapes
    for number in range(3):
        escaped["bank-v-branch-a", f"pod-{number}"] = ("branch-a", f"uid-{number}", "n2")
    escaped["x-v-unserved", "pod"] = ("unserved", "uid", "n2")
    lines = generate_latest(world.common.metrics.registry).decode().splitlines()
    escapes = [
        line.split("{")[1] for line in lines if line.startswith("virtual_cluster_escaped_pods{")
    ]
    assert escapes == ['member_cluster="branch-a"} 3.0']
