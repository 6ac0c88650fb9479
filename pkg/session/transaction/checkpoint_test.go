package transaction_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest/world"
)

// checkpoints lets the harness ask for live checkpoints and returns what it got.
func (s *stage) checkpoints(asks ...session.LiveCheckpoint) *[]error {
	var got []error
	s.Harness = func(ctx context.Context, r session.HarnessRun) (session.Ending, error) {
		for _, ask := range asks {
			_, err := r.Checkpoint(ctx, ask)
			got = append(got, err)
		}
		return works(0)(ctx, r)
	}
	return &got
}

func live(id string) session.LiveCheckpoint { return session.LiveCheckpoint{ID: id, SessionID: "s-1"} }

func TestLiveCheckpoints(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		got := s.checkpoints(live("a"), live(""), live("a"), session.LiveCheckpoint{ID: "b", SessionID: "s-2"}, live("c"))
		s.want(s.run(), session.Completed, 3)
		for i, want := range []bool{true, false, false, false, true} {
			if ((*got)[i] == nil) != want {
				t.Errorf("checkpoint %d: %v", i, (*got)[i])
			}
		}
		if s.Synchronized[0] != "w-1:1:session-inputs-synchronize-checkpoint-a" || s.published().Workspace.Metadata["key"] != "w-1:1:workspace-checkpoint" {
			t.Fatal(s.Synchronized, s.published())
		}
		s.clean()
	}, withInputs)
}

// TestLiveThenFailure: what was published while the harness ran stays published,
// its outputs too.
func TestLiveThenFailure(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		s.checkpoints(live("a"))
		s.Before("workspace.checkpoint", func(_ context.Context, n int) error {
			if n == 2 {
				return errBoom
			}
			return nil
		})
		s.want(s.run(), session.Failed, 1)
		if s.Count("outputs.release") != 1 || s.Count("outputs.abort") != 0 || s.published().Revision != 1 {
			t.Fatalf("calls %v", s.Calls())
		}
		s.clean()
	})
}

// TestLiveCheckpointLosesOwnership: the outputs are aborted.
func TestLiveCheckpointLosesOwnership(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		got := s.checkpoints(live("a"))
		s.Before("fences.publish", func(context.Context, int) error { s.memory.Advance(time.Hour); return nil })
		s.want(s.run(), session.LeaseLost, 0)
		if !errors.Is((*got)[0], session.ErrLost) || s.Count("outputs.abort") != 1 || s.published() != nil {
			t.Fatalf("%v, calls %v", *got, s.Calls())
		}
		s.clean()
	})
}

// TestOutputsDisabled: a run without outputs leaves those of an earlier one
// published, by live and by final publications.
func TestOutputsDisabled(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		s.want(s.run(), session.Completed, 1)
		out := s.published().Output.ID
		withoutOutputs(s)
		s.checkpoints(live("a"))
		s.After("fences.publish", func(context.Context, int) error {
			if p := s.published(); p.Output == nil || p.Output.ID != out {
				t.Errorf("outputs are now %+v", p.Output)
			}
			return nil
		})
		s.want(s.run(), session.Completed, 3)
	})
}

func TestLiveCheckpointIsNotForRetainedMachines(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		got := s.checkpoints(live("a"))
		s.want(s.run(), session.Completed, 1)
		if !errors.Is((*got)[0], session.ErrUnsupported) {
			t.Fatalf("live checkpoint: %v", *got)
		}
		s.clean()
	}, retained)
}

// TestCheckpointAfterTheEnd: a harness that was given up cannot publish.
func TestCheckpointAfterTheEnd(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		late := make(chan struct{})
		var got error
		s.Harness = func(_ context.Context, r session.HarnessRun) (session.Ending, error) {
			<-late
			_, got = r.Checkpoint(context.WithoutCancel(t.Context()), live("a"))
			return session.EndingCompleted, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		res, err := s.host.Run(ctx, s.req)
		if err != nil {
			t.Fatal(err)
		}
		s.want(res, session.LeaseLost, 0)
		close(late)
		s.host.Wait()
		if got == nil || s.published() != nil {
			t.Fatalf("late checkpoint: %v, pointer %v", got, s.published())
		}
	})
}

// TestCheckpointBesideCommit: a harness that has completed, and left somebody
// behind who asks for a checkpoint while the run commits.
func TestCheckpointBesideCommit(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		var ask func() error
		s.Harness = func(ctx context.Context, r session.HarnessRun) (session.Ending, error) {
			ask = func() error {
				_, err := r.Checkpoint(ctx, live("late"))
				return err
			}
			return session.EndingCompleted, nil
		}
		var got error
		s.Before("workspace.checkpoint", func(_ context.Context, n int) error {
			if n == 1 {
				got = ask()
			}
			return nil
		})
		s.want(s.run(), session.Completed, 1)
		if got == nil || s.Count("workspace.checkpoint") != 1 {
			t.Fatalf("it was made: %v", got)
		}
		s.clean()
	})
}

func every(d time.Duration) func(*stage) { return func(s *stage) { s.config.Checkpoints = d } }

func TestPeriodicCheckpoints(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		var mu sync.Mutex
		open, most, asked := 0, 0, 0
		s.Harness = func(ctx context.Context, r session.HarnessRun) (session.Ending, error) {
			r.OnRequester(func(ctx context.Context, id string) error {
				mu.Lock()
				asked++
				open++
				most = max(most, open)
				mu.Unlock()
				<-time.After(25 * time.Second) // the next safe point
				_, err := r.Checkpoint(ctx, live(id))
				mu.Lock()
				open--
				mu.Unlock()
				return err
			})
			return works(2*time.Minute)(ctx, r)
		}
		s.want(s.run(), session.Completed, 4)
		s.host.Wait()
		mu.Lock()
		defer mu.Unlock()
		if most != 1 || asked != 4 {
			t.Fatalf("%d requests, %d at once", asked, most)
		}
		s.clean()
	}, every(10*time.Second))
	t.Run("failure", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, s *stage) {
			s.Harness = func(ctx context.Context, r session.HarnessRun) (session.Ending, error) {
				r.OnRequester(func(context.Context, string) error { return errBoom })
				return works(time.Hour)(ctx, r)
			}
			res := s.run()
			s.want(res, session.Failed, 0)
			if !errors.Is(res.Cause, errBoom) || s.published() != nil {
				t.Fatal(res.Cause)
			}
			s.clean()
		}, every(10*time.Second))
	})
	t.Run("off by default", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, s *stage) {
			s.Harness = func(ctx context.Context, r session.HarnessRun) (session.Ending, error) {
				r.OnRequester(func(context.Context, string) error { t.Error("asked"); return nil })
				return works(time.Hour)(ctx, r)
			}
			s.want(s.run(), session.Completed, 1)
		})
	})
}

func TestRuntimeCheckpoints(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		s.req.Profile.Driver.Process.Env = map[string]session.Secret{"KEY": session.SecretOf("canary")}
		s.want(s.run(), session.Completed, 1)
		c := s.published().RuntimeCheckpoint
		if c == nil || c.WorkGeneration != 1 || c.WorkspaceRevision != s.published().Workspace.Revision {
			t.Fatalf("checkpoint %+v", c)
		}
		noCanary(t, session.Result{}, nil, s.memory.Dump())
		// The next run goes on from it, with a fresh harness.
		s.want(s.run(), session.Completed, 2)
		if s.Count("sandbox.acquire") != 1 || s.Count("checkpoints.restore") != 1 || s.Count("harness.run") != 2 {
			t.Fatal(s.Calls())
		}
		// Another harness does not.
		s.req.Profile.Driver.Version = "2"
		s.want(s.run(), session.Completed, 3)
		if s.Count("sandbox.acquire") != 2 || s.Count("checkpoints.restore") != 1 {
			t.Fatal(s.Calls())
		}
		s.clean()
	}, withSeal)
	t.Run("restore fails", func(t *testing.T) {
		t.Parallel()
		for name, hook := range map[string]func(*stage){
			"before": func(s *stage) { s.Before("checkpoints.restore", world.Fail(errBoom)) },
			"after":  func(s *stage) { s.After("checkpoints.restore", world.Fail(errBoom)) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				in(t, func(t *testing.T, s *stage) {
					s.want(s.run(), session.Completed, 1)
					hook(s)
					res := s.run()
					s.want(res, session.Completed, 2)
					if !errors.Is(res.Warnings, errBoom) || s.Count("sandbox.acquire") != 2 {
						t.Fatal(res.Warnings, s.Calls())
					}
					s.clean()
				}, withSeal)
			})
		}
	})
}

func TestRuntimeCheckpointFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*stage){
		"create fails": func(s *stage) { s.Before("checkpoints.create", world.Fail(errBoom)) },
		"provider":     func(s *stage) { s.Mangle = func(c *session.RuntimeCheckpoint) { c.Provider = "x" } },
		"id":           func(s *stage) { s.Mangle = func(c *session.RuntimeCheckpoint) { c.CheckpointID = "" } },
		"kind": func(s *stage) {
			s.Mangle = func(c *session.RuntimeCheckpoint) { c.Kind = session.CheckpointFilesystem }
		},
		"machine":    func(s *stage) { s.Mangle = func(c *session.RuntimeCheckpoint) { c.SourceRuntimeID = "x" } },
		"session":    func(s *stage) { s.Mangle = func(c *session.RuntimeCheckpoint) { c.SessionID = "x" } },
		"generation": func(s *stage) { s.Mangle = func(c *session.RuntimeCheckpoint) { c.WorkGeneration++ } },
		"revision":   func(s *stage) { s.Mangle = func(c *session.RuntimeCheckpoint) { c.WorkspaceRevision++ } },
		"version":    func(s *stage) { s.Mangle = func(c *session.RuntimeCheckpoint) { c.HarnessVersion = "x" } },
		"identity":   func(s *stage) { s.Mangle = func(c *session.RuntimeCheckpoint) { c.RuntimeIdentity = "x" } },
	} {
		for need, want := range map[session.Need]session.Outcome{session.Optional: session.Completed, session.Required: session.Failed} {
			t.Run(name+" "+string(need), func(t *testing.T) {
				t.Parallel()
				in(t, func(t *testing.T, s *stage) {
					s.req.Profile.RuntimeCheckpoint = need
					fault(s)
					res := s.run()
					if res.Outcome != want {
						t.Fatalf("%s: %v", res.Outcome, res.Cause)
					}
					if want == session.Completed && (s.published().RuntimeCheckpoint != nil || res.Warnings == nil) {
						t.Fatalf("published %+v", s.published())
					}
					if want == session.Failed && s.published() != nil {
						t.Fatal("published")
					}
					s.clean()
				})
			})
		}
	}
}

func TestOutputEntries(t *testing.T) {
	t.Parallel()
	good := session.OutputEntry{LogicalPath: "a/b.txt", ContentHash: "sha256:1", Size: 1}
	with := func(change func(*session.OutputEntry)) []session.OutputEntry {
		e := good
		change(&e)
		return []session.OutputEntry{e}
	}
	for name, entries := range map[string][]session.OutputEntry{
		"absolute":    with(func(e *session.OutputEntry) { e.LogicalPath = "/etc/passwd" }),
		"traversal":   with(func(e *session.OutputEntry) { e.LogicalPath = "../x" }),
		"inner dots":  with(func(e *session.OutputEntry) { e.LogicalPath = "a/../b" }),
		"parent":      with(func(e *session.OutputEntry) { e.LogicalPath = ".." }),
		"nothing":     with(func(e *session.OutputEntry) { e.LogicalPath = "" }),
		"backslash":   with(func(e *session.OutputEntry) { e.LogicalPath = `a\b` }),
		"NUL":         with(func(e *session.OutputEntry) { e.LogicalPath = "a\x00" }),
		"not UTF-8":   with(func(e *session.OutputEntry) { e.LogicalPath = "\xff" }),
		"no hash":     with(func(e *session.OutputEntry) { e.ContentHash = "" }),
		"negative":    with(func(e *session.OutputEntry) { e.Size = -1 }),
		"too much":    {good, {LogicalPath: "c", ContentHash: "h", Size: session.MaxOutputBytes}},
		"twice":       {good, good},
		"too many":    make([]session.OutputEntry, session.MaxOutputFiles+1),
		"overflowing": {{LogicalPath: "c", ContentHash: "h", Size: 1 << 62}, {LogicalPath: "d", ContentHash: "h", Size: 1 << 62}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, s *stage) {
				s.Entries = entries
				s.want(s.run(), session.Failed, 0)
				if s.Count("outputs.finalize") > 0 {
					t.Fatal("finalized")
				}
				s.clean()
			})
		})
	}
}
