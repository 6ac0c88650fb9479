// Package client is the Go SDK of Deskfork's HTTP API.
//
//	c, err := client.New("http://127.0.0.1:7717", client.WithTokenFile("/var/lib/deskfork/token"))
//	d, err := c.Desktops().Create(ctx, api.CreateDesktop{Image: "debian-xfce"}, client.Until(api.StageDrawn))
//	res, err := d.Exec(ctx, "uname", "-a")
//	shot, err := d.Screenshot(ctx)
//	err = d.Click(ctx, 100, 200)
//
// Errors that the server reports are *api.Error; so are a server that cannot be
// reached (code refused) and an ended context (codes cancelled and deadline),
// which errors.Is matches with their cause too. Branch on the code:
//
//	if errors.Is(err, &api.Error{Code: api.CodeNotFound}) { … }
//
// GETs are tried again with back-off when the connection is refused or reset
// and when a gateway answers 502 or 503; so are creating calls, which carry an
// Idempotency-Key, and calls that change nothing when they are made twice. A
// server without room (429) has not begun a call: all calls but uploads are sent
// again when its Retry-After is over. See WithRetries.
//
// A Client and everything reached from it may be used from many goroutines.
package client
