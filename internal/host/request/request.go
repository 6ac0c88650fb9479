// Package request finds the faults of requests that their schema cannot say.
package request

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/deskfork/deskfork/internal/host/sessions/input/rule"
	"github.com/deskfork/deskfork/internal/host/xkb"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/packages"
)

// Bounds of what a desktop carries along.
const (
	maxLabels   = 64
	maxLabelKey = 63
	maxLabel    = 255
	maxEnv      = 256
	maxEnvBytes = 64 << 10
	maxWord     = 128 << 10 // bytes of one word of a command, as in Linux
	maxArgv     = 1 << 20   // bytes of all, well below Linux's limit
	maxChildren = 200       // of one fork
)

// Create reports every fault of a request for a desktop.
func Create(req api.CreateDesktop) error {
	var faults []api.FieldError
	add := func(location, format string, args ...any) {
		faults = append(faults, api.FieldError{Location: location, Message: fmt.Sprintf(format, args...)})
	}
	if (req.Image == "") == (req.Snapshot == "") {
		add("body.image", "want either an image or a snapshot")
	}
	if req.Snapshot != "" && req.Cold {
		add("body.cold", "a snapshot is cloned, not booted")
	}
	if req.Snapshot != "" && req.Workspace != "" {
		add("body.workspace", "a snapshot has a workspace already")
	}
	if err := xkb.Check(req.Keyboard); err != nil {
		add("body.keyboard", "%v", err)
	}
	validateLabels(req.Labels, add)
	validateEnv(req.Env, add)
	return invalid(faults)
}

// Fork reports every fault of a request for a fork.
func Fork(req api.Fork) error {
	var faults []api.FieldError
	add := func(location, format string, args ...any) {
		faults = append(faults, api.FieldError{Location: location, Message: fmt.Sprintf(format, args...)})
	}
	if req.Count < 0 || req.Count > maxChildren {
		add("body.count", "%d children: want 1 to %d", req.Count, maxChildren)
	}
	validateLabels(req.Labels, add)
	validateEnv(req.Env, add)
	return invalid(faults)
}

// Run reports every fault of a request for a run.
func Run(req api.StartRun) error {
	var faults []api.FieldError
	add := func(location, format string, args ...any) {
		faults = append(faults, api.FieldError{Location: location, Message: fmt.Sprintf(format, args...)})
	}
	validateArgv(req.Argv, add)
	if req.Dir != "" && (!strings.HasPrefix(req.Dir, "/") || strings.Contains(req.Dir, "\x00")) {
		add("body.dir", "want an absolute path")
	}
	if req.RuntimeCheckpoint != "" && req.Keep != "" && req.Keep != api.KeepCheckpoint {
		add("body.runtime_checkpoint", "it goes with keep checkpoint alone: a suspended machine is kept whole already, and where nothing is kept there is none")
	}
	if req.Packages != nil {
		for _, e := range packages.List(*req.Packages).Faults() {
			add("body.packages."+string(e.Manager), "%v", e)
		}
	}
	validateInputs(req.Inputs, add)
	validateEnv(req.Env, add)
	return invalid(faults)
}

func invalid(faults []api.FieldError) error {
	if len(faults) == 0 {
		return nil
	}
	e := api.Errorf(api.CodeInvalid, "validation failed")
	e.Errors = faults
	return e
}

func validateLabels(labels map[string]string, add func(location, format string, args ...any)) {
	if len(labels) > maxLabels {
		add("body.labels", "%d labels: at most %d", len(labels), maxLabels)
	}
	for k, v := range labels {
		if !labelKeyRE().MatchString(k) {
			add("body.labels."+k, "a label's key is 1 to %d of [A-Za-z0-9._/-]", maxLabelKey)
		}
		if len(v) > maxLabel || strings.ContainsAny(v, "\x00\n") {
			add("body.labels."+k, "a label's value is one line of at most %d bytes", maxLabel)
		}
	}
}

func validateInputs(inputs []api.RunInput, add func(location, format string, args ...any)) {
	if len(inputs) > session.MaxInputFiles {
		add("body.inputs", "%d inputs: at most %d", len(inputs), session.MaxInputFiles)
	}
	names := make([]string, 0, len(inputs))
	for i, in := range inputs {
		names = append(names, in.Path)
		where := fmt.Sprintf("body.inputs[%d]", i)
		switch {
		case (in.ID == "") == (in.URL == ""):
			add(where, "want either an id or a url")
		case in.URL != "" && in.Hash == "":
			add(where+".hash", "what comes from a url needs a hash")
		case in.URL != "":
			if err := rule.URL(in.URL); err != nil {
				add(where+".url", "%v", err)
			}
		}
	}
	for i, err := range rule.Names(names) {
		if err != nil {
			add(fmt.Sprintf("body.inputs[%d].path", i), "%v", err)
		}
	}
}

// validateArgv refuses what no Linux can run, before there is a machine to say so.
func validateArgv(argv []string, add func(location, format string, args ...any)) {
	if len(argv) == 0 || argv[0] == "" {
		add("body.argv", "want a command")
	}
	size := 0
	for i, word := range argv {
		size += len(word) + 1
		if strings.Contains(word, "\x00") {
			add(fmt.Sprintf("body.argv[%d]", i), "a word of a command has no NUL byte")
		}
		if len(word) >= maxWord {
			add(fmt.Sprintf("body.argv[%d]", i), "%d bytes: a word of a command has fewer than %d; give it by standard input or as a file", len(word), maxWord)
		}
	}
	if size > maxArgv {
		add("body.argv", "%d bytes: at most %d", size, maxArgv)
	}
}

func validateEnv(env map[string]string, add func(location, format string, args ...any)) {
	size := 0
	for k, v := range env {
		size += len(k) + len(v)
		if !envNameRE().MatchString(k) {
			add("body.env."+k, "a variable's name is [A-Za-z_][A-Za-z0-9_]*")
		}
		if strings.Contains(v, "\x00") {
			add("body.env."+k, "a variable's value has no NUL byte")
		}
	}
	if len(env) > maxEnv || size > maxEnvBytes {
		add("body.env", "%d variables of %d bytes: at most %d of %d bytes", len(env), size, maxEnv, maxEnvBytes)
	}
}

var (
	labelKeyRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._/-]{1,63}$`) })
	envNameRE  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`) })
)
