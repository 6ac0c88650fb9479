package api

import "time"

// UsageEvent is use of one kind by one incarnation in one window. It never
// changes. It is the only one of its incarnation, kind and start.
type UsageEvent struct {
	ID          int64     `json:"id" doc:"Grows in the order in which events can be seen"`
	Project     string    `json:"project"`
	Session     string    `json:"session,omitempty"`
	Agent       string    `json:"agent,omitempty"`
	Desktop     string    `json:"desktop,omitempty"`
	Incarnation string    `json:"incarnation" doc:"The run of the machine, or the session"`
	Kind        string    `json:"kind" doc:"What was counted; the value is in the unit that this names"`
	Value       int64     `json:"value"`
	Start       time.Time `json:"start" doc:"The window is half open and never crosses midnight, UTC"`
	End         time.Time `json:"end"`
	Recorded    time.Time `json:"recorded"`
}

// UsageEvents is a page of events that were not acked, in the order of their ids.
type UsageEvents struct {
	Events []UsageEvent `json:"events"`
	Count  int          `json:"count"`
}

// UsageQuery selects events. Zero members select all.
type UsageQuery struct {
	Project string
	Since   int64 // events with a greater id
	Limit   int   // 1 to 5000; 0: 500
}

// AckUsage says which events were billed.
type AckUsage struct {
	IDs []int64 `json:"ids" maxItems:"5000"`
}

// AckedUsage answers AckUsage.
type AckedUsage struct {
	Acked int `json:"acked" doc:"How many were not before"`
}

// CostQuery asks for a report of days, UTC, both included. Zero members: from the
// first of this month, until today, of everything that the caller may see.
type CostQuery struct {
	Start   string // YYYY-MM-DD
	End     string
	Project string
	Session string
}

// CostPeriod is the days of a report.
type CostPeriod struct {
	Start string `json:"start" doc:"First day, YYYY-MM-DD, UTC"`
	End   string `json:"end" doc:"Last day, included"`
	Days  int    `json:"days"`
}

// CostScope is whose cost is reported.
type CostScope struct {
	Type string `json:"type" enum:"account,project,session" doc:"account is everybody"`
	ID   string `json:"id"`
}

// CostAttribution says how far a report can be trusted.
type CostAttribution struct {
	Provider     string     `json:"provider"`
	Source       string     `json:"source" doc:"provider_metered: counted by who runs the desktops"`
	Granularity  string     `json:"granularity"`
	InvoiceGrade bool       `json:"is_invoice_grade"`
	Completeness string     `json:"data_completeness" enum:"complete,partial,unavailable"`
	ReconciledAt *time.Time `json:"reconciled_at"`
	Warnings     []string   `json:"warnings" doc:"Stable codes: provider_cost_unavailable, billing_currency_unavailable, mixed_billing_currencies, period_open"`
}

// Money is an amount in a currency.
type Money struct {
	Amount   string `json:"amount" doc:"Decimal with six digits after the point"`
	Currency string `json:"currency" doc:"ISO 4217; empty when nothing was used"`
}

// CostLine is the use of one kind in a report.
type CostLine struct {
	Kind     string `json:"kind"`
	Quantity string `json:"quantity" doc:"Decimal, of unit"`
	Unit     string `json:"unit"`
	Value    int64  `json:"value" doc:"The same in the unit that the kind names"`
	Cost     *Money `json:"cost" doc:"null when a rate is missing or currencies are mixed"`
}

// UsageDay is the use of one day, by kind, in the units that the kinds name.
type UsageDay struct {
	Day    string           `json:"day"`
	Values map[string]int64 `json:"values"`
}

// CostReport is what use has cost. What is missing is null, never 0.
type CostReport struct {
	Period      CostPeriod      `json:"period"`
	Scope       CostScope       `json:"scope"`
	Attribution CostAttribution `json:"attribution"`
	Lines       []CostLine      `json:"lines"`
	Daily       []UsageDay      `json:"daily"`
	Total       *Money          `json:"total_cost" doc:"null unless everything has a cost in one currency"`
}
