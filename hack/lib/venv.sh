# Sourced: ensure_venv makes .venv with the pinned development tools, once per set of pins.

ensure_venv() {
  local root stamp want python
  root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
  stamp="$root/.venv/.stamp"
  want="$(cat "$root/pyproject.toml" "$root/constraints.txt" | sha256sum | cut -c1-32)"
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ]; then return 0; fi
  for python in "${PYTHON:-}" python3.13 python3.12 python3.11 python3; do
    [ -n "$python" ] || continue
    "$python" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
    python=""
  done
  if [ -z "$python" ]; then
    echo "hack: no Python 3.11 or newer with the venv module found; install one or set PYTHON" >&2
    return 1
  fi
  (
    flock 9
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ]; then exit 0; fi
    echo "hack: preparing .venv with $("$python" --version) (once)" >&2
    "$python" -m venv "$root/.venv" &&
      "$root/.venv/bin/pip" install --quiet --disable-pip-version-check \
        --constraint "$root/constraints.txt" --editable "$root[dev]" &&
      echo "$want" >"$stamp"
  ) 9>"$root/.venv.lock"
}
