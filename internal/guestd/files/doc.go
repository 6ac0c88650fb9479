// Package files serves the guest's file system.
//
// Every operation acts as a user: the one that the request names, else the
// handshake's. On Linux the kernel judges each call by that user's file system
// identity (account.User.Do), and what is made belongs to that user. Once a
// file is open its bytes move without that identity, which needs no right any
// more.
//
// Paths are absolute, or relative to the acting user's home, which ~ names
// too. They are cleaned as text before use; links in them are followed by the
// kernel as that user. Archives are unpacked below their directory only, by
// os.Root.
package files
