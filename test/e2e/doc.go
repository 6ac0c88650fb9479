// Package e2e proves the product from outside, on a real guest: it starts
// `vmhost serve`, creates one desktop, and asks of it through the Go client and
// the CLI what a user would, asserting on pixels, file hashes and text that is
// read back. It runs under the build tag integration; `make test` runs it.
package e2e
