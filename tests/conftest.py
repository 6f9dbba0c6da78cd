"""Settings of all tests: none may depend on how fast the machine is."""

import gc
import logging
import os

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("HYPOTHESIS_EXAMPLES", "25"))
"""For each property in each run, others in the next one; `HYPOTHESIS_EXAMPLES=1000 hack/check`."""

settings.register_profile(
    "any machine",
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any machine")


def pytest_configure() -> None:
    """Make log records as agents do: a line that cannot be made fails its test.

    Once, and not by pytest's `log_level`, which sets it twelve times for each test.
    """
    logging.getLogger().setLevel(logging.INFO)


def pytest_collection_finish() -> None:
    """Let garbage collection go by the ten thousand tests that were collected."""
    gc.collect()
    gc.freeze()
