package billingtest_test

import (
	"testing"

	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/billing/billingtest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	billingtest.Run(t, func(*testing.T) billing.Ledger { return billingtest.NewMemory() })
}
