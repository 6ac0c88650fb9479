//go:build !amd64

package hypervisor

func name() string { return "" }
