package meter_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/billing/billingtest"
	"github.com/deskfork/deskfork/pkg/billing/meter"
	"github.com/deskfork/deskfork/pkg/billing/sqlstore"
)

// Environment of the process that TestKilledProcess kills.
const (
	victimDB  = "METER_TEST_VICTIM_DB"
	victimInc = "METER_TEST_VICTIM_INC"
)

// TestKilledProcess kills a process that counts an incarnation into SQLite,
// again and again, in the middle of its writes. Each incarnation has used what
// the process had said to be written, or what was being written just then.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	if path := os.Getenv(victimDB); path != "" {
		victim(t, path, os.Getenv(victimInc))
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "usage.db")
	said := map[string]int64{}
	for round := range 6 {
		inc := fmt.Sprintf("i%d", round)
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestKilledProcess$")
		cmd.Env = append(os.Environ(), victimDB+"="+path, victimInc+"="+inc)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			n, ok := strings.CutPrefix(lines.Text(), "written ")
			if !ok {
				continue
			}
			if said[inc], err = strconv.ParseInt(n, 10, 64); err != nil {
				t.Fatal(err)
			}
			if said[inc] == int64(5+7*round) {
				_ = cmd.Process.Kill() // what it has said by then is read to its end
			}
		}
		_ = cmd.Wait() // it tells of the signal
	}
	s, err := sqlstore.OpenSQLite(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // the test's directory goes
	w := newWorld(t, s, 1, time.Hour)
	for _, inc := range w.meter.Open() {
		w.meter.Record(meter.Fact{Incarnation: inc, Type: meter.Lost})
	}
	w.flush()
	rows, err := billingtest.All(t.Context(), s, billing.Query{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, r := range rows {
		if r.Kind == billing.SandboxActiveSeconds {
			got[r.Incarnation] += r.Value
		}
	}
	for inc, n := range said {
		if n == 0 || got[inc] < n || got[inc] > n+1 {
			t.Errorf("%s: %d s are billed, %d were written", inc, got[inc], n)
		}
	}
	if len(got) != 6 {
		t.Errorf("%d incarnations are billed", len(got))
	}
}

// victim counts an incarnation second by second, ends what others have left, and
// says what is written, until it is killed.
func victim(t *testing.T, path, inc string) {
	t.Helper()
	s, err := sqlstore.OpenSQLite(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, s, 1, time.Hour)
	for _, old := range w.meter.Open() {
		w.meter.Record(meter.Fact{Incarnation: old, Type: meter.Lost})
	}
	w.meter.Record(machine(inc))
	for n := 1; n < 1_000_000; n++ {
		w.pass(time.Second)
		w.meter.Record(meter.Fact{Incarnation: inc, Type: meter.Alive})
		if err := w.meter.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString("written " + strconv.Itoa(n) + "\n") // until nobody reads
	}
}
