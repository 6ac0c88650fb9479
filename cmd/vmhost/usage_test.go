package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRatesFlag(t *testing.T) {
	t.Parallel()
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "rates")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := "deskfork-rates 1\ncard a from 2026-11-01\nvcpu_seconds 0.01 USD per vCPU-Hour\n"
	for name, tt := range map[string]struct{ file, says string }{
		"none": {}, "good": {file: write(good)}, "missing": {file: "/nonexistent/rates", says: "open rate card"},
		"bad": {file: write(good + "vcpu_seconds 1 USD\n"), says: "line 4"},
	} {
		f := usageFlags{rates: tt.file, database: "postgres:///x"}
		c, err := f.parse()
		if tt.says == "" {
			if err != nil || (tt.file != "") != (c.Rates != nil) || c.Host == "" {
				t.Errorf("%s: %+v, %v", name, c, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v does not say %q", name, err, tt.says)
		}
	}
}
