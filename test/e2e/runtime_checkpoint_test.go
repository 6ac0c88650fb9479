//go:build integration

package e2e_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/api"
)

// runToEnd runs a command in a workspace over the API.
func runToEnd(t *testing.T, req api.StartRun) (last api.Run, stdout, stderr string, steps []string) {
	t.Helper()
	req.Image, req.WorkspaceMiB = "debian-xfce", 512
	r, err := host.Client.Runs().Start(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range host.Client.Runs().Events(t.Context(), r.ID) {
		if err != nil {
			t.Fatal(err)
		}
		switch e.Type {
		case api.RunStdout:
			stdout += string(e.Data)
		case api.RunStderr:
			stderr += string(e.Data)
		case api.RunStep:
			steps = append(steps, e.Step)
		case api.RunEnd:
			last = *e.Run
		case api.RunLost:
			t.Errorf("run %s lost %s", r.ID, e.Step)
		}
	}
	if last.State != api.RunCompleted {
		t.Fatalf("the run is %s: %v, %q after %q", last.State, last.Error, stderr, steps)
	}
	return last, stdout, stderr, steps
}

// canary is 32 bytes of text that are nowhere else.
func canary() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func sum(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}

// traces are what could be left of a text: its halves, and all of it as base64 at each
// of its three offsets.
func traces(text string) [][]byte {
	all := [][]byte{[]byte(text[:len(text)/2]), []byte(text[len(text)/2:])}
	for i := range 3 {
		coded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x00", i) + text))
		all = append(all, []byte(coded[4:len(coded)-4]))
	}
	return all
}

// filesBelow lists the files of the daemon, but those of images.
func filesBelow(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // another test has removed it
			return nil
		case err == nil && d.IsDir() && path == filepath.Join(dir, "images"):
			return fs.SkipDir
		case err == nil && d.Type().IsRegular():
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// found counts a pattern in files, read as they are.
func found(t *testing.T, files []string, patterns [][]byte) (places []string) {
	t.Helper()
	const piece, overlap = 4 << 20, 256
	buf := make([]byte, overlap+piece)
	for _, name := range files {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		clear(buf[:overlap])
		for at := int64(0); ; at += piece {
			n, err := io.ReadFull(f, buf[overlap:])
			for _, p := range patterns {
				if i := bytes.Index(buf[:overlap+n], p); i >= 0 {
					from := max(0, i-64)
					places = append(places, fmt.Sprintf("%s at %d: %q", filepath.Base(name), at+int64(i)-overlap, buf[from:min(overlap+n, i+len(p)+64)]))
				}
			}
			copy(buf, buf[n:n+overlap])
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatal(err)
				}
				break
			}
		}
		f.Close()
	}
	return places
}

// sealedRuns are the runtime checkpoints of the host.
func sealedRuns(t *testing.T) []api.Snapshot {
	t.Helper()
	list, err := host.Client.Snapshots().List(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(s api.Snapshot) bool { return !strings.HasPrefix(s.Name, "rc-") })
}

// TestRuntimeCheckpointHoldsNoSecret: environment and input of a command that has ended
// are not in the memory that is kept, nor on its disks, though all else is; the next run
// goes on in that memory.
func TestRuntimeCheckpointHoldsNoSecret(t *testing.T) {
	beside(t)
	inEnv, input, control := canary(), canary(), canary()
	req := api.StartRun{
		Workspace: "canary", RuntimeCheckpoint: "required", Env: map[string]string{"CANARY": inEnv}, Input: []byte(strings.Repeat(input+"\n", 2000)),
	}
	// It uses both as programs do, in processes of several kinds, and says them to nobody.
	// What it leaves in memory and on the disk proves that the search finds what is there.
	const line = `
set -e
test "$(printenv CANARY | tr -d '\n' | sha256sum | cut -c -64)" = "$1"
python3 -c 'import os, sys, hashlib
text = sys.stdin.read()
assert hashlib.sha256(text.encode()).hexdigest() == sys.argv[1]
kept = [os.environ["CANARY"] + str(i) for i in range(10000)]' "$2"
cat /dev/shm/mark 2>/dev/null || true
printf %s "$3" | tee /dev/shm/mark >/var/tmp/mark
sync`
	req.Argv = []string{"sh", "-c", line, "sh", sum(inEnv), sum(string(req.Input)), control}
	_, stdout, _, _ := runToEnd(t, req)
	if stdout != "" {
		t.Errorf("the first found %q", stdout)
	}
	list := sealedRuns(t)
	t.Cleanup(func() {
		for _, s := range sealedRuns(t) {
			if err := host.Client.Snapshots().Remove(context.Background(), s.ID); err != nil {
				t.Error(err)
			}
		}
	})
	if len(list) != 1 {
		t.Fatalf("snapshots %+v", list)
	}
	all := filesBelow(t, host.Data)
	files := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !strings.Contains(name, "/"+list[0].ID+"/") })
	t.Logf("sealed in %.0f ms of pause; searched: %d files, of the snapshot %q", list[0].PauseMS, len(all), files)
	marks := map[string]bool{}
	for _, place := range found(t, files, [][]byte{[]byte(control)}) {
		marks[strings.Fields(place)[0]] = true
	}
	if len(marks) < 2 {
		t.Errorf("what was left in memory and on the disk is found in %v alone", marks)
	}
	for what, secret := range map[string]string{"environment": inEnv, "input": input} {
		if places := found(t, all, traces(secret)); len(places) > 0 {
			t.Errorf("the %s is kept %d times: %q", what, len(places), places[:min(5, len(places))])
		}
	}
	_, stdout, _, steps := runToEnd(t, req)
	if stdout != control || !slices.Contains(steps, "restore runtime checkpoint") || slices.Contains(steps, "acquire sandbox") {
		t.Errorf("the second found %q, after %q", stdout, steps)
	}
	if err := host.Client.Snapshots().Remove(t.Context(), list[0].ID); !is(err, api.CodeNotFound) {
		t.Errorf("the first snapshot is still there: %v", err)
	}
}
