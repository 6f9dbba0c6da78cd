"""Run the command line of hack/kind-up and hack/kind-down."""

from kind_clusters import cli

if __name__ == "__main__":
    cli.main()
