"""A client that asks a gateway for what is dear to answer, from many threads, until it is ended.

A process of its own: its work must not slow down the one that measures.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import urllib3

from e2e.lab.agent import ROOT

THREADS = 8
NAME = "kubernetes.io/metadata.name"
CONFIG_MAP = "api/v1/namespaces/edge/configmaps/settings"
_JSON_PATCH = {"Content-Type": "application/json-patch+json"}


def selector() -> dict[str, Any]:
    """Return a list with 58 KB of names to map."""
    names = ",".join(f"n{number}" for number in range(9000))
    path = f"api/v1/namespaces/edge/configmaps?labelSelector={NAME}+in+({names})"
    return {"method": "GET", "url": path[:58_000] + ")"}


def patch() -> dict[str, Any]:
    """Return a JSON patch of 15 KB, each of whose operations is translated by itself."""
    operations = [{"op": "add", "path": f"/data/k{n}", "value": "v"} for n in range(330)]
    body = json.dumps(operations).encode()
    return {"method": "PATCH", "url": CONFIG_MAP, "body": body, "headers": _JSON_PATCH}


def tiny_items() -> dict[str, Any]:
    """Return a body of as many maps as may be; the host refuses it, in as many words."""
    body = b'{"data":{"a":[' + b'{"a":1},' * 270_000 + b"{}]}}"
    return {
        "method": "PATCH",
        "url": CONFIG_MAP,
        "body": body,
        "headers": {"Content-Type": "application/merge-patch+json"},
    }


KINDS = {each.__name__: each for each in (selector, patch, tiny_items)}


@contextmanager
def dear_requests(kind: str, url: str, token: str, ca: str) -> Iterator[None]:
    """Have a process send requests of a kind."""
    command = [sys.executable, "-m", __name__, kind, url, token, ca]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"begun\n"
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def main(kind: str, url: str, token: str, ca: str) -> None:
    """Send requests until this is ended; say so once one was answered."""
    asked = KINDS[kind]()
    headers = {"Authorization": f"bearer {token}", **asked.pop("headers", {})}
    path = asked.pop("url")
    pool = urllib3.PoolManager(ca_certs=ca, maxsize=THREADS, retries=False)
    first = pool.request(url=url + path, headers=headers, **asked)
    assert first.status not in (401, 404, 413), first.data
    sys.stdout.write("begun\n")
    sys.stdout.flush()

    def ask() -> None:
        while True:
            pool.request(url=url + path, headers=headers, **asked)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
