// Package leases keeps machines for somebody else's sessions: a platform that has
// its own fence, and leases machines here for the generations of it.
//
// What is written down, before anything is done, is who asked for which machine under
// which generation, and until when. So a call that is repeated makes nothing twice, a
// generation older than the newest one seen changes nothing, and a machine whose lease
// is not renewed is ended, by another process than the one that made it if need be.
package leases
