module karmada-vc-agent/hack/tools/pause

go 1.26
