package main

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/deskfork/deskfork/internal/host/usage"
	"github.com/deskfork/deskfork/pkg/billing/focus"
	"github.com/deskfork/deskfork/pkg/billing/rate"
)

// usageFlags say how use is counted and priced.
type usageFlags struct {
	rates, database, host string
	party                 focus.Party
}

func (f *usageFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.rates, "rates", "", "rate card `file` that says what use costs (default: no price is known)")
	fl.StringVar(&f.database, "usage-database", "", "`URL` of a PostgreSQL database for use, shared by hosts; leave the password to PGPASSFILE (default: a file in the data directory)")
	fl.StringVar(&f.host, "usage-host", "", "`name` of this host in it, which no other host has (default: the host's name)")
	fl.StringVar(&f.party.Account, "billing-account", "", "billing `account` in FOCUS exports (default: Deskfork)")
	fl.StringVar(&f.party.Issuer, "invoice-issuer", "", "who bills, in FOCUS exports (default: Deskfork)")
}

// parse reads the rate card.
func (f *usageFlags) parse() (usage.Config, error) {
	c := usage.Config{Database: f.database, Host: f.host, Party: f.party}
	if c.Host == "" && c.Database != "" {
		name, err := os.Hostname()
		if err != nil {
			return c, fmt.Errorf("find the host's name; set --usage-host: %w", err)
		}
		c.Host = name
	}
	if f.rates == "" {
		return c, nil
	}
	file, err := os.Open(f.rates)
	if err != nil {
		return c, fmt.Errorf("open rate card: %w", err)
	}
	defer file.Close()
	if c.Rates, err = rate.Parse(file); err != nil {
		return c, fmt.Errorf("%s: %w", f.rates, err)
	}
	return c, nil
}
