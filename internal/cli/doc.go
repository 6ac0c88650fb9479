// Package cli is the command line of vmhost: every verb that talks to a server
// over HTTP, through pkg/api/client and nothing else. It reads no environment
// and no global state: arguments, streams and terminal are passed in, so that
// tests run it in process.
//
// Standard output carries what was asked for, standard error all else. The exit
// status is 0, that of the error's code (api.Code.ExitStatus), 2 for a command
// line that does not parse, or, of exec, that of the program.
package cli
