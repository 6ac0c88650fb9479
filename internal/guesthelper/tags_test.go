//go:build integration && !robotgo

package guesthelper_test

const buildTags = "integration"
