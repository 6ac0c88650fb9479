package billing

// Charge is a row and its price.
type Charge struct {
	Row Row
	// Cost is nil when no rate is known: it is missing, not zero.
	Cost *Amount
	// Price is for one Unit of the kind; nil as Cost is.
	Price *Amount
	// Currency is an ISO 4217 code; empty when no rate is known.
	Currency string
	// Card is the version of the rate card; empty when no rate is known.
	Card string
}

// Pricer finds prices.
type Pricer interface {
	// Charge never fails: what has no rate has no cost.
	Charge(r Row) Charge
}

// Reasons why a total is not known. They are part of the API.
const (
	WarnCost     = "provider_cost_unavailable"
	WarnCurrency = "billing_currency_unavailable"
	WarnMixed    = "mixed_billing_currencies"
)

// Total sums charges. It is nil, with the warnings that say why, unless every
// charge has a cost and all have one currency. The total of no charge is 0 in
// no currency.
func Total(charges []Charge) (total *Amount, currency string, warnings []string) {
	var sum Amount
	var noCost, noCurrency, mixed bool
	for _, c := range charges {
		noCost = noCost || c.Cost == nil
		noCurrency = noCurrency || c.Currency == ""
		mixed = mixed || (currency != "" && c.Currency != "" && c.Currency != currency)
		if currency == "" {
			currency = c.Currency
		}
		if c.Cost != nil {
			sum = sum.Add(*c.Cost)
		}
	}
	for _, w := range []struct {
		is   bool
		code string
	}{{noCost, WarnCost}, {noCurrency, WarnCurrency}, {mixed, WarnMixed}} {
		if w.is {
			warnings = append(warnings, w.code)
		}
	}
	if warnings != nil {
		return nil, "", warnings
	}
	return &sum, currency, nil
}
