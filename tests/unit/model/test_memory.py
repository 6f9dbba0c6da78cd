"""What bounds count is what Python holds."""

import tracemalloc
from typing import Any

import orjson
import pytest

from karmada_vc_agent.model.objects import bytes_of

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "edge", "labels": {"app": "web"}},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {
                        "name": "web",
                        "image": "registry.example/web:1.2",
                        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                        "env": [{"name": f"NAME_{n}", "value": f"value {n}"} for n in range(5)],
                        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                    }
                ]
            },
        },
    },
}


def held(text: bytes) -> tuple[Any, int]:
    """Return what is decoded, and what that allocates."""
    tracemalloc.start()
    value = orjson.loads(text)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return value, size


@pytest.mark.parametrize(
    "value",
    [
        {"data": {f"k{n}": "" for n in range(50_000)}},
        {"data": [{} for _ in range(50_000)]},
        {"data": [[n + 0.5] for n in range(50_000)]},
        {"data": {f"{n}" * 30: {"x" * 100: None} for n in range(5_000)}},
        {"data": {"text": "x" * 900_000}},
        {"items": [DEPLOYMENT] * 100},
    ],
)  # fmt: skip
def test_what_counts_is_what_the_process_holds(value: object) -> None:
    found, size = held(orjson.dumps(value))
    assert 0.95 * size <= bytes_of(found) <= 1.5 * size


def test_the_default_holds_thousands_of_deployments() -> None:
    assert 32 * 2**20 // bytes_of([DEPLOYMENT]) > 5000


MEMORY_SPREAD = 29
"""A value holds at most so many times its JSON: a list of maps of an empty map each."""


@pytest.mark.parametrize("item", ["{}", "[]", '{"a":{}}', '{"a":1}', '{"a":[]}', "1.5", '"\u0100"'])
def test_nothing_holds_more_than_so_many_times_its_json(item: str) -> None:
    text = f"[{','.join([item] * 10_000)}]"
    assert bytes_of(orjson.loads(text)) < MEMORY_SPREAD * len(text)
