package host

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/deskfork/deskfork/pkg/api"
)

// Bounds of what a desktop carries along.
const (
	maxLabels   = 64
	maxLabelKey = 63
	maxLabel    = 255
	maxEnv      = 256
	maxEnvBytes = 64 << 10
)

// validateCreate reports every fault that the schema of the request cannot say.
func validateCreate(req api.CreateDesktop) error {
	var faults []api.FieldError
	add := func(location, format string, args ...any) {
		faults = append(faults, api.FieldError{Location: location, Message: fmt.Sprintf(format, args...)})
	}
	if len(req.Labels) > maxLabels {
		add("body.labels", "%d labels: at most %d", len(req.Labels), maxLabels)
	}
	for k, v := range req.Labels {
		if !labelKeyRE.MatchString(k) {
			add("body.labels."+k, "a label's key is 1 to %d of [A-Za-z0-9._/-]", maxLabelKey)
		}
		if len(v) > maxLabel || strings.ContainsAny(v, "\x00\n") {
			add("body.labels."+k, "a label's value is one line of at most %d bytes", maxLabel)
		}
	}
	validateEnv(req.Env, add)
	if len(faults) == 0 {
		return nil
	}
	e := api.Errorf(api.CodeInvalid, "validation failed")
	e.Errors = faults
	return e
}

func validateEnv(env map[string]string, add func(location, format string, args ...any)) {
	size := 0
	for k, v := range env {
		size += len(k) + len(v)
		if !envNameRE.MatchString(k) {
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
	labelKeyRE = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,63}$`)
	envNameRE  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
)
