"""The long form of the fuzzer: `hack/fuzz --help`."""

import argparse
import asyncio
import sys
import time

from tests.fuzz import campaign
from tests.fuzz.campaign import Tally
from tests.fuzz.served_ways import SERVED_WAYS
from tests.fuzz.ways import WAYS

_ALL = (*WAYS, *SERVED_WAYS)
_SLOWER = {
    "settings": 8,
    "kubeconfig": 8,
    "host-objects": 4,
    "served-works": 16,
    "served-lists": 100,
}
"""A way that takes so many times as long gets so many times fewer inputs."""

_EXAMPLES = """examples:
  hack/fuzz                                    100,000 inputs over all ways in
  hack/fuzz --inputs 5000 --way settings       5,000 inputs of one way
  hack/fuzz --seed 7 --way works --first 41 --inputs 1   one input again

exit code: 0 where nothing was found, 1 where something was, 2 for wrong options
"""


def main() -> int:
    """Run the ways that were asked for and print what came of them."""
    options = _options()
    names = options.way or list(_ALL)
    shares = {name: 1 / _SLOWER.get(name, 1) for name in names}
    unit = options.inputs / sum(shares.values())
    print(f"seed {options.seed}, {len(names)} ways in", flush=True)  # noqa: T201
    total = found = 0
    for name in names:
        started = time.monotonic()
        tally = _run(name, max(1, round(unit * shares[name] + 0.5)), options)
        took = time.monotonic() - started
        print(  # noqa: T201
            f"{name:24} {tally.inputs:7} inputs {tally.refused:7} refused "
            f"{len(tally.finds):3} finds {took:7.1f} s",
            flush=True,
        )
        for find in tally.finds.values():
            again = f"hack/fuzz --inputs 1 {find.first}"
            print(f"    {find.times} x {find.fault}\n      {again}", flush=True)  # noqa: T201
        total += tally.inputs
        found += len(tally.finds)
    print(f"{total} inputs, {found} finds, seed {options.seed}")  # noqa: T201
    return 1 if found else 0


def _run(name: str, number: int, options: argparse.Namespace) -> Tally:
    if name in SERVED_WAYS:
        way = SERVED_WAYS[name]
        return asyncio.run(campaign.run_served(way, number, options.seed, options.first))
    with_hypothesis = options.first == 0 and number > 1
    return campaign.run(
        WAYS[name], number, options.seed, options.first, with_hypothesis=with_hypothesis
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="hack/fuzz",
        description="Spoil what reaches the agent, and look whether it bears it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--inputs", type=int, default=100_000, help="in all; default: 100000")
    parser.add_argument("--seed", type=int, default=1, help="the same inputs again; default: 1")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--way", action="append", choices=_ALL, help="only this way in")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
