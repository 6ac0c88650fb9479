package control

import (
	"slices"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// Holder is who holds a lease, or wants to. Two are the same when name and
// authority are: nobody can pass for another under an authority of his own.
type Holder struct {
	Name string
	By   string // what admits it: token:ID or ticket:ID
	Kind api.ControlKind
	// Admin may take the lease from anybody.
	Admin bool
}

// Is says whether both are the same.
func (h Holder) Is(other Holder) bool { return h.Name == other.Name && h.By == other.By }

// title is what a holder is called in a sentence.
func (h Holder) title() string {
	if h.Name == string(h.Kind) {
		return "a " + h.Name
	}
	return string(h.Kind) + " " + h.Name
}

func (h Holder) none() bool { return h.By == "" }

const (
	// maxAsking bounds who is remembered to ask.
	maxAsking = 16
	// askingFor is how long somebody is remembered who asks no more.
	askingFor = time.Minute
)

type ask struct {
	Holder

	since, last time.Time
	ttl         time.Duration
}

// Lease is the state of one desktop's control. It knows no clock, keeps no lock
// and tells nobody; its methods either change it and answer nil, or answer an
// error with the code control_held and change nothing that is checked.
type Lease struct {
	Epoch  uint64
	Holder Holder // zero: nobody holds it
	Until  time.Time

	ttl    time.Duration
	asking []ask
}

// Held says whether anybody holds it.
func (l *Lease) Held() bool { return !l.Holder.none() }

// Mine says whether who holds it.
func (l *Lease) Mine(who Holder) bool { return l.Held() && l.Holder.Is(who) }

// Check answers nil when a call of who may be made under an epoch; 0 means the
// present one.
func (l *Lease) Check(who Holder, epoch uint64) error {
	if epoch != 0 && epoch != l.Epoch {
		e := l.refuse("the control lease is in epoch %d, not %d", l.Epoch, epoch)
		e.Hint = "look at the screen again: somebody else had control meanwhile"
		return e
	}
	if l.Held() && !l.Holder.Is(who) {
		e := l.refuse("%s has control", l.Holder.title())
		e.Hint = "wait for the end of it, or request it; its holder names himself with " + api.HeaderHolder + " (vmhost: --holder NAME)"
		return e
	}
	return nil
}

// refuse is an error that says who holds the lease.
func (l *Lease) refuse(format string, args ...any) *api.Error {
	e := api.Errorf(api.CodeControlHeld, format, args...)
	view := l.View(Holder{})
	view.Asking = nil
	e.Control = &view
	return e
}

// View is what the API shows to who.
func (l *Lease) View(who Holder) api.Control {
	c := api.Control{Held: l.Held(), Epoch: l.Epoch}
	if c.Held {
		c.Holder, c.Kind, c.Mine, c.Expires = l.Holder.Name, l.Holder.Kind, l.Mine(who), l.Until.UTC()
	}
	for _, a := range l.asking {
		c.Asking = append(c.Asking, api.ControlAsk{Holder: a.Name, Kind: a.Kind, Since: a.since.UTC()})
	}
	return c
}

// Request gives the lease to who when nobody holds it, and notes that who asks
// otherwise. fresh says that nobody knew of that yet.
func (l *Lease) Request(who Holder, ttl time.Duration, now time.Time) (fresh bool, err error) {
	if !l.Held() || l.Mine(who) {
		l.set(who, ttl, now)
		return false, nil
	}
	l.asking = slices.DeleteFunc(l.asking, func(a ask) bool { return now.Sub(a.last) > askingFor })
	i := slices.IndexFunc(l.asking, func(a ask) bool { return a.Is(who) })
	switch {
	case i >= 0:
		l.asking[i].last = now
	case len(l.asking) < maxAsking:
		l.asking = append(l.asking, ask{Holder: who, since: now, last: now, ttl: ttl})
		fresh = true
	}
	return fresh, l.Check(who, 0)
}

// Take gives the lease to who: a person takes it from an agent where preempt
// allows it, an admin from anybody.
func (l *Lease) Take(who Holder, preempt bool, ttl time.Duration, now time.Time) error {
	if l.Held() && !l.Holder.Is(who) && !who.Admin {
		person := who.Kind == api.ControlPerson && l.Holder.Kind == api.ControlAgent
		if !person || !preempt {
			return l.Check(who, 0)
		}
	}
	l.set(who, ttl, now)
	return nil
}

// Give hands the lease of who on to somebody who asks: to the one of that name, or
// the oldest.
func (l *Lease) Give(who Holder, epoch uint64, to string, now time.Time) error {
	if err := l.own(who, epoch); err != nil {
		return err
	}
	for i, a := range l.asking {
		if now.Sub(a.last) <= askingFor && (to == "" || to == a.Name) {
			l.asking = slices.Delete(l.asking, i, i+1)
			l.set(a.Holder, a.ttl, now)
			return nil
		}
	}
	e := api.Errorf(api.CodePrecondition, "nobody asks for control")
	if to != "" {
		e = api.Errorf(api.CodePrecondition, "%s does not ask for control", to)
	}
	e.Hint = "who wants it requests it first; or release it"
	return e
}

// Release ends the lease of who.
func (l *Lease) Release(who Holder, epoch uint64) error {
	if err := l.own(who, epoch); err != nil {
		return err
	}
	l.end()
	return nil
}

// Renew says that who is still there.
func (l *Lease) Renew(who Holder, epoch uint64, ttl time.Duration, now time.Time) error {
	if err := l.own(who, epoch); err != nil {
		return err
	}
	if ttl > 0 {
		l.ttl = ttl
	}
	l.heard(now)
	return nil
}

// Expire ends a lease whose holder was not heard of.
func (l *Lease) Expire(now time.Time) (ended bool) {
	if !l.Held() || now.Before(l.Until) {
		return false
	}
	l.end()
	return true
}

// own answers nil when who, or an admin in the place of any, may change the lease.
func (l *Lease) own(who Holder, epoch uint64) error {
	switch {
	case epoch != 0 && epoch != l.Epoch:
		return l.Check(who, epoch)
	case l.Mine(who), l.Held() && who.Admin:
		return nil
	case l.Held():
		return l.Check(who, 0)
	}
	e := l.refuse("%s does not have control: nobody has", who.Name)
	e.Hint = "take it first"
	return e
}

// heard moves the end of the lease.
func (l *Lease) heard(now time.Time) { l.Until = now.Add(l.ttl) }

// set makes who the holder, under a new epoch if that is a change.
func (l *Lease) set(who Holder, ttl time.Duration, now time.Time) {
	if !l.Mine(who) {
		l.Epoch++
	}
	l.Holder, l.ttl = who, ttl
	l.asking = slices.DeleteFunc(l.asking, func(a ask) bool { return a.Is(who) })
	l.heard(now)
}

// end lets nobody hold the lease, under a new epoch.
func (l *Lease) end() {
	l.Epoch++
	l.Holder, l.Until = Holder{}, time.Time{}
}
