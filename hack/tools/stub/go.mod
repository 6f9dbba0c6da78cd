module karmada-vc-agent/hack/tools/stub

go 1.26
