// Package sandboxes is the routes by which a driver of a managed runtime, which runs
// elsewhere and is not ours, leases machines here: their life under the generations of
// the platform's fence, their files, and their programs.
package sandboxes
