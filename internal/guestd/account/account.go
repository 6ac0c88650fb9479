// Package account knows the users of the guest and acts in their name.
package account

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"

	"github.com/deskfork/deskfork/pkg/guest"
)

// User is an account of the guest. On systems without numeric ids the numbers
// are zero.
type User struct {
	Name   string
	UID    uint32
	GID    uint32
	Groups []uint32 // supplementary, GID included
	Home   string
	Shell  string
}

// Lookup finds a user by name or number. An empty name is the user that this
// process runs as. An unknown one is CodeNotFound. What was found is remembered
// while the system's user database stays as it is.
func Lookup(name string) (User, error) {
	return known.get(name, lookup)
}

func lookup(name string) (User, error) {
	u, err := find(name)
	if err != nil {
		var byName user.UnknownUserError
		var byID user.UnknownUserIdError
		if errors.As(err, &byName) || errors.As(err, &byID) {
			return User{}, &guest.Error{Code: guest.CodeNotFound, Message: fmt.Sprintf("user %q does not exist in the guest", name)}
		}
		return User{}, fmt.Errorf("look up user %q: %w", name, err)
	}
	return fill(u), nil
}

func find(name string) (*user.User, error) {
	if name == "" {
		return user.Current()
	}
	u, err := user.Lookup(name)
	if err == nil {
		return u, nil
	}
	if _, bad := strconv.ParseUint(name, 10, 32); bad != nil {
		return nil, err
	}
	return user.LookupId(name)
}

func fill(u *user.User) User {
	out := User{Name: u.Username, UID: number(u.Uid), GID: number(u.Gid), Home: u.HomeDir, Shell: shellOf(u.Username)}
	ids, err := u.GroupIds()
	if err != nil {
		ids = []string{u.Gid} // the primary group alone is a safe subset
	}
	for _, id := range ids {
		out.Groups = append(out.Groups, number(id))
	}
	return out
}

// number is 0 for ids that are no numbers, which happens only where ids are
// not used.
func number(id string) uint32 {
	n, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// LookupGroup finds the number of a group by name or number.
func LookupGroup(name string) (int, error) {
	if n, err := strconv.Atoi(name); err == nil {
		return n, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, &guest.Error{Code: guest.CodeNotFound, Message: fmt.Sprintf("group %q does not exist in the guest", name)}
	}
	return int(number(g.Gid)), nil
}

// Names turns numbers into names and remembers them. It is for one goroutine.
type Names struct {
	users, groups map[uint32]string
}

// User is the name of uid, or the number where it has none.
func (n *Names) User(uid uint32) string {
	return remember(&n.users, uid, func(id string) (string, error) {
		u, err := user.LookupId(id)
		if err != nil {
			return "", err
		}
		return u.Username, nil
	})
}

// Group is the name of gid, or the number where it has none.
func (n *Names) Group(gid uint32) string {
	return remember(&n.groups, gid, func(id string) (string, error) {
		g, err := user.LookupGroupId(id)
		if err != nil {
			return "", err
		}
		return g.Name, nil
	})
}

func remember(m *map[uint32]string, id uint32, find func(string) (string, error)) string {
	if name, ok := (*m)[id]; ok {
		return name
	}
	text := strconv.FormatUint(uint64(id), 10)
	name, err := find(text)
	if err != nil || name == "" {
		name = text
	}
	if *m == nil {
		*m = map[uint32]string{}
	}
	(*m)[id] = name
	return name
}
