"""The short form of the fuzzer: each way in with some inputs; `hack/fuzz` is the long one."""

import pytest

from tests.fuzz import campaign
from tests.fuzz.ways import WAYS, Way

SLOW = {"settings": 15, "kubeconfig": 15}
INPUTS = 100

each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@each_way
def test_good_inputs_are_taken(way: Way) -> None:
    taken = [sample for sample in way.samples() if not way.take(sample)]
    assert taken, "nothing that is spoiled afterwards was good before"


@each_way
def test_spoiled_inputs_raise_nothing_but_what_is_documented(way: Way) -> None:
    number = SLOW.get(way.name, INPUTS)
    tally = campaign.run(way, number, 1, with_hypothesis=True)
    assert tally.inputs >= number
    assert not tally.finds, [(find.fault, find.first) for find in tally.finds.values()]


def test_inputs_are_the_same_again_for_a_seed() -> None:
    way = WAYS["works"]
    assert list(campaign.inputs(way, 20, 7)) == list(campaign.inputs(way, 20, 7))
    assert list(campaign.inputs(way, 20, 7)) != list(campaign.inputs(way, 20, 8))
    assert list(campaign.inputs(way, 1, 7, 19)) == list(campaign.inputs(way, 20, 7))[19:]


def test_find_is_reported_with_what_reproduces_it() -> None:
    def read(value: object) -> None:
        if value != {"a": 1}:
            raise KeyError("b")

    tally = campaign.run(Way("one", lambda: [{"a": 1}], read), 50, 3, with_hypothesis=True)
    (find,) = tally.finds.values()
    assert find.times > 10
    assert find.fault.startswith("KeyError: 'b'")
    assert find.first.startswith("--seed 3 --way one --first ")
