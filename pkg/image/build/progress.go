package build

import "time"

// Stage is a step of a build.
type Stage string

// The stages of a build, in order.
const (
	StageBootstrap Stage = "bootstrap"
	StageCustomise Stage = "customise"
	StageKernel    Stage = "kernel"
	StagePack      Stage = "pack disk"
	StageDigest    Stage = "digest"
	StageSeal      Stage = "seal"
)

// Stages are all stages in the order in which they run.
func Stages() []Stage {
	return []Stage{StageBootstrap, StageCustomise, StageKernel, StagePack, StageDigest, StageSeal}
}

// Expected is about how long the stage takes for debian-xfce on two cores with a near
// mirror and an empty package cache.
func (s Stage) Expected() time.Duration {
	switch s {
	case StageBootstrap:
		return 2 * time.Minute
	case StageCustomise:
		return 20 * time.Second
	case StageKernel:
		return 2 * time.Second
	case StagePack:
		return 30 * time.Second
	case StageDigest:
		return 5 * time.Second
	case StageSeal:
		return 10 * time.Second
	default:
		return 0
	}
}

// Progress tells where a build is. One is sent when a stage begins and one when it ends.
type Progress struct {
	Stage    Stage
	Done     bool
	Elapsed  time.Duration // of this stage, zero at its beginning
	Total    time.Duration // since the build began
	Expected time.Duration // of this stage
}
