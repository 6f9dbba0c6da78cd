"""User names of ServiceAccounts: `system:serviceaccount:<namespace>:<name>`."""

PREFIX = "system:serviceaccount:"


def user_of(namespace: str, name: str) -> str:
    """Return the user name of a ServiceAccount."""
    return f"{PREFIX}{namespace}:{name}"


def account_of(user: str) -> tuple[str, str] | None:
    """Return namespace and name of the ServiceAccount that a user is, None for another user."""
    namespace, _, name = user.removeprefix(PREFIX).partition(":")
    if not (user.startswith(PREFIX) and namespace and name):
        return None
    return namespace, name
