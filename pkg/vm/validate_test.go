package vm_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm"
)

func valid() vm.Spec {
	shape, _ := vm.ShapeNamed("small")
	return vm.Spec{
		ID: "d1", Incarnation: "i1", Shape: shape,
		System:    vm.Disk{Base: "base.raw", BaseFormat: "raw"},
		Workspace: vm.Disk{SizeMiB: 512, Label: "workspace"},
		Width:     1280, Height: 800, Network: vm.NetworkOpen,
	}
}

func TestSpecValidate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*vm.Spec)
		want   string // in the error; empty: valid
	}{
		"valid":            {func(*vm.Spec) {}, ""},
		"empty id":         {func(s *vm.Spec) { s.ID = "" }, "desktop id"},
		"path as id":       {func(s *vm.Spec) { s.ID = "../x" }, "desktop id"},
		"digit first":      {func(s *vm.Spec) { s.Incarnation = "1a" }, "incarnation"},
		"long incarnation": {func(s *vm.Spec) { s.Incarnation = "abcdefghijklm" }, "incarnation"},
		"no vcpu":          {func(s *vm.Spec) { s.Shape.VCPUs = 0 }, "vCPUs"},
		"little memory":    {func(s *vm.Spec) { s.Shape.MemoryMiB = 1 }, "memory"},
		"no width":         {func(s *vm.Spec) { s.Width = 0 }, "width"},
		"huge height":      {func(s *vm.Spec) { s.Height = 1 << 20 }, "height"},
		"unknown network":  {func(s *vm.Spec) { s.Network = "wifi" }, "network mode"},
		"big config":       {func(s *vm.Spec) { s.GuestConfig = make([]byte, 1<<20) }, "guest config"},
		"sizeless disk":    {func(s *vm.Spec) { s.Workspace.SizeMiB = 0 }, "workspace disk"},
		"unknown format":   {func(s *vm.Spec) { s.System.BaseFormat = "vmdk" }, "base format"},
		"negative size":    {func(s *vm.Spec) { s.System.SizeMiB = -1 }, "size"},
		"filled with what": {func(s *vm.Spec) { s.Workspace = vm.Disk{SizeMiB: 64, Filled: true} }, "no source"},
		"long label":       {func(s *vm.Spec) { s.Workspace.Label = strings.Repeat("x", 17) }, "label"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := valid()
			tc.change(&s)
			err := s.Validate()
			if tc.want == "" {
				if err != nil {
					t.Fatalf("Validate: %v", err)
				}
				return
			}
			if !errors.Is(err, vm.ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("Validate = %v, want ErrInvalid about %q", err, tc.want)
			}
		})
	}
}
