// Package supervisor drives a harness through a supervisor in its machine, by the
// protocol openma-harness-supervisor-v1: one JSON object a line, over the
// supervisor's stdin and stdout.
//
//	host                                guest
//	start                          →
//	                               ←    ready, within the ready timeout
//	                               ←    heartbeat …, each event within the heartbeat timeout
//	checkpoint.request             →
//	                               ←    checkpoint; the guest waits
//	checkpoint.commit or .reject   →
//	                               ←    checkpoint.committed, when it was requested
//	                               ←    completed
//	drain                          →
//	                               ←    drained, within the drain timeout
//	stop                           →    instead of all that, at any time
//
// Whatever does not belong there ends the harness as failed. Package guest is the
// other end.
package supervisor
