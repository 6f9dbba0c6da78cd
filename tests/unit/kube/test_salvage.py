"""Salvage: any depth is cut off, whatever is in its texts."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.kube import codec
from tests.fakes.any_json import JSON


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    is_container = isinstance(value, dict | list)
    return int(is_container) + max((depth(element) for element in inner), default=0)


def pruned(value: Any, levels: int) -> Any:
    if isinstance(value, dict | list) and levels == 0:
        return None
    if isinstance(value, dict):
        return {key: pruned(element, levels - 1) for key, element in value.items()}
    if isinstance(value, list):
        return [pruned(element, levels - 1) for element in value]
    return value


@given(JSON, st.integers(0, 5))
def test_cut_leaves_null_for_what_is_deeper_and_nothing_else_changed(
    value: Any, levels: int
) -> None:
    assert orjson.loads(codec.cut_deep(orjson.dumps(value), levels)) == pruned(value, levels)


@pytest.mark.parametrize("levels", [255, 300, 1024, 1100, 3000, 100_000])
def test_what_is_nested_too_deep_is_read_to_a_depth_that_cannot_be_sent(levels: int) -> None:
    value, is_cut = codec.decode_json(nested(levels))
    assert is_cut
    assert depth(value) <= codec.READ_LEVELS
    assert codec.is_too_deep(value, nested(levels))


def test_what_can_be_sent_is_read_whole() -> None:
    value, is_cut = codec.decode_json(nested(254))
    assert not is_cut
    assert depth(value) == 254


@given(st.binary())
def test_garbage_is_refused_in_one_way(content: bytes) -> None:
    try:
        value, is_cut = codec.decode_json(content)
    except ValueError:
        with pytest.raises(orjson.JSONDecodeError):
            orjson.loads(content)
    else:
        assert is_cut or value == orjson.loads(content)
