package account

import (
	"slices"
	"sync"
)

// known are the users that were looked up: reading the database is a large part
// of the start of a short program.
var known cache

// cache remembers users by the name they were asked for, until the files that
// say who they are change.
type cache struct {
	mu    sync.Mutex
	files []fileID
	users map[string]User
}

func (c *cache) get(name string, find func(string) (User, error)) (User, error) {
	now, ok := database() // before the reading: a change within it shows later
	if !ok {
		return find(name)
	}
	c.mu.Lock()
	if !slices.Equal(now, c.files) {
		c.files, c.users = now, nil
	}
	u, found := c.users[name]
	c.mu.Unlock()
	if found {
		return u.clone(), nil
	}
	u, err := find(name)
	if err != nil {
		return User{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Equal(now, c.files) {
		if c.users == nil {
			c.users = map[string]User{}
		}
		c.users[name] = u.clone()
	}
	return u, nil
}

func (u User) clone() User {
	u.Groups = slices.Clone(u.Groups)
	return u
}
