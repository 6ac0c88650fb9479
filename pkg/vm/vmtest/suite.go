package vmtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/vmtest/screen"
)

// Harness tells the suite how to make and prod a provider's machines.
type Harness struct {
	// New returns a fresh provider whose guests echo on every port.
	New func(t *testing.T) vm.Provider
	// Spec returns a good spec; the suite sets ID and Incarnation.
	Spec func(t *testing.T) vm.Spec
	// PowerOff makes the guest of m switch itself off. nil: the case is not run.
	PowerOff func(t *testing.T, m vm.Machine)
	// Crash ends the process or what stands for it.
	Crash func(t *testing.T, m vm.Machine)
	// Obeys says that guests power off when Stop asks them.
	Obeys bool
	// Restart stands for the end of a daemon and the start of the next on the
	// same state: it returns the provider to go on with, before its Recover.
	Restart func(t *testing.T, p vm.Provider) vm.Provider
	// Damage changes something that a clone of the snapshot reads.
	Damage func(t *testing.T, p vm.Provider, id vm.SnapshotID)
	// Write changes the workspace disk of m as its guest would. nil: nothing is
	// written.
	Write func(t *testing.T, m vm.Machine, p []byte, off int64)
}

const patience = 30 * time.Second

// Run checks that a provider keeps the contract of package vm, all of its abilities
// included: one that is absent fails.
func Run(t *testing.T, h Harness) {
	t.Helper()
	cases := map[string]func(*testing.T, Harness){
		"lifecycle":     lifecycle,
		"refusals":      refusals,
		"stop":          stopKeepsAndDestroyRemoves,
		"crash":         crash,
		"two at a time": twoAtATime,
		"capabilities":  capabilities,
	}
	if h.PowerOff != nil {
		cases["guest off"] = guestOff
	}
	maps.Copy(cases, snapshotCases())
	for name, check := range cases {
		t.Run(name, func(t *testing.T) { check(t, h) })
	}
}

func make1(t *testing.T, p vm.Provider, h Harness, n int) vm.Machine {
	t.Helper()
	s := h.Spec(t)
	s.ID, s.Incarnation = vm.ID(fmt.Sprintf("d%d", n)), vm.Incarnation(fmt.Sprintf("i%d", n))
	m, err := p.Create(t.Context(), s)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	t.Cleanup(func() {
		if err := m.Destroy(context.Background()); err != nil {
			t.Errorf("Destroy in clean-up: %v", err)
		}
	})
	return m
}

func awaitDone(t *testing.T, m vm.Machine) {
	t.Helper()
	select {
	case <-m.Done():
	case <-time.After(patience):
		t.Fatal("machine did not end")
	}
	if s := m.Info().State; s != vm.StateExited {
		t.Errorf("state after Done is %s", s)
	}
}

func lifecycle(t *testing.T, h Harness) {
	t.Helper()
	p := h.New(t)
	if adopted, err := p.Recover(t.Context()); err != nil || len(adopted) != 0 {
		t.Fatalf("Recover of nothing = %v, %v", adopted, err)
	}
	m := make1(t, p, h, 1)
	newborn(t, h, m)
	display(t, m)
	guestEchoes(t, m)
	for range 2 {
		if err := m.Destroy(t.Context()); err != nil {
			t.Fatalf("Destroy: %v", err)
		}
	}
	ended(t, m)
}

func newborn(t *testing.T, h Harness, m vm.Machine) {
	t.Helper()
	i := m.Info()
	if i.ID != "d1" || i.Incarnation != "i1" || i.State != vm.StateRunning || i.Adopted || i.Shape != h.Spec(t).Shape ||
		i.Started.IsZero() || i.Accelerator != vm.AccelKVM && i.Accelerator != vm.AccelTCG {
		t.Errorf("Info = %+v", i)
	}
	if m.Err() != nil {
		t.Errorf("Err of a running machine = %v", m.Err())
	}
}

// ended checks a machine after Destroy.
func ended(t *testing.T, m vm.Machine) {
	t.Helper()
	awaitDone(t, m)
	if m.Err() != nil {
		t.Errorf("Err after Destroy = %v, want nil", m.Err())
	}
	if _, err := m.DialDisplay(t.Context()); !errors.Is(err, vm.ErrGone) {
		t.Errorf("DialDisplay after Destroy = %v, want ErrGone", err)
	}
	if _, err := m.DialGuest(t.Context(), 7); !errors.Is(err, vm.ErrGone) {
		t.Errorf("DialGuest after Destroy = %v, want ErrGone", err)
	}
	if err := m.Stop(t.Context(), time.Second); err != nil {
		t.Errorf("Stop after Destroy = %v", err)
	}
}

func display(t *testing.T, m vm.Machine) {
	t.Helper()
	c, err := m.DialDisplay(t.Context())
	if err != nil {
		t.Fatalf("DialDisplay: %v", err)
	}
	defer c.Close()
	got := make([]byte, len(screen.Version))
	if _, err := io.ReadFull(c, got); err != nil || string(got[:4]) != "RFB " {
		t.Errorf("display says %q, %v", got, err)
	}
}

func guestEchoes(t *testing.T, m vm.Machine) {
	t.Helper()
	c, err := m.DialGuest(t.Context(), 7)
	if err != nil {
		t.Fatalf("DialGuest: %v", err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	_, werr := c.Write([]byte("hello"))
	if _, err := io.ReadFull(c, got); werr != nil || err != nil || string(got) != "hello" {
		t.Errorf("guest echoes %q, %v, %v", got, werr, err)
	}
}

func refusals(t *testing.T, h Harness) {
	t.Helper()
	p := h.New(t)
	m := make1(t, p, h, 1)
	s := h.Spec(t)
	s.ID, s.Incarnation = "d2", m.Info().Incarnation
	var stage *vm.StageError
	if _, err := p.Create(t.Context(), s); !errors.Is(err, vm.ErrExists) || !errors.As(err, &stage) {
		t.Errorf("Create of a known incarnation = %v, want a StageError with ErrExists", err)
	}
	s.Incarnation = "Not/Valid"
	if _, err := p.Create(t.Context(), s); !errors.Is(err, vm.ErrInvalid) || !errors.As(err, &stage) {
		t.Errorf("Create of a bad spec = %v, want a StageError with ErrInvalid", err)
	}
	s.Incarnation = "i3"
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Create(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled Create = %v", err)
	}
	// Nothing of it was left: the same incarnation can be made.
	got, err := p.Create(t.Context(), s)
	if err != nil {
		t.Fatalf("Create after a cancelled one: %v", err)
	}
	if err := got.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

func stopKeepsAndDestroyRemoves(t *testing.T, h Harness) {
	t.Helper()
	m := make1(t, h.New(t), h, 1)
	grace := 50 * time.Millisecond
	if h.Obeys {
		grace = patience
	}
	began := time.Now()
	if err := m.Stop(t.Context(), grace); err != nil {
		t.Fatalf("Stop: %v", err)
	}
	if h.Obeys && time.Since(began) >= patience {
		t.Error("the guest was ended by force though it obeys")
	}
	awaitDone(t, m)
	if m.Err() != nil {
		t.Errorf("Err after Stop = %v, want nil", m.Err())
	}
	if err := m.Stop(t.Context(), 0); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func guestOff(t *testing.T, h Harness) {
	t.Helper()
	m := make1(t, h.New(t), h, 1)
	h.PowerOff(t, m)
	awaitDone(t, m)
	if !errors.Is(m.Err(), vm.ErrGuestShutdown) {
		t.Errorf("Err = %v, want ErrGuestShutdown", m.Err())
	}
}

func crash(t *testing.T, h Harness) {
	t.Helper()
	m := make1(t, h.New(t), h, 1)
	h.Crash(t, m)
	awaitDone(t, m)
	var exit *vm.ExitError
	if !errors.As(m.Err(), &exit) || exit.Stage != "run" || exit.Status == "" {
		t.Errorf("Err = %v, want an ExitError of stage run", m.Err())
	}
}

func twoAtATime(t *testing.T, h Harness) {
	t.Helper()
	p := h.New(t)
	a, b := make1(t, p, h, 1), make1(t, p, h, 2)
	if err := a.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := b.Info().State; s != vm.StateRunning {
		t.Errorf("state of the other is %s", s)
	}
	display(t, b)
}

func capabilities(t *testing.T, h Harness) {
	t.Helper()
	p := h.New(t)
	c, err := p.Capabilities(t.Context())
	if err != nil || c.Provider == "" || c.Accelerator == "" || c.AcceleratorReason == "" || len(c.Limits) == 0 {
		t.Fatalf("Capabilities = %+v, %v", c, err)
	}
	for _, l := range c.Limits {
		if l.Name == "" || l.Detail == "" || !l.OK && (l.Cost == "" || l.Fix == "") || l.OK && (l.Cost != "" || l.Fix != "") {
			t.Errorf("probe %+v: want name and detail, cost and fix exactly when not OK", l)
		}
	}
}
