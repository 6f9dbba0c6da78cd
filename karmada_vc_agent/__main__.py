"""`python -m karmada_vc_agent` is the command `karmada-vc-agent`."""

from karmada_vc_agent.cli import main

main(prog_name="karmada-vc-agent")
