package billingtest

import (
	"context"

	"github.com/deskfork/deskfork/pkg/billing"
)

// All lists every row that a query selects, page by page.
func All(ctx context.Context, l billing.Ledger, q billing.Query) ([]billing.Row, error) {
	var all []billing.Row
	for {
		page, err := l.List(ctx, q)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
		q.Since = page[len(page)-1].ID
	}
}
