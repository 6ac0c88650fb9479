// Package session is the vocabulary of work under a fence.
//
// A session owns one workspace. Whoever holds the newest generation of its
// [Fence] may change it, and only through one commit point: [Fences.Publish].
// Everything before a publication can be thrown away, nothing after it can be
// lost, and a stale holder can change nothing.
//
//	scope       whose work it is: workspace, environment, session, work item
//	tenure      one holder's turn: scope, owner, generation; safe to show
//	fence       a tenure with the token that proves it; never leaves the host
//	lease       a machine somebody allocated, by the id of its incarnation
//	candidate   an immutable checkpoint that no pointer names yet
//	publication the pointer: the last accepted candidates
//	intent      written before a machine is allocated, so that a crash leaks none
//	orphan      a machine that could not be ended, to be reaped later
//
// The ports below are consumed by the packages under this one; what implements
// them speaks to machines, stores and networks. Ports get a tenure and never a
// token. Every port honours its context; one that does not is abandoned by its
// caller after a grace, and what it returns late is undone.
package session
