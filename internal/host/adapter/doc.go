// Package adapter joins the nouns' real packages to the contracts that the host
// is written against: the guest's link, the picture and input of its screen, and
// the image store.
package adapter
