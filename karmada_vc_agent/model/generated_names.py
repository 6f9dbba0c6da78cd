"""Ends of generated names, in the letters that Kubernetes and Karmada use for them."""

import secrets

LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels, so that no words come about. Source: apimachinery pkg/util/rand/rand.go."""
_SUFFIX_LENGTH = 5


def random_suffix() -> str:
    """Return the five letters that follow a `generateName`."""
    return "".join(secrets.choice(LETTERS) for _ in range(_SUFFIX_LENGTH))
