package api

import "time"

// States of a recording.
const (
	RecordingRuns     = "recording"
	RecordingFinished = "finished"
)

// WebMMIME is the type of a recording's file.
const WebMMIME = "video/webm"

// Recording is what was seen on a desktop for a while, as one file.
type Recording struct {
	ID          string    `json:"id"`
	Desktop     string    `json:"desktop" doc:"Id"`
	Name        string    `json:"name" doc:"Of the desktop, when it began"`
	Incarnation string    `json:"incarnation"`
	State       string    `json:"state" enum:"recording,finished"`
	Codec       string    `json:"codec" doc:"vp9 or vp8"`
	Width       int       `json:"width" doc:"Of its pictures, in pixels"`
	Height      int       `json:"height"`
	Begun       time.Time `json:"begun"`
	Ended       time.Time `json:"ended,omitzero"`
	DurationMS  int64     `json:"duration_ms" doc:"So far, while it runs"`
	Bytes       int64     `json:"bytes" doc:"So far, while it runs"`
	By          string    `json:"by" doc:"Who began it"`
	Follows     string    `json:"follows,omitempty" doc:"Id of the one that this one goes on from: the screen's size changed, or that one was long"`
	Reason      string    `json:"reason,omitempty" enum:"stopped,size,long,gone,disk_full,host_stopped,host_died,failed" doc:"Why it ended"`
	Chapters    []Chapter `json:"chapters" doc:"What happened meanwhile, in order"`
}

// Chapter is a mark in a recording.
type Chapter struct {
	AtMS  int64  `json:"at_ms" doc:"From its start"`
	Title string `json:"title" doc:"Kinds of actions, or a change of control; never what was typed"`
}

// RecordingList is the recordings of a desktop, newest first.
type RecordingList struct {
	Recordings []Recording `json:"recordings"`
}
