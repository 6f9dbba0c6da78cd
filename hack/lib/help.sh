# Sourced: what --help prints is the comment at the start of a script.

# show_help SCRIPT [ARGUMENT...]: where the first argument asks for help, prints it and exits.
show_help() {
  case "${2:-}" in
  -h | --help) print_help "$1" && exit 0 ;;
  esac
}

# no_arguments SCRIPT [ARGUMENT...]: the same, and refuses any other argument.
no_arguments() {
  show_help "$@"
  if [ "$#" -gt 1 ]; then
    print_help "$1" >&2
    echo "$1: no such argument: $2" >&2
    exit 2
  fi
}

print_help() {
  sed -n '1d; /^#/!q; s/^# \{0,1\}//; p' "$1"
}
