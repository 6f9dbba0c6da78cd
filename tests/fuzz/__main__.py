"""The long form of the fuzzer: `hack/fuzz --help`."""

import argparse
import sys
import time

from tests.fuzz import campaign
from tests.fuzz.ways import WAYS

_EXAMPLES = """examples:
  hack/fuzz                                    100,000 inputs over all ways in
  hack/fuzz --inputs 5000 --way settings       5,000 inputs of one way
  hack/fuzz --seed 7 --way works --first 41 --inputs 1   one input again

exit code: 0 where nothing was found, 1 where something was, 2 for wrong options
"""


def main() -> int:
    """Run the ways that were asked for and print what came of them."""
    options = _options()
    names = options.way or list(WAYS)
    each = max(1, -(-options.inputs // len(names)))
    print(f"seed {options.seed}, {each} inputs for each of {len(names)} ways in")  # noqa: T201
    total = found = 0
    for name in names:
        started = time.monotonic()
        with_hypothesis = options.first == 0 and each > 1
        tally = campaign.run(
            WAYS[name], each, options.seed, options.first, with_hypothesis=with_hypothesis
        )
        took = time.monotonic() - started
        print(  # noqa: T201
            f"{name:24} {tally.inputs:7} inputs {tally.refused:7} refused "
            f"{len(tally.finds):3} finds {took:7.1f} s",
            flush=True,
        )
        for find in tally.finds.values():
            print(f"    {find.times} x {find.fault}\n      hack/fuzz --inputs 1 {find.first}")  # noqa: T201
        total += tally.inputs
        found += len(tally.finds)
    print(f"{total} inputs, {found} finds, seed {options.seed}")  # noqa: T201
    return 1 if found else 0


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
    parser.add_argument("--way", action="append", choices=list(WAYS), help="only this way in")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
