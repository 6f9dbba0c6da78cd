#!/usr/bin/env bash
# kind-logs.sh KIND_DIRECTORY TARGET: writes down how a host's pods and the agent's logs are.
set -uo pipefail
kubectl=("$1/bin/kubectl" --kubeconfig "$1/host.kubeconfig")
mkdir -p "$2"
"${kubectl[@]}" get pods -A -o wide >"$2/pods.txt" 2>&1
"${kubectl[@]}" get nodes,vc -o yaml >"$2/nodes-and-objects.yaml" 2>&1
"${kubectl[@]}" get events -A --sort-by .lastTimestamp >"$2/events.txt" 2>&1
"${kubectl[@]}" -n karmada-vc-agent logs --all-containers --prefix --tail 2000 \
  -l app=karmada-vc-agent >"$2/agent.log" 2>&1
"${kubectl[@]}" -n karmada-vc-agent logs --all-containers --prefix --tail 2000 \
  -l 'app in (karmada-vc-agent-gateway,konnectivity-agent)' >"$2/gateway.log" 2>&1
"$1/bin/kubectl" --kubeconfig "$1/hub.kubeconfig" get clusters,works -A -o yaml >"$2/hub.yaml" 2>&1
