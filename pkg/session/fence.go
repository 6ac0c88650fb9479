package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxIDBytes bounds each id of a scope and an owner.
const MaxIDBytes = 256

// Scope says whose work it is. All four are required.
type Scope struct {
	Workspace   string `json:"workspaceId"`
	Environment string `json:"environmentId"`
	Session     string `json:"sessionId"`
	Work        string `json:"workId"`
}

// Key names the session: the fence is one a session, so that two work items of
// it never change its workspace at the same time.
func (s Scope) Key() string { return keyOf(s.Workspace, s.Environment, s.Session) }

// Validate joins every fault of the four ids.
func (s Scope) Validate() error {
	return errors.Join(
		validateID("workspace id", s.Workspace), validateID("environment id", s.Environment),
		validateID("session id", s.Session), validateID("work id", s.Work))
}

func validateID(what, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%s is empty", what)
	case len(id) > MaxIDBytes:
		return fmt.Errorf("%s has %d bytes, at most %d are allowed", what, len(id), MaxIDBytes)
	case !utf8.ValidString(id):
		return fmt.Errorf("%s is not UTF-8", what)
	}
	for _, r := range id {
		if unicode.IsControl(r) {
			return fmt.Errorf("%s holds a control character", what)
		}
	}
	return nil
}

// keyOf joins parts so that no two lists of parts have the same key.
func keyOf(parts ...string) string {
	b, err := json.Marshal(parts)
	if err != nil { // strings always marshal
		return fmt.Sprintf("%q", parts)
	}
	return string(b)
}

// Tenure is one holder's turn at a session: a fence without its token. It may be
// shown, stored and sent.
type Tenure struct {
	Scope Scope `json:"scope"`
	// Owner is unique to one attempt to run one work item.
	Owner string `json:"ownerId"`
	// Generation counts from 1 and rises with every change of holder.
	Generation int64 `json:"generation"`
}

// Validate joins every fault.
func (t Tenure) Validate() error {
	err := errors.Join(t.Scope.Validate(), validateID("owner", t.Owner))
	if t.Generation < 1 {
		err = errors.Join(err, fmt.Errorf("generation is %d, it counts from 1", t.Generation))
	}
	return err
}

// Stage names a step of a run in its idempotency key.
type Stage string

// Stages that carry an idempotency key. Those of live checkpoints append the id
// of the checkpoint, periodic ones their number.
const (
	StageMaterialize Stage = "workspace-materialize"
	StageOutputs     Stage = "outputs-prepare"
	StageEgress      Stage = "credential-egress-prepare"
	StageInputs      Stage = "session-inputs-materialize"
	StageSynchronize Stage = "session-inputs-synchronize"
	StageCheckpoint  Stage = "workspace-checkpoint"
	StageFinalize    Stage = "outputs-finalize"
)

// Of is the stage for one numbered or named round.
func (s Stage) Of(round string) Stage { return s + "-" + Stage(round) }

// Key is the idempotency key of a stage: work, generation and stage.
func (t Tenure) Key(s Stage) string {
	return t.Scope.Work + ":" + strconv.FormatInt(t.Generation, 10) + ":" + string(s)
}

// Fence is the right to change a session. It stays on the host.
type Fence struct {
	Tenure
	// Token proves the tenure to the store, which holds only its hash.
	Token Secret `json:"-"`
}

// Claim is what a successful Acquire gives.
type Claim struct {
	Fence Fence
	// Left is how long the fence holds, by the clock of the store, when it
	// answered.
	Left time.Duration
	// Last is the last publication of the session, of whatever generation; nil
	// when there is none.
	Last *Publication
}
